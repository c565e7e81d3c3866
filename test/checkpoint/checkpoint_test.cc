#include "infini_train/include/checkpoint/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <limits>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/io/safetensors.h"

#include "test/checkpoint/training.h"
#include "test/support/temp_dir.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

namespace fs = std::filesystem;
using test::Contains;
using test::ReadFile;
using test::TempDir;
using test::Thrown;
using test::Training;
using test::WriteFile;

std::vector<std::string> Names(const fs::path &folder) {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder)) {
        names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

using Strings = std::vector<std::string>;

TEST(Checkpoint, HoldsWhatItSays) {
    const TempDir dir;
    Training training(0);
    training.TrainTo(3);
    CheckpointInfo info = training.info();
    info.flags["prompt"] = "ein \"Wort\", \xC3\xA4\n";
    info.numbers["worst"] = -std::numeric_limits<double>::infinity();
    const std::string path = dir.path() + "/deep/er/checkpoint";
    Checkpoint::Save(path + "/", training.parts(), info);
    EXPECT_EQ(Names(dir.path() + "/deep/er"), Strings({"checkpoint"}));
    EXPECT_EQ(Names(path),
              Strings({"checkpoint.json", "model.safetensors", "optimizer.safetensors", "training.safetensors"}));
    const CheckpointInfo read = Checkpoint::Verify(path);
    EXPECT_EQ(read.step, 3);
    EXPECT_EQ(read.flags, info.flags);
    EXPECT_EQ(read.numbers, info.numbers);
    EXPECT_FALSE(read.library_version.empty());
    // The weights are a file for anyone.
    const auto weights = io::LoadSafetensors(path + "/model.safetensors");
    EXPECT_EQ(weights.at("0.weight")->ToVector<float>(),
              training.model().StateDict().at("0.weight")->ToVector<float>());
    EXPECT_TRUE(Contains(ReadFile(path + "/checkpoint.json"), "\"step\": 3,"));
}

TEST(Checkpoint, AModelAlone) {
    const TempDir dir;
    const std::string path = dir.path() + "/checkpoint";
    Training training(0);
    training.TrainTo(2);
    const Generator::State random = DefaultGenerator().GetState();
    Checkpoint::Save(path, {.model = &training.model(), .generator = nullptr});
    Training other(0);
    other.TrainTo(1);
    Checkpoint::Load(path, {.model = &other.model(), .generator = nullptr});
    EXPECT_EQ(training.model().StateDict().at("3.bias")->ToVector<float>(),
              other.model().StateDict().at("3.bias")->ToVector<float>());
    EXPECT_NE(DefaultGenerator().GetState(), random);
    const auto before = other.State();
    EXPECT_EQ(Thrown<ValueError>([&] { Checkpoint::Load(path, {.model = &other.model()}); }),
              "Checkpoint: " + path + " holds no random generator");
    EXPECT_EQ(Thrown<ValueError>(
                  [&] { Checkpoint::Load(path, {.optimizer = other.optimizer().get(), .generator = nullptr}); }),
              "Checkpoint: " + path + " holds no optimizer");
    EXPECT_EQ(other.State(), before);
}

TEST(Checkpoint, WhatDoesntFitChangesNothing) {
    const TempDir dir;
    const std::string path = dir.path() + "/checkpoint";
    Training training(0);
    training.TrainTo(4);
    Checkpoint::Save(path, training.parts(), training.info());
    // Another width: the optimizer notices.
    Training wider(0, 17);
    wider.TrainTo(2);
    auto before = wider.State();
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { wider.Resume(path); }), "AdamW: the state doesn't fit"));
    EXPECT_EQ(wider.State(), before);
    // The model, which comes last, doesn't fit: optimizer and scheduler are put back.
    Training same(0);
    same.TrainTo(2);
    before = same.State();
    CheckpointParts parts = same.parts();
    parts.model = &wider.model();
    EXPECT_NE(Thrown<ValueError>([&] { Checkpoint::Load(path, parts); }), "");
    EXPECT_EQ(same.State(), before);
    // Other data.
    DataLoader other(std::make_shared<TensorDataset>(Tensor::Ones({3, 8}), Tensor::Ones({3})), 4, true, 11);
    parts = same.parts();
    parts.loader = &other;
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { Checkpoint::Load(path, parts); }), "num_samples is 50"));
    EXPECT_EQ(same.State(), before);
}

// A checkpoint of few bytes.
class SmallCheckpoint : public ::testing::Test {
protected:
    SmallCheckpoint() {
        optimizer_.param->set_grad(Tensor::Ones({1}));
        optimizer_.sgd->Step();
        Checkpoint::Save(path_, parts(), {.step = 7, .flags = {{"a", "b"}}, .numbers = {{"x", 0.5}}});
    }

    CheckpointParts parts() { return {.optimizer = optimizer_.sgd.get()}; }
    std::string Refusal() {
        return Thrown<IoError>([&] { Checkpoint::Load(path_, parts()); });
    }
    std::vector<fs::path> Files() const {
        std::vector<fs::path> files;
        for (const std::string &name : Names(path_)) {
            files.push_back(fs::path(path_) / name);
        }
        return files;
    }

    struct {
        TensorPtr param = test::Leaf(test::Floats{1});
        std::shared_ptr<Optimizer> sgd = optimizers::SGD::Create(0.5, 0.9)({param});
    } optimizer_;
    const TempDir dir_;
    const std::string path_ = dir_.path() + "/checkpoint";
};

