// A training that was interrupted goes on as if it hadn't been.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/checkpoint/checkpoint.h"

#include "test/checkpoint/training.h"
#include "test/support/temp_dir.h"

namespace infini_train {
namespace {

using test::TempDir;
using test::Training;

TEST(Resume, BitForBitForAnyNumberOfWorkers) {
    const TempDir dir;
    constexpr int64_t kSteps = 31;  // two epochs of 13 batches, and a part
    std::vector<double> expected;
    std::vector<std::vector<double>> final_state;
    for (const size_t workers : {0, 2, 8}) {
        Training whole(workers);
        const std::vector<double> losses = whole.TrainTo(kSteps);
        if (expected.empty()) {
            expected = losses;
            final_state = whole.State();
        }
        EXPECT_EQ(losses, expected) << workers;
        EXPECT_EQ(whole.State(), final_state) << workers;
        // Before the first step, within and at the end of an epoch, and in the next one.
        for (const int64_t saved : {0, 5, 13, 20}) {
            const std::string path = dir.path() + "/checkpoint";
            {
                Training first(workers);
                first.TrainTo(saved);
                Checkpoint::Save(path, first.parts(), first.info());
                first.TrainTo(saved + 3);  // what comes after the checkpoint is lost
            }
            ManualSeed(99);
            Training second(workers);
            second.Resume(path);
            const std::vector<double> rest = second.TrainTo(kSteps);
            EXPECT_EQ(rest, std::vector<double>(expected.begin() + saved, expected.end())) << workers << " " << saved;
            EXPECT_EQ(second.State(), final_state) << workers << " " << saved;
        }
    }
}

}  // namespace
}  // namespace infini_train
