#include "example/common/flags.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/support/temp_dir.h"

DEFINE_int32(bs, 64, "images in a batch");
DEFINE_double(lr, 0.001, "learning rate");
DEFINE_string(dataset, "",
              "folder with the data set; empty: Fashion-MNIST from Debian's package dataset-fashion-mnist");
DEFINE_uint64(seed, 1, "seed of the random numbers");
DEFINE_int32(num_epoch, 5, "times through the training images");
DEFINE_bool(shuffle, true, "mix the images anew in each epoch");
DEFINE_bool(nothing_listed, false, "stands in no group");

namespace infini_train::example {
namespace {

using ::infini_train::test::MessageOf;
using ::infini_train::test::TempDir;

ProgramInfo Info() {
    return {"mnist",
            "trains a small net on MNIST.",
            "1.2.3",
            {{"Data", {"dataset", "bs", "shuffle"}}, {"Training", {"lr", "num_epoch", "seed"}}},
            {"mnist --bs 128"}};
}

class FlagsTest : public ::testing::Test {
protected:
    static ParseResult Parse(const std::vector<std::string> &arguments) { return ParseFlags(Info(), arguments); }

    static std::string ParseError(const std::vector<std::string> &arguments) {
        return MessageOf<UsageError>([&] { Parse(arguments); });
    }

    gflags::FlagSaver saver_;
};

TEST_F(FlagsTest, SetsFlagsInEverySpelling) {
    EXPECT_EQ(Parse({"--bs=32", "-lr", "-0.5", "--num-epoch", "3", "--noshuffle", "--dataset", "a=b"}),
              ParseResult::kRun);
    EXPECT_EQ(FLAGS_bs, 32);
    EXPECT_EQ(FLAGS_lr, -0.5);
    EXPECT_EQ(FLAGS_num_epoch, 3);
    EXPECT_FALSE(FLAGS_shuffle);
    EXPECT_EQ(FLAGS_dataset, "a=b");
    EXPECT_EQ(FLAGS_seed, 1U);
    Parse({"--shuffle", "--dataset=", "--bs", "1", "--bs", "2"});
    EXPECT_TRUE(FLAGS_shuffle);
    EXPECT_EQ(FLAGS_dataset, "");
    EXPECT_EQ(FLAGS_bs, 2);
}

TEST_F(FlagsTest, SuggestsTheFlagThatWasMeant) {
    EXPECT_EQ(ParseError({"--datset", "x"}), "unknown flag --datset; did you mean --dataset?");
    EXPECT_EQ(ParseError({"--epoch=3"}), "unknown flag --epoch; did you mean --num_epoch?");
    EXPECT_EQ(ParseError({"--xyzzy"}), "unknown flag --xyzzy");
    EXPECT_EQ(ParseError({"--hlep"}), "unknown flag --hlep; did you mean --help?");
    EXPECT_EQ(ParseError({"--nobs"}), "unknown flag --nobs");
    // gflags' own would end the program when its file is missing.
    EXPECT_EQ(ParseError({"--flagfile=/none"}), "unknown flag --flagfile");
}

TEST_F(FlagsTest, SaysWhichValueIsWrong) {
    EXPECT_EQ(ParseError({"--bs", "abc"}), "flag --bs: expected a whole number, got 'abc'");
    EXPECT_EQ(ParseError({"--bs=1.5"}), "flag --bs: expected a whole number, got '1.5'");
    EXPECT_EQ(ParseError({"--bs=99999999999"}), "flag --bs: expected a whole number, got '99999999999'");
    EXPECT_EQ(ParseError({"--bs="}), "flag --bs: expected a whole number, got ''");
    EXPECT_EQ(ParseError({"--lr=fast"}), "flag --lr: expected a number, got 'fast'");
    EXPECT_EQ(ParseError({"--seed=-1"}), "flag --seed: expected a whole number of at least 0, got '-1'");
    EXPECT_EQ(ParseError({"--shuffle=maybe"}), "flag --shuffle: expected true or false, got 'maybe'");
    EXPECT_EQ(FLAGS_bs, 64);
}

TEST_F(FlagsTest, SaysWhichValueIsMissing) {
    EXPECT_EQ(ParseError({"--bs"}), "flag --bs: expected a whole number after it, got nothing");
    EXPECT_EQ(ParseError({"--dataset", "--bs=3"}), "flag --dataset: expected a text after it, got the flag --bs=3");
    EXPECT_EQ(ParseError({"--dataset", "--help"}), "flag --dataset: expected a text after it, got the flag --help");
}

TEST_F(FlagsTest, RefusesArgumentsThatAreNoFlags) {
    EXPECT_EQ(ParseError({"--bs=3", "data"}), "unexpected argument 'data'");
    EXPECT_EQ(ParseError({"--shuffle", "false"}), "unexpected argument 'false'; write --shuffle=false");
    EXPECT_EQ(ParseError({""}), "unexpected argument ''");
}

TEST_F(FlagsTest, HelpAndVersion) {
    EXPECT_EQ(Parse({"-h"}), ParseResult::kHelp);
    EXPECT_EQ(Parse({"--bs=2", "--help", "--wrong"}), ParseResult::kHelp);
    EXPECT_EQ(Parse({"--version"}), ParseResult::kVersion);
}

TEST_F(FlagsTest, HelpIsGroupedAndComplete) {
    FLAGS_bs = 7;
    EXPECT_EQ(HelpText(Info(), 80),
              R"(mnist: trains a small net on MNIST.

Usage: mnist [flags]

Data:
  --dataset TEXT          folder with the data set; empty: Fashion-MNIST from
                          Debian's package dataset-fashion-mnist
  --bs N                  images in a batch [64]
  --shuffle               mix the images anew in each epoch [true]

Training:
  --lr X                  learning rate [0.001]
  --num_epoch N           times through the training images [5]
  --seed N                seed of the random numbers [1]

Others:
  --nothing_listed        stands in no group

Help:
  -h, --help              show this text
  --version               show the version

Examples:
  mnist --bs 128
)");
}

TEST_F(FlagsTest, AGroupWithAnUndefinedFlagIsABug) {
    ProgramInfo info = Info();
    info.groups[0].flags.push_back("gone");
    EXPECT_EQ(MessageOf<InternalError>([&] { HelpText(info, 80); }), "HelpText: expected a defined flag, got --gone");
}

class RunProgramTest : public FlagsTest {
protected:
    int Run(std::vector<std::string> arguments, const std::function<int()> &body) {
        arguments.insert(arguments.begin(), "mnist");
        std::vector<char *> argv;
        for (std::string &argument : arguments) {
            argv.push_back(argument.data());
        }
        ::testing::internal::CaptureStdout();
        ::testing::internal::CaptureStderr();
        const int status = RunProgram(Info(), static_cast<int>(argv.size()), argv.data(), body);
        out_ = ::testing::internal::GetCapturedStdout();
        err_ = ::testing::internal::GetCapturedStderr();
        return status;
    }

