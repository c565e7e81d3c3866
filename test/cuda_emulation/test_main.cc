// Runs the tests; what the emulation finds wrong with a kernel fails the test that ran it.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "test/cuda_emulation/emulator/defects.h"

namespace {

class FailOnDefects : public ::testing::EmptyTestEventListener {
    void OnTestEnd(const ::testing::TestInfo & /*info*/) override {
        cudaDeviceSynchronize();
        for (const std::string &defect : cuda_emulation::TakeDefects()) {
            ADD_FAILURE() << "CUDA emulation: " << defect;
        }
    }
};

}  // namespace

int main(int argc, char **argv) {
    ::testing::InitGoogleTest(&argc, argv);
    // Before the listener that prints, so that it counts what is added here.
    auto &listeners = ::testing::UnitTest::GetInstance()->listeners();
    auto *const printer = listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailOnDefects);
    listeners.Append(printer);
    return RUN_ALL_TESTS();
}
