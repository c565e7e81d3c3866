// The emulation finds what is wrong with the kernels here, names the kernel and the line, and accuses no correct one,
// in whatever order threads run.

#include <algorithm>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/faults/buffer.h"
#include "test/cuda_emulation/faults/fault.h"
#include "test/cuda_emulation/runtime/options.h"
#include "test/cuda_emulation/runtime/report.h"

namespace infini_train::test {

// For GoogleTest's messages.
void PrintTo(const Fault &fault, std::ostream *stream) {
    *stream << fault.kernel;
}
void PrintTo(const Correct &correct, std::ostream *stream) {
    *stream << correct.name;
}

}  // namespace infini_train::test

namespace infini_train {
namespace {

using cuda_emulation::CurrentOptions;
using cuda_emulation::Defect;
using cuda_emulation::Options;
using cuda_emulation::Order;
using cuda_emulation::Report;
using test::Buffer;
using test::Correct;
using test::Fault;
using test::Faults;

// All orders of threads, one after the other; the environment's again at the end.
template <typename Body>
void InAllOrders(Body &&body) {
    const Options before = CurrentOptions();
    const struct {
        Order order;
        uint64_t seed;
    } orders[] = {{Order::kForward, 1}, {Order::kReverse, 1}, {Order::kRandom, 1},
                  {Order::kRandom, 2},  {Order::kRandom, 3},  {Order::kRandom, 4}};
    for (const auto &[order, seed] : orders) {
        SCOPED_TRACE("order " + std::to_string(static_cast<int>(order)) + ", seed " + std::to_string(seed));
        CurrentOptions().order = order;
        CurrentOptions().seed = seed;
        body();
    }
    CurrentOptions() = before;
}

// The line with the kernel's mistake.
int LineOf(const Fault &fault) {
    std::ifstream file("test/cuda_emulation/faults/" + fault.file);
    const std::string mark = "// fault: " + fault.kernel;
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
        if (line.size() >= mark.size() && line.ends_with(mark)) {
            return number;
        }
    }
    return -1;
}

// Also if the line has called an inlined function.
bool HasLine(const cuda_emulation::Site &site, const std::string &place) {
    return (site.chain + " ").find(place + " ") != std::string::npos;
}

std::string Listed(const std::vector<Report> &reports) {
    std::string text = "reports:";
    for (const Report &report : reports) {
        text += "\n  " + report.text;
    }
    return text;
}

Faults AllFaults() {
    Faults all;
    for (const Faults &some : {test::MemoryFaults(), test::OrderFaults(), test::SynchronisationFaults()}) {
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

class FaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultTest, IsFound) {
    const Fault &fault = GetParam();
    if (fault.needs_checker && !cuda_emulation::checker::IsActive()) {
        GTEST_SKIP() << "for the checked program";
    }
    const int line = LineOf(fault);
    ASSERT_GT(line, 0) << "no comment marks the line";
    const std::string place = fault.file + ":" + std::to_string(line);
    InAllOrders([&] {
        try {
            fault.run();
            (void)cudaDeviceSynchronize();
        } catch (const CudaError &) {
            // What a launch throws after its kernel has failed.
        }
        const std::vector<Report> reports = cuda_emulation::TakeReports();
        (void)cudaGetLastError();
        const bool found = std::any_of(reports.begin(), reports.end(), [&](const Report &report) {
            const bool is_there = HasLine(report.site, place) || HasLine(report.other, place);
            const bool is_it = report.defect == fault.defect || report.defect == fault.or_else;
            return is_it && is_there && report.kernel.ends_with(fault.kernel);
        });
        EXPECT_TRUE(found) << place << "; " << Listed(reports);
    });
}

INSTANTIATE_TEST_SUITE_P(All, FaultTest, ::testing::ValuesIn(AllFaults()),
                         [](const auto &info) { return info.param.kernel; });

std::vector<Correct> AllCorrect() {
    std::vector<Correct> all = test::CorrectKernels();
    for (const Correct &correct : test::CorrectWarpKernels()) {
        all.push_back(correct);
    }
    return all;
}

class CorrectTest : public ::testing::TestWithParam<Correct> {};

TEST_P(CorrectTest, IsNotAccused) {
    InAllOrders([&] {
        EXPECT_TRUE(GetParam().run());
        const std::vector<Report> reports = cuda_emulation::TakeReports();
        EXPECT_TRUE(reports.empty()) << Listed(reports);
    });
}

INSTANTIATE_TEST_SUITE_P(All, CorrectTest, ::testing::ValuesIn(AllCorrect()),
                         [](const auto &info) { return info.param.name; });

// ---- The host's -----------------------------------------------------------------------------------------------------

TEST(HostFaults, TouchesDeviceMemory) {
    const Options before = CurrentOptions();
    CurrentOptions().guard_every = 1;
    const Buffer<int> buffer(std::vector<int>{1, 2, 3});
    EXPECT_EQ(*static_cast<volatile int *>(buffer.data() + 1), 2);
    const auto reports = cuda_emulation::TakeReports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].defect, Defect::kHostAccess);
    EXPECT_EQ(reports[0].kernel, "");
    CurrentOptions() = before;
}

TEST(HostFaults, FreesTwice) {
    void *data = nullptr;
    ASSERT_EQ(cudaMalloc(&data, 100), cudaSuccess);
    EXPECT_EQ(cudaFree(data), cudaSuccess);
    EXPECT_EQ(cudaFree(data), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    const auto reports = cuda_emulation::TakeReports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].defect, Defect::kWrongFree);
}

TEST(HostFaults, CopiesBeyondAnAllocation) {
    const Buffer<int> buffer(std::vector<int>{1, 2, 3});
    int values[4] = {};
    EXPECT_EQ(cudaMemcpy(values, buffer.data(), sizeof(values), cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(values, buffer.data(), 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(HostFaults, CopiesUninitialisedMemory) {
    if (!cuda_emulation::checker::IsActive()) {
        GTEST_SKIP() << "for the checked program";
    }
    const Buffer<int> buffer(3);
    (void)buffer.Values();
    const auto reports = cuda_emulation::TakeReports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].defect, Defect::kUninitialised);
}

TEST(HostFaults, MemoryBeginsAsNaN) {
    if (cuda_emulation::checker::IsActive()) {
        GTEST_SKIP() << "which the checker reports";
    }
    const Buffer<float> buffer(3);
    for (const float value : buffer.Values()) {
        EXPECT_NE(value, value);
    }
}

}  // namespace
}  // namespace infini_train
