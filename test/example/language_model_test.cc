// The parts of the language models' trainers; how they work together is in gpt2_trainer_test.sh.

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "example/common/flags.h"
#include "example/common/text_file.h"
#include "example/language_model/batch_stream.h"
#include "example/language_model/machine.h"
#include "example/language_model/model_setup.h"
#include "example/language_model/run_log.h"
#include "example/language_model/schedule.h"
#include "test/support/temp_dir.h"

namespace infini_train::example {
namespace {

using ::infini_train::test::MessageOf;

TEST(TextFile, TheValidationPartBeginsBetweenCharacters) {
    EXPECT_EQ(ValidationBegin("abcdefghij", 0.1), 9U);
    EXPECT_EQ(ValidationBegin("\u00e9\u00e9\u00e9\u00e9\u00e9", 0.4), 6U);  // three characters of two bytes
    EXPECT_EQ(ValidationBegin("abc", 0), 3U);
    EXPECT_EQ(ValidationBegin("", 0.5), 0U);
    EXPECT_THROW(ReadTextFile("nowhere/text"), IoError);
    EXPECT_THROW(ReadTextFile("."), IoError);
}

TEST(ModelSetup, AConfigComesBackFromItsText) {
    nn::TransformerConfig config = nn::TransformerConfig::Llama(32000, 2048, 3, 8, 64);
    config.kv_heads = 2;
    config.hidden = 96;
    config.eps = 1e-6;
    config.dropout = 0.1;
    config.rope_scaling = {nn::RopeScaling::Type::kLlama3, 8.0, 1.0, 4.0, 8192.0};
    EXPECT_EQ(ConfigFromText(ConfigToText(config), "here"), config);
    auto values = ConfigToText(config);
    values.erase("config.width");
    EXPECT_EQ(MessageOf<IoError>([&] { ConfigFromText(values, "here"); }),
              "here: expected a checkpoint of gpt2 or llama, found none of its 'config.width'");
    values["config.width"] = "wide";
    EXPECT_EQ(MessageOf<IoError>([&] { ConfigFromText(values, "here"); }),
              "here: 'config.width': expected a number, found 'wide'");
}

TEST(Machine, CountsTheOperationsOfATokenAsByHand) {
    nn::TransformerConfig config;
    config.vocab_size = 10;
    config.context = 8;
    config.layers = 2;
    config.heads = 1;
    config.width = 4;
    config.bias = false;
    // A block has 4 * 12 + 4 * 4 + 2 * 4 * 16 weights in matrices and 2 * 4 in norms, the output layer 10 * 4, the last
    // norm 4. Attention: 2 blocks, 4 wide, to half of 8 positions, 2 products of 2 operations, three times.
    EXPECT_EQ(TrainingFlopsPerToken(config, 8), 6.0 * (2 * (48 + 16 + 128 + 8) + 40 + 4) + 3.0 * 2 * 4 * 4 * 2 * 2);
    config.tied = false;  // another table, but only to look up in
    EXPECT_EQ(TrainingFlopsPerToken(config, 8), 6.0 * (2 * (48 + 16 + 128 + 8) + 40 + 4) + 3.0 * 2 * 4 * 4 * 2 * 2);
}

std::shared_ptr<Optimizer> OneParameter(double rate) {
    const TensorPtr parameter = Tensor::Zeros({1});
    parameter->set_requires_grad(true);
    return std::make_shared<optimizers::SGD>(TensorList{parameter}, rate);
}

TEST(ScheduleTest, WarmsUpAndFalls) {
    const auto optimizer = OneParameter(1.0);
    Schedule schedule({.kind = "linear", .learning_rate = 1, .min_lr = 0.5, .warmup_steps = 3, .decay_steps = 7},
                      optimizer);
    // A quarter more at each step up to 1, then an eighth less each down to the half, which stays.
    for (const double rate : {0.25, 0.5, 0.75, 1.0, 0.875, 0.75, 0.625, 0.5, 0.5}) {
        EXPECT_NEAR(optimizer->learning_rate(), rate, 1e-12);
        schedule.AfterStep();
        schedule.AfterValidation(1.0);  // means nothing here
    }
    EXPECT_EQ(schedule.Describe(), "linear, learning rate 1 to 0.5 at step 7, warm-up 3 steps");
}

TEST(ScheduleTest, APlateauFollowsTheLoss) {
    const auto optimizer = OneParameter(1.0);
    Schedule schedule({.kind = "plateau", .learning_rate = 1, .min_lr = 0.25, .gamma = 0.5}, optimizer);
    for (int i = 0; i < 4; ++i) {
        schedule.AfterStep();
        schedule.AfterValidation(2.0);  // the first is the best, two are let pass
    }
    EXPECT_EQ(optimizer->learning_rate(), 0.5);
    EXPECT_THROW(Schedule({.kind = "plateau", .warmup_steps = 1}, optimizer), UsageError);
    EXPECT_THROW(Schedule({.kind = "cosine", .warmup_steps = 10, .decay_steps = 5}, optimizer), UsageError);
}

TEST(BatchStreamTest, GoesOnFromOneEpochToTheNext) {
    const auto numbers = Tensor::FromVector<int64_t>({0, 1, 2, 3, 4}, std::vector<int64_t>{5, 1});
    const auto dataset = std::make_shared<TensorDataset>(numbers, numbers);
    BatchStream stream(dataset, 2, /*shuffle=*/false, 0, 1, 2);
    for (const int64_t first : {0, 2, 0, 2}) {  // 4 would be alone in its batch
        EXPECT_EQ(stream.Next().first->ToVector<int64_t>(), (std::vector<int64_t>{first, first + 1}));
    }
    // A state at the end of an epoch, too, is followed by the next batch.
    BatchStream other(dataset, 2, false, 0, 0, 2);
    other.loader().LoadStateDict(stream.loader().StateDict());
    EXPECT_EQ(other.Next().first->ToVector<int64_t>(), (std::vector<int64_t>{0, 1}));
    EXPECT_THROW(BatchStream(dataset, 6, false, 0, 0, 2), ValueError);
}

TEST(RunLogTest, KeepsTheStepsBeforeTheOneItGoesOnFrom) {
    const test::TempDir folder;
    const std::string &path = folder.path();
    {
        RunLog log(path, "", 0);
        for (int64_t step = 1; step <= 3; ++step) {
            log.Add({step, 10 * step, 0.1 + static_cast<double>(step), 1e-3, 0.5, 1000.4});
        }
    }
    std::ofstream(path + "/history.csv", std::ios::app) << "4,40,0.";  // cut by a crash
    RunLog log(path, "", 2);
    log.Add({3, 30, 7, 1e-3, 0.5, 1000, 6.5});
    EXPECT_EQ(ReadTextFile(log.csv_path()),
              "step,tokens,train_loss,validation_loss,learning_rate,grad_norm,tokens_per_second\n"
              "1,10,1.1,,0.001,0.5,1000\n2,20,2.1,,0.001,0.5,1000\n3,30,7,6.5,0.001,0.5,1000\n");
    log.WritePlot("a run");
    EXPECT_EQ(ReadTextFile(log.plot_path()).substr(1, 3), "PNG");
}

}  // namespace
}  // namespace infini_train::example