TEST_F(SmallCheckpoint, EveryCutIsRefused) {
    ASSERT_EQ(Files().size(), 3U);
    for (const fs::path &file : Files()) {
        const std::string whole = ReadFile(file);
        for (size_t size = 0; size < whole.size(); ++size) {
            WriteFile(file, whole.substr(0, size));
            EXPECT_TRUE(Contains(Refusal(), file.string())) << file << " " << size;
        }
        WriteFile(file, whole + "\n");
        EXPECT_TRUE(Contains(Refusal(), file.string()));
        fs::remove(file);
        EXPECT_TRUE(Contains(Refusal(), file.string() + ": expected a readable file"));
        WriteFile(file, whole);
        EXPECT_EQ(Refusal(), "");
    }
    EXPECT_EQ(Checkpoint::Load(path_, parts()).step, 7);
}

TEST_F(SmallCheckpoint, EveryFlippedBitIsRefused) {
    for (const fs::path &file : Files()) {
        std::string bytes = ReadFile(file);
        for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
            const auto mask = static_cast<char>(1 << (bit % 8));
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
            WriteFile(file, bytes);
            EXPECT_TRUE(Contains(Refusal(), "Checkpoint: " + file.string())) << file << " bit " << bit;
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
        }
        WriteFile(file, bytes);
    }
    EXPECT_EQ(Refusal(), "");
}

TEST_F(SmallCheckpoint, ADescriptionThatIsNone) {
    const fs::path file = fs::path(path_) / "checkpoint.json";
    for (const char *text : {"", "[]", "{}", "{\"format_version\": 1}", "\xFF", "{\"format_version\": \"1\"}"}) {
        WriteFile(file, text);
        EXPECT_TRUE(Contains(Refusal(), "a checkpoint's description in JSON")) << text;
    }
    WriteFile(file, "{\"format_version\": 2}");
    EXPECT_TRUE(Contains(Refusal(), "expected format version 1, found 2"));
    EXPECT_TRUE(Contains(Thrown<IoError>([&] { Checkpoint::Verify(dir_.path() + "/none"); }), "No such file"));
}

TEST_F(SmallCheckpoint, AFailedSaveLeavesTheOldOne) {
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] {
                             Checkpoint::Save(path_, parts(), {.flags = {{"a", "\xFF"}}});
                         }),
                         "expected flags in UTF-8"));
    EXPECT_NE(Thrown<ValueError>([&] { Checkpoint::Save(path_, parts(), {.numbers = {{"", 1}}}); }), "");
    const std::string blocked = dir_.path() + "/file";
    WriteFile(blocked, "x");
    EXPECT_TRUE(
        Contains(Thrown<IoError>([&] { Checkpoint::Save(blocked + "/checkpoint", parts()); }), "can't be made"));
    EXPECT_EQ(Checkpoint::Load(path_, parts()).step, 7);
    EXPECT_EQ(Names(dir_.path()), Strings({"checkpoint", "file"}));
    // What a crash has left under the temporary name is in nobody's way.
    WriteFile(path_ + ".tmp", "x");
    Checkpoint::Save(path_, parts(), {.step = 8});
    EXPECT_EQ(Checkpoint::Load(path_, parts()).step, 8);
    EXPECT_EQ(Names(dir_.path()), Strings({"checkpoint", "file"}));
}

// Killed at any moment, a process that saves again and again leaves a whole checkpoint.
TEST_F(SmallCheckpoint, SurvivesBeingKilled) {
    for (int i = 0; i < 20; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            try {
                for (int64_t step = 100;; ++step) {
                    Checkpoint::Save(path_, parts(), {.step = step});
                }
            } catch (...) {
                ::_exit(1);
            }
        }
        ASSERT_GT(child, 0);
        std::this_thread::sleep_for(std::chrono::microseconds(2000 + 700 * i));
        ::kill(child, SIGKILL);
        int status = 0;
        ::waitpid(child, &status, 0);
        EXPECT_TRUE(WIFSIGNALED(status));  // not by an exception
        EXPECT_EQ(Refusal(), "");
    }
}

TEST_F(SmallCheckpoint, AFolderKeepsTheLastOnes) {
    const std::string runs = dir_.path() + "/runs";
    CheckpointFolder folder(runs, 2);
    EXPECT_FALSE(folder.Latest());
    EXPECT_FALSE(folder.LoadLatest(parts()));
    for (const int64_t step : {5, 10, 15, 123456789}) {
        const std::string saved = folder.Save(parts(), {.step = step});
        EXPECT_EQ(saved, folder.Latest());
    }
    EXPECT_EQ(Names(runs), Strings({"step_00000015", "step_123456789"}));
    EXPECT_EQ(folder.List(), Strings({runs + "/step_00000015", runs + "/step_123456789"}));
    EXPECT_EQ(folder.LoadLatest(parts())->step, 123456789);
    // One of an earlier step than those that there are is kept, too; what crashes have left is not.
    fs::create_directories(runs + "/step_00000099.tmp/x");
    fs::create_directories(runs + "/step_00000098.removed");
    fs::create_directories(runs + "/step_mine");
    folder.Save(parts(), {.step = 7});
    EXPECT_EQ(Names(runs), Strings({"step_00000007", "step_00000015", "step_123456789", "step_mine"}));
    CheckpointFolder(runs, 0).Save(parts(), {.step = 8});
    EXPECT_EQ(folder.List().size(), 4U);
    WriteFile(*folder.Latest() + "/training.safetensors", "");
    EXPECT_NE(Thrown<IoError>([&] { folder.LoadLatest(parts()); }), "");
    EXPECT_EQ(Thrown<ValueError>([&] { folder.Save(parts(), {.step = -1}); }),
              "CheckpointFolder: expected a step >= 0, got -1");
}

}  // namespace
}  // namespace infini_train