    std::string out_;
    std::string err_;
};

TEST_F(RunProgramTest, StatusAndTextFollowTheError) {
    EXPECT_EQ(Run({"--bs=3"}, [] { return FLAGS_bs; }), 3);
    EXPECT_EQ(out_ + err_, "");
    EXPECT_EQ(Run({"--bss=3"}, [] { return 0; }), 2);
    EXPECT_EQ(err_, "mnist: unknown flag --bss; did you mean --bs?\nRun 'mnist --help' for the flags.\n");
    EXPECT_EQ(Run({}, []() -> int { throw IoError("gone"); }), 1);
    EXPECT_EQ(err_, "mnist: gone\n");
    EXPECT_EQ(Run({}, []() -> int { throw std::runtime_error("odd"); }), 1);
    EXPECT_EQ(err_, "mnist: odd\n");
}

TEST_F(RunProgramTest, HelpAndVersionGoToStdout) {
    const auto never = []() -> int { throw InternalError("the body must not run"); };
    EXPECT_EQ(Run({"--version"}, never), 0);
    EXPECT_EQ(out_, "mnist 1.2.3\n");
    EXPECT_EQ(Run({"-h"}, never), 0);
    EXPECT_EQ(out_.substr(0, 36), "mnist: trains a small net on MNIST.\n");
    EXPECT_EQ(err_, "");
}

TEST(RequireTest, NumbersInRange) {
    RequirePositive("bs", 1);
    RequireNonNegative("momentum", 0);
    RequireInRange("dropout", 1, 0, 1);
    EXPECT_EQ(MessageOf<UsageError>([] { RequirePositive("bs", 0); }), "flag --bs: expected a number above 0, got 0");
    EXPECT_EQ(MessageOf<UsageError>([] { RequirePositive("lr", std::nan("")); }),
              "flag --lr: expected a number above 0, got nan");
    EXPECT_EQ(MessageOf<UsageError>([] { RequirePositive("lr", std::numeric_limits<double>::infinity()); }),
              "flag --lr: expected a number above 0, got inf");
    EXPECT_EQ(MessageOf<UsageError>([] { RequireNonNegative("decay", -0.5); }),
              "flag --decay: expected a number of at least 0, got -0.5");
    EXPECT_EQ(MessageOf<UsageError>([] { RequireInRange("dropout", 1.5, 0, 1); }),
              "flag --dropout: expected a number from 0 to 1, got 1.5");
}

TEST(RequireTest, OneOf) {
    const std::vector<std::string> models = {"mlp", "mlp512", "lenet"};
    RequireOneOf("model", "lenet", models);
    EXPECT_EQ(MessageOf<UsageError>([&] { RequireOneOf("model", "lenett", models); }),
              "flag --model: expected one of mlp, mlp512, lenet, got 'lenett'; did you mean 'lenet'?");
    EXPECT_EQ(MessageOf<UsageError>([&] { RequireOneOf("model", "gpt", models); }),
              "flag --model: expected one of mlp, mlp512, lenet, got 'gpt'");
}

TEST(RequireTest, Paths) {
    const TempDir dir;
    const std::string file = dir.Write("file", "x");
    RequireWritable("save", "");
    RequireWritable("save", file);
    RequireWritable("save", dir.path() + "/new");
    RequireReadable("load", "");
    RequireReadable("load", file);
    EXPECT_EQ(MessageOf<UsageError>([&] { RequireWritable("save", dir.path()); }),
              "flag --save: expected the path of a file, got the folder '" + dir.path() + "'");
    EXPECT_EQ(MessageOf<UsageError>([] { RequireWritable("save", "/none/x"); }),
              "flag --save: expected a path in a folder that exists, got '/none/x'");
    EXPECT_EQ(MessageOf<UsageError>([] { RequireReadable("load", "/none"); }),
              "flag --load: expected a file that can be read, got '/none'");
}

TEST(ClosestMatchTest, FindsTypingErrorsAndParts) {
    const std::vector<std::string> names = {"bs", "batch", "optimizer", "num_epoch"};
    EXPECT_EQ(ClosestMatch("optimiser", names), "optimizer");
    EXPECT_EQ(ClosestMatch("bacth", names), "batch");
    EXPECT_EQ(ClosestMatch("epoch", names), "num_epoch");
    EXPECT_EQ(ClosestMatch("sb", names), "bs");
    EXPECT_EQ(ClosestMatch("colour", names), "");
}

}  // namespace
}  // namespace infini_train::example
