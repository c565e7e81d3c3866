// Records of what a run computes, and where two runs part: values by hand, digests as hashlib gives them.

#include "infini_train/include/utils/precision_checker.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/md5.h"
#include "infini_train/include/utils/precision_check_context.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

namespace fs = std::filesystem;
using test::Contains;
using test::Floats;
using test::Leaf;
using test::MakeModule;
using test::Of;
using test::Thrown;
using utils::CompareRuns;
using utils::PrecisionCheckConfig;
using utils::PrecisionChecker;
using utils::PrecisionCheckLevel;
using utils::PrecisionError;
using utils::RunComparison;
using utils::TensorRecord;

class PrecisionCheckerTest : public ::testing::Test {
protected:
    PrecisionCheckerTest()
        : root_(fs::temp_directory_path() / ("precision_checker_" + std::to_string(reinterpret_cast<uintptr_t>(this)) +
                                             "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name())) {}
    ~PrecisionCheckerTest() override { fs::remove_all(root_); }

    std::string Folder(const std::string &name) const { return (root_ / name).string(); }
    PrecisionCheckConfig Config(const std::string &folder, PrecisionCheckLevel level) const {
        PrecisionCheckConfig config;
        config.level = level;
        config.output_path = Folder(folder);
        return config;
    }

    const fs::path root_;
};

// x W^T with W = [[1, 2], [3, 4]], then squares; `scale` multiplies what the last layer gives.
std::shared_ptr<nn::Sequential> Net(double scale = 1) {
    auto linear = std::make_shared<nn::Linear>(2, 2, /*bias=*/false);
    const auto weight = linear->parameter("weight")->Detach();
    weight->CopyFrom(*Of({1, 2, 3, 4}, {2, 2}));
    auto square =
        MakeModule([scale](const TensorList &in) { return TensorList{in[0]->Square()->Mul(scale)}; }, "SquareLayer");
    return std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{linear, square});
}

void Step(nn::Module &model, Optimizer &optimizer) {
    optimizer.ZeroGrad();
    model({Of({1, -1}, {1, 2})})[0]->Sum()->Backward();
    optimizer.Step();
}

void Train(const std::shared_ptr<nn::Module> &model, const PrecisionCheckConfig &config, int steps = 1) {
    PrecisionChecker checker(*model, config);
    optimizers::SGD optimizer(model->Parameters(), 0.125);
    for (int i = 0; i < steps; ++i) {
        Step(*model, optimizer);
    }
}

std::vector<std::string> Keys(const std::vector<TensorRecord> &records) {
    std::vector<std::string> keys;
    for (const auto &record : records) {
        keys.push_back(record.Key());
    }
    return keys;
}

std::string Text(const fs::path &path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST_F(PrecisionCheckerTest, FunctionsForwardBackwardAndParameters) {
    const auto model = Net();
    Train(model, Config("run", PrecisionCheckLevel::FUNCTION));
    const auto records = utils::ReadRecords(Folder("run"));
    EXPECT_EQ(Keys(records), (std::vector<std::string>{
                                 "step 0 forward 0 (Linear) Linear, call 0 output 0",
                                 "step 0 forward 1 (SquareLayer) Square, call 0 output 0",
                                 "step 0 forward 1 (SquareLayer) MulScalar, call 0 output 0",
                                 "step 0 backward 1 (SquareLayer) MulScalar, call 0 gradient of input 0",
                                 "step 0 backward 1 (SquareLayer) Square, call 0 gradient of input 0",
                                 "step 0 backward 0 (Linear) Linear, call 0 gradient of input 1",
                                 "step 0 step 0.weight SGD, call 0 gradient",
                                 "step 0 step 0.weight SGD, call 0 parameter",
                             }));
    // x W^T = (-1, -1); its square's gradient 2 * -1; the weight's is the outer product of (-2, -2) and (1, -1).
    EXPECT_EQ(records[0].dims, (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(records[0].statistics.mean, -1);
    EXPECT_EQ(records[0].statistics.std, 0);
    EXPECT_EQ(records[0].md5, utils::Md5(*Of({-1, -1})));
    EXPECT_EQ(records[1].md5, utils::Md5(*Of({1, 1})));
    EXPECT_EQ(records[4].md5, utils::Md5(*Of({-2, -2})));
    EXPECT_EQ(records[6].md5, utils::Md5(*Of({-2, 2, -2, 2})));
    EXPECT_EQ(records[7].md5, utils::Md5(*Of({1.25F, 1.75F, 3.25F, 3.75F})));
    EXPECT_EQ(records[7].dtype, DataType::kFLOAT32);
    EXPECT_EQ(records[7].file, "");
    EXPECT_TRUE(Contains(Text(root_ / "run" / "log.txt"),
                         "[GAS-0] [L-0] step 0 forward 0 (Linear) Linear, call 0 output 0: dtype=float32 shape=(1, 2) "
                         "min=-1 max=-1 mean=-1 std=0 [-1, -1] [NaN:0 Inf:0]\n"))
        << Text(root_ / "run" / "log.txt");
}

TEST_F(PrecisionCheckerTest, Modules) {
    const auto model = Net();
    PrecisionCheckConfig config = Config("run", PrecisionCheckLevel::MODULE);
    config.parameters = false;
    config.format = "md5";
    Train(model, config);
    const auto records = utils::ReadRecords(Folder("run"));
    EXPECT_EQ(Keys(records), (std::vector<std::string>{
                                 "step 0 forward 0 (Linear) call 0 output 0",
                                 "step 0 forward 1 (SquareLayer) call 0 output 0",
                                 "step 0 forward Sequential call 0 output 0",
                                 "step 0 backward 1 (SquareLayer) call 0 gradient of input 0",
                             }));
    EXPECT_EQ(records[3].md5, utils::Md5(*Of({-2, -2})));
    EXPECT_TRUE(
        Contains(Text(root_ / "run" / "log.txt"), "shape=(1, 2) md5=" + utils::Md5(*Of({-1, -1})) + " [NaN:0 Inf:0]"));
}

TEST_F(PrecisionCheckerTest, CallsAreNumberedAndTheirBackwardHasTheForwardsNumber) {
    const auto scale = MakeModule([](const TensorList &in) { return TensorList{in[0]->Mul(2)}; }, "Scale");
    for (const auto level : {PrecisionCheckLevel::MODULE, PrecisionCheckLevel::FUNCTION}) {
        PrecisionChecker checker(*scale, Config("run", level));
        const auto x = Leaf(3);
        const auto y = (*scale)({(*scale)({x})[0]})[0];
        y->Backward(nullptr, /*retain_graph=*/true);
        y->Backward();
        checker.NextStep();
        (*scale)({x});
        const std::string who = level == PrecisionCheckLevel::MODULE ? "Scale" : "Scale MulScalar,";
        EXPECT_EQ(Keys(checker.Records()),
                  (std::vector<std::string>{
                      "step 0 forward " + who + " call 0 output 0",
                      "step 0 forward " + who + " call 1 output 0",
                      "step 0 backward " + who + " call 1 gradient of input 0",
                      "step 0 backward " + who + " call 0 gradient of input 0",
                      "step 0 backward " + who +
                          (level == PrecisionCheckLevel::MODULE ? " call 0 gradient of input 0 #2"
                                                                : " call 1 gradient of input 0 #2"),
                      "step 0 backward " + who +
                          (level == PrecisionCheckLevel::MODULE ? " call 0 gradient of input 0 #3"
                                                                : " call 0 gradient of input 0 #2"),
                      "step 1 forward " + who + " call 0 output 0",
                  }));
    }
}

TEST_F(PrecisionCheckerTest, FindsTheFirstOperatorWhereTwoRunsPart) {
    PrecisionCheckConfig first = Config("a", PrecisionCheckLevel::FUNCTION);
    first.save_tensors = true;
    PrecisionCheckConfig second = first;
    second.output_path = Folder("b");
    Train(Net(), first, 2);
    Train(Net(), second, 2);
    const RunComparison same = CompareRuns(Folder("a"), Folder("b"));
    EXPECT_TRUE(same.Agrees());
    EXPECT_EQ(same.records.size(), 16U);
    EXPECT_EQ(same.NumIdentical(), 16U);
    EXPECT_EQ(same.First(), nullptr);
    EXPECT_EQ(same.ToString(), "16 tensors in both runs: 16 identical, 0 within the tolerance, 0 outside\n");

    Train(Net(1.5), second, 2);  // replaces what was there
    const RunComparison apart = CompareRuns(Folder("a"), Folder("b"));
    EXPECT_FALSE(apart.Agrees());
    ASSERT_NE(apart.First(), nullptr);
    EXPECT_EQ(apart.First()->baseline.Key(), "step 0 forward 1 (SquareLayer) MulScalar, call 0 output 0");
    const auto &difference = apart.First()->difference;  // (1, 1) became (1.5, 1.5)
    EXPECT_TRUE(apart.First()->by_values);
    EXPECT_EQ(difference.outside, 2);
    EXPECT_EQ(difference.max_abs, 0.5);
    EXPECT_EQ(difference.max_rel, 0.5);
    EXPECT_EQ(difference.max_ulp, 1U << 22);
    EXPECT_NEAR(difference.cosine, 1, 1e-12);
    const std::string text = apart.ToString(3);
    EXPECT_TRUE(Contains(text,
                         "the runs part at step 0 forward 1 (SquareLayer) MulScalar, call 0 output 0\n"
                         "    float32 (1, 2): 2 of 2 outside, max abs 0.5, max rel 0.5, 4194304 ulp, cosine 1; "
                         "worst at (0, 0): 1 became 1.5\n"))
        << text;
    EXPECT_TRUE(Contains(text, "... and ")) << text;
    EXPECT_TRUE(CompareRuns(Folder("a"), Folder("b"), utils::Tolerance{10, 10}).Agrees());
}

TEST_F(PrecisionCheckerTest, ComparesStatisticsWhereNoValuesWereSaved) {
    Train(Net(), Config("a", PrecisionCheckLevel::FUNCTION));
    Train(Net(1.5), Config("b", PrecisionCheckLevel::FUNCTION));
    Train(Net(1 + 1e-7), Config("c", PrecisionCheckLevel::FUNCTION));
    const RunComparison apart = CompareRuns(Folder("a"), Folder("b"));
    ASSERT_NE(apart.First(), nullptr);
    EXPECT_EQ(apart.First()->baseline.function, "MulScalar");
    EXPECT_FALSE(apart.First()->by_values);
    EXPECT_EQ(apart.First()->difference.max_abs, 0.5);
    EXPECT_TRUE(Contains(apart.ToString(), "statistics differ by up to 0.5")) << apart.ToString();
    const RunComparison close = CompareRuns(Folder("a"), Folder("c"));
    EXPECT_TRUE(close.Agrees()) << close.ToString();
    EXPECT_LT(close.NumIdentical(), close.records.size());
}

// The same network with a layer more, its branches in another order.
TEST_F(PrecisionCheckerTest, MatchesByNameNotByOrder) {
    const auto branches = [](bool swapped) {
        const auto sine = MakeModule([](const TensorList &in) { return TensorList{in[0]->Sin()}; }, "Sine");
        const auto cosine = MakeModule([](const TensorList &in) { return TensorList{in[0]->Cos()}; }, "Cosine");
        const auto root = MakeModule(
            [=](const TensorList &in) {
                if (swapped) {
                    const auto c = (*cosine)(in)[0];
                    const auto s = (*sine)({in[0]})[0];
                    return TensorList{s->Add(c)->Neg()};
                }
                const auto s = (*sine)(in)[0];
                return TensorList{s->Add((*cosine)(in)[0])};
            },
            "Root");
        root->RegisterModule("sine", sine);
        root->RegisterModule("cosine", cosine);
        return root;
    };
    const auto run = [&](bool swapped, const std::string &folder) {
        const auto model = branches(swapped);
        const PrecisionChecker checker(*model, Config(folder, PrecisionCheckLevel::FUNCTION));
        (*model)({Of({1, 2})});
    };
    run(false, "a");
    run(true, "b");
    const RunComparison comparison = CompareRuns(Folder("a"), Folder("b"));
    EXPECT_EQ(comparison.NumIdentical(), 3U);
    EXPECT_EQ(comparison.NumOutside(), 0U);
    EXPECT_TRUE(comparison.only_in_baseline.empty());
    EXPECT_EQ(comparison.only_in_other, (std::vector<std::string>{"step 0 forward Root Neg, call 0 output 0"}));
    EXPECT_FALSE(comparison.Agrees());
}

TEST_F(PrecisionCheckerTest, LiveAgainstARecord) {
    PrecisionCheckConfig record = Config("a", PrecisionCheckLevel::FUNCTION);
    record.save_tensors = true;
    Train(Net(), record, 2);
    PrecisionCheckConfig live;
    live.level = PrecisionCheckLevel::FUNCTION;
    live.output_path = "";
    live.baseline = Folder("a");
    {
        const auto model = Net();
        PrecisionChecker checker(*model, live);
        optimizers::SGD optimizer(model->Parameters(), 0.125);
        Step(*model, optimizer);
        EXPECT_EQ(checker.Comparison().NumIdentical(), 8U);
        EXPECT_EQ(checker.Comparison().only_in_baseline.size(), 8U);
        Step(*model, optimizer);
        EXPECT_TRUE(checker.Comparison().Agrees());
    }
    live.stop = true;
    const std::string text = Thrown<PrecisionError>([&] { Train(Net(1.5), live); });
    EXPECT_TRUE(Contains(text, "PrecisionChecker: the runs part at step 0 forward 1 (SquareLayer) MulScalar, call 0"))
        << text;
    live.tolerance = utils::Tolerance{1, 0};
    Train(Net(1.5), live);
}

TEST_F(PrecisionCheckerTest, OtherDataTypesAndShapes) {
    PrecisionCheckConfig config = Config("a", PrecisionCheckLevel::FUNCTION);
    config.save_tensors = true;
    const auto run = [&](const TensorPtr &x, const std::string &folder) {
        config.output_path = Folder(folder);
        const auto model = MakeModule([](const TensorList &in) { return TensorList{in[0]->Mul(1.0)}; });
        const PrecisionChecker checker(*model, config);
        (*model)({x});
    };
    run(Of({1, 3}), "a");
    run(Of({1, 3.01F})->To(DataType::kBFLOAT16), "b");
    run(Of({1, 2, 3}), "c");
    const auto mixed = CompareRuns(Folder("a"), Folder("b"));
    EXPECT_TRUE(mixed.Agrees()) << mixed.ToString();  // 3.01 is 3.015625 in bfloat16
    EXPECT_EQ(mixed.NumIdentical(), 0U);
    EXPECT_EQ(mixed.records[0].difference.max_ulp, 1U);
    EXPECT_EQ(mixed.records[0].difference.max_abs, 0.015625);
    const auto shapes = CompareRuns(Folder("a"), Folder("c"));
    ASSERT_NE(shapes.First(), nullptr);
    EXPECT_EQ(shapes.First()->difference.mismatch, "(2,) against (3,)");
}

TEST_F(PrecisionCheckerTest, StepsAndScope) {
    PrecisionCheckConfig config = Config("run", PrecisionCheckLevel::FUNCTION);
    config.max_steps = 1;
    config.backward = false;
    const auto model = Net();
    {
        PrecisionChecker checker(*model, config);
        optimizers::SGD optimizer(model->Parameters(), 0.125);
        Step(*model, optimizer);
        Step(*model, optimizer);
        EXPECT_EQ(checker.step(), 2);
        EXPECT_EQ(checker.Records().size(), 5U);
        EXPECT_TRUE(Contains(checker.Table(1), "... and 4 more"));
        EXPECT_TRUE(Contains(checker.Table(), utils::Md5(*Of({-1, -1})).substr(0, 8)));
        Of({1})->Neg();  // outside of the model
        EXPECT_EQ(checker.Records().size(), 5U);
    }
    {
        const PrecisionChecker everything(Config("all", PrecisionCheckLevel::FUNCTION));
        Of({1})->Neg();
        EXPECT_EQ(Keys(everything.Records()), (std::vector<std::string>{"step 0 forward Neg, call 0 output 0"}));
    }
    const PrecisionChecker off(Config("off", PrecisionCheckLevel::OFF));
    Of({1})->Neg();
    EXPECT_TRUE(off.Records().empty());
    EXPECT_FALSE(fs::exists(Folder("off")));
}

TEST_F(PrecisionCheckerTest, WrongFilesAreErrors) {
    EXPECT_TRUE(Contains(Thrown<IoError>([&] { CompareRuns(Folder("none"), Folder("none")); }), "can't be opened"));
    fs::create_directories(root_ / "bad");
    std::ofstream(root_ / "bad" / "records.jsonl") << "{\"step\": 0}\n";
    const std::string text = Thrown<IoError>([&] { utils::ReadRecords(Folder("bad")); });
    EXPECT_TRUE(Contains(text, "line 1: expected a tensor's record")) << text;
    PrecisionCheckConfig config = Config("x", PrecisionCheckLevel::MODULE);
    config.format = "xml";
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { PrecisionChecker checker(config); }), "got 'xml'"));
    std::ofstream(root_ / "file") << "";
    EXPECT_TRUE(Contains(
        Thrown<IoError>([&] { PrecisionChecker checker(Config("file", PrecisionCheckLevel::MODULE)); }), "can't be"));
}

TEST_F(PrecisionCheckerTest, InfiniTrainsNames) {
    const auto config = PrecisionCheckConfig::Parse(
        "level=2,path=/tmp/x,format=md5,save_tensors=true,md5_tolerance=1e-3,rtol=0.5,max_steps=3");
    EXPECT_EQ(config.level, PrecisionCheckLevel::FUNCTION);
    EXPECT_EQ(config.output_path, "/tmp/x");
    EXPECT_EQ(config.format, "md5");
    EXPECT_TRUE(config.save_tensors);
    EXPECT_EQ(config.md5_tolerance, 1e-3);
    EXPECT_EQ(config.tolerance->rtol, 0.5);
    EXPECT_EQ(config.max_steps, 3);
    EXPECT_EQ(PrecisionCheckConfig::Parse("").level, PrecisionCheckLevel::OFF);
    for (const char *wrong : {"level=3", "level=x", "levels=1", "level", "save_tensors=maybe", "rtol=-1", "format=a"}) {
        EXPECT_FALSE(Thrown<ValueError>([&] { PrecisionCheckConfig::Parse(wrong); }).empty()) << wrong;
    }

    auto &context = utils::PrecisionCheckContext::Instance();
    context.SetGAS(2);
    context.SetLayer(5);
    context.SetLayerName("attn");
    EXPECT_EQ(context.GetKey(), "[GAS-2] [L-5] attn");
    context.Reset();
    EXPECT_EQ(context.GetKey(), "[GAS-0] [L-0]");

    PrecisionChecker::Config check;
    check.abort_on_error = true;
    check.print_stats = false;
    const auto root = MakeModule([](const TensorList &in) { return TensorList{in[0]->Log()}; }, "Root");
    const auto handle = PrecisionChecker::RegisterForModule(root.get(), "my_model", check);
    (*root)({Of({1})});
    const std::string text = Thrown<PrecisionError>([&] { (*root)({Of({-1, 1})}); });
    EXPECT_TRUE(Contains(text,
                         "PrecisionChecker: [GAS-0] [L-0] my_model Forward Output tensor[0]: dtype=float32 "
                         "shape=(2,) min=0 max=0 mean=0 std=0 [nan, 0] [NaN:1 Inf:0] <- ERROR"))
        << text;
    handle->Remove();
    (*root)({Of({-1})});
    const auto function = std::make_shared<autograd::Reciprocal>();
    PrecisionChecker::RegisterForFunction(function.get(), "", check);
    EXPECT_TRUE(Contains(Thrown<PrecisionError>([&] { function->Apply({Of({0})}); }), "Reciprocal Forward Output"));
    EXPECT_FALSE(Thrown<ValueError>([] { PrecisionChecker::RegisterForModule(nullptr); }).empty());
}

}  // namespace
}  // namespace infini_train
