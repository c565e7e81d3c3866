#include "infini_train/include/core/dispatcher.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "test/support/message_of.h"

namespace infini_train {
namespace {

using test::MessageOf;

// A tag of the user's own needs nothing from the library.
struct ScaledSum : KernelTag<double(const std::vector<double> &values, double factor)> {
    static constexpr const char *kName = "ScaledSum";
};
double ScaledSumKernel(const std::vector<double> &values, double factor) {
    double sum = 0;
    for (const double value : values) {
        sum += value;
    }
    return sum * factor;
}

struct Missing : KernelTag<void()> {
    static constexpr const char *kName = "Missing";
};
struct OnlyCuda : KernelTag<void()> {
    static constexpr const char *kName = "OnlyCuda";
};
struct Twice : KernelTag<void()> {
    static constexpr const char *kName = "Twice";
};
struct Consume : KernelTag<int(std::unique_ptr<int> owned, int &counter)> {
    static constexpr const char *kName = "Consume";
};
struct Failing : KernelTag<void()> {
    static constexpr const char *kName = "Failing";
};
struct Raced : KernelTag<int()> {
    static constexpr const char *kName = "Raced";
};

TEST(DispatcherTest, RunsTheRegisteredKernel) {
    EXPECT_FALSE(HasKernel<ScaledSum>(DeviceType::kCPU));
    RegisterKernel<ScaledSum>(DeviceType::kCPU, &ScaledSumKernel);
    EXPECT_TRUE(HasKernel<ScaledSum>(DeviceType::kCPU));
    EXPECT_FALSE(HasKernel<ScaledSum>(DeviceType::kCUDA));
    EXPECT_EQ(Dispatch<ScaledSum>(Device(), std::vector<double>{1, 2, 3}, 2), 12.0);
    EXPECT_EQ(MessageOf<NotImplementedError>(
                  [] { Dispatch<ScaledSum>(Device(DeviceType::kCUDA), std::vector<double>{}, 1); }),
              "ScaledSum: no kernel for CUDA; available: CPU");
}

TEST(DispatcherTest, SaysWhatIsMissing) {
    EXPECT_EQ(MessageOf<NotImplementedError>([] { Dispatch<Missing>(Device()); }),
              "Missing: no kernel for CPU; available: none");
    RegisterKernel<OnlyCuda>(DeviceType::kCUDA, [] {});
    EXPECT_EQ(MessageOf<NotImplementedError>([] { Dispatch<OnlyCuda>(Device()); }),
              "OnlyCuda: no kernel for CPU; available: CUDA");
}

TEST(DispatcherTest, RefusesASecondKernel) {
    RegisterKernel<Twice>(DeviceType::kCPU, [] {});
    EXPECT_EQ(MessageOf<ValueError>([] { RegisterKernel<Twice>(DeviceType::kCPU, [] { throw 1; }); }),
              "Twice: expected no kernel for CPU yet, got a second one");
    Dispatch<Twice>(Device());  // still the first
}

TEST(DispatcherTest, ForwardsReferencesAndMoves) {
    RegisterKernel<Consume>(DeviceType::kCPU, [](std::unique_ptr<int> owned, int &counter) {
        ++counter;
        return *owned;
    });
    int counter = 0;
    EXPECT_EQ(Dispatch<Consume>(Device(), std::make_unique<int>(5), counter), 5);
    EXPECT_EQ(counter, 1);
}

TEST(DispatcherTest, LetsAKernelsExceptionThrough) {
    RegisterKernel<Failing>(DeviceType::kCPU, [] { throw std::runtime_error("inside"); });
    EXPECT_EQ(MessageOf<std::runtime_error>([] { Dispatch<Failing>(Device()); }), "inside");
}

TEST(DispatcherTest, OneOfManyThreadsRegisters) {
    std::atomic<int> registered{0}, refused{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            try {
                RegisterKernel<Raced>(DeviceType::kCPU, [] { return 3; });
                ++registered;
            } catch (const ValueError &) {
                ++refused;
            }
            EXPECT_EQ(Dispatch<Raced>(Device()), 3);
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(registered, 1);
    EXPECT_EQ(refused, 3);
}

}  // namespace
}  // namespace infini_train
