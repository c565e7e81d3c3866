// A test fails if the emulation has found a defect while it ran.

#include <gtest/gtest.h>

#include "test/cuda_emulation/runtime/report.h"

namespace {

class Listener : public ::testing::EmptyTestEventListener {
    void OnTestEnd(const ::testing::TestInfo & /*test*/) override {
        for (const auto &report : cuda_emulation::TakeReports()) {
            ADD_FAILURE() << report.text;
        }
    }
};

}  // namespace

int main(int argc, char **argv) {
    ::testing::InitGoogleTest(&argc, argv);
    // Before the printer, which counts the failures of a test that has ended.
    auto &listeners = ::testing::UnitTest::GetInstance()->listeners();
    ::testing::TestEventListener *const printer = listeners.Release(listeners.default_result_printer());
    listeners.Append(new Listener);
    listeners.Append(printer);
    return RUN_ALL_TESTS();
}
