#include "example/common/signal.h"

#include <csignal>

#include <gtest/gtest.h>

namespace infini_train::example {
namespace {

TEST(StopOnSignalTest, TheFirstSignalOnlySetsTheFlag) {
    const StopOnSignal stop;
    EXPECT_FALSE(StopRequested());
    raise(SIGINT);
    EXPECT_TRUE(StopRequested());
}

TEST(StopOnSignalTest, ANewOneForgetsTheRequest) {
    {
        const StopOnSignal stop;
        raise(SIGTERM);
        EXPECT_TRUE(StopRequested());
    }
    EXPECT_TRUE(StopRequested());
    const StopOnSignal again;
    EXPECT_FALSE(StopRequested());
}

TEST(StopOnSignalTest, TheSignalsAreGivenBack) {
    struct sigaction before = {};
    struct sigaction after = {};
    sigaction(SIGINT, nullptr, &before);
    {
        const StopOnSignal stop;
        raise(SIGINT);
    }
    sigaction(SIGINT, nullptr, &after);
    EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(StopOnSignalDeathTest, TheSecondSignalEndsTheProgram) {
    EXPECT_EXIT(
        {
            const StopOnSignal stop;
            raise(SIGINT);
            if (StopRequested()) {
                raise(SIGINT);
            }
        },
        ::testing::KilledBySignal(SIGINT), "Ctrl-C again ends at once");
}

}  // namespace
}  // namespace infini_train::example
