// The guard against values that aren't finite: each way in which one can come about, by hand.

#include "infini_train/include/utils/nan_guard.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
using test::Leaf;
using test::MakeModule;
using test::Of;
using utils::NanGuard;
using utils::NanGuardOptions;
using utils::NonFiniteError;
using utils::NonFiniteReport;
using Source = utils::NonFiniteReport::Source;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What the error that `body` throws reports; a report of step -1 if it throws none.
template <typename Body>
NonFiniteReport ReportOf(Body &&body) {
    try {
        body();
    } catch (const NonFiniteError &error) {
        return error.report();
    }
    NonFiniteReport none;
    none.step = -1;
    return none;
}

std::shared_ptr<test::Lambda> LogLayer() {
    return MakeModule([](const TensorList &in) { return TensorList{in[0]->Log()}; }, "LogLayer");
}

std::shared_ptr<nn::Sequential> TwoLayers() {
    auto linear = std::make_shared<nn::Linear>(2, 2, /*bias=*/false);
    const auto weight = linear->parameter("weight")->Detach();
    weight->CopyFrom(*Of({1, 0, 0, 1}, {2, 2}));
    return std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{linear, LogLayer()});
}

TEST(NanGuard, NamesTheOperatorThatMadeIt) {
    const auto model = TwoLayers();
    const NanGuard guard;
    const auto report = ReportOf([&] { (*model)({Of({1, 0, 2, -1}, {2, 2})}); });
    EXPECT_EQ(report.source, Source::kOperator);
    EXPECT_EQ(report.function, "Log");
    EXPECT_EQ(report.module, "1 (LogLayer)");
    EXPECT_EQ(report.step, 0);
    EXPECT_EQ(report.kinds, "nan and -inf");
    EXPECT_EQ(report.found.name, "output 0");
    EXPECT_EQ(report.found.dims, (std::vector<int64_t>{2, 2}));
    EXPECT_EQ(report.found.statistics.nans, 1);
    EXPECT_EQ(report.found.statistics.infs, 1);
    ASSERT_EQ(report.inputs.size(), 1U);
    EXPECT_EQ(report.inputs[0].name, "input 0");
    EXPECT_EQ(report.inputs[0].statistics.zeros, 1);
    EXPECT_EQ(report.inputs[0].statistics.min, -1);
    EXPECT_EQ(report.inputs[0].statistics.max, 2);
    EXPECT_EQ(report.inputs[0].statistics.mean, 0.5);
    EXPECT_EQ(report.ToString(),
              "NanGuard: Log made nan and -inf in output 0 [step 0, in module 1 (LogLayer)]\n"
              "  output 0  float32 (2, 2)  1 nan, 1 inf, 1 zero of 4, from 0 to 0.6931, mean 0.3466, std 0.3466\n"
              "  input 0   float32 (2, 2)  1 zero of 4, from -1 to 2, mean 0.5, std 1.118");
    EXPECT_EQ(guard.num_reports(), 1);
}

TEST(NanGuard, SeesUnrecordedOperatorsToo) {
    const auto model = TwoLayers();
    const NanGuard guard;
    const autograd::NoGradGuard no_grad;
    const auto report = ReportOf([&] { (*model)({Of({0, 1}, {1, 2})}); });
    EXPECT_EQ(report.function, "Log");
    EXPECT_EQ(report.module, "1 (LogLayer)");
    EXPECT_EQ(ReportOf([] { Of({-1})->Sqrt(); }).module, "");
}

TEST(NanGuard, DataAndParametersAreToldApartFromOperators) {
    const auto model = TwoLayers();
    const NanGuard guard;
    auto report = ReportOf([&] { (*model)({Of({1, kNan}, {1, 2})}); });
    EXPECT_EQ(report.source, Source::kModelInput);
    EXPECT_EQ(report.function, "Sequential");
    EXPECT_EQ(report.found.name, "input 0");
    EXPECT_EQ(report.kinds, "nan");
    EXPECT_TRUE(Contains(report.ToString(), "nan came into the model Sequential with input 0 [step 0]"))
        << report.ToString();

    report = ReportOf([&] { Of({kInf, 1})->Mul(Of({1, 1})); });
    EXPECT_EQ(report.source, Source::kInput);
    EXPECT_EQ(report.function, "Mul");
    EXPECT_EQ(report.found.name, "input 0");

    model->module("0")->parameter("weight")->Detach()->Fill(kNan);
    report = ReportOf([&] { (*model)({Of({1, 1}, {1, 2})}); });
    EXPECT_EQ(report.source, Source::kInput);
    EXPECT_EQ(report.function, "Linear");
    EXPECT_EQ(report.module, "0 (Linear)");
    EXPECT_EQ(report.found.name, "parameter 0.weight");
    EXPECT_EQ(report.found.statistics.nans, 4);
}

// d sqrt(x) / dx = 1 / (2 sqrt(x)) is infinite at 0, where the forward is finite.
TEST(NanGuard, NamesTheForwardOperatorWhoseBackwardMadeIt) {
    const auto model = MakeModule([](const TensorList &in) { return TensorList{in[0]->Sqrt()}; }, "Root");
    const NanGuard guard;
    const auto x = Leaf(Floats{4, 0});
    const auto loss = (*model)({x})[0]->Sum();
    const auto report = ReportOf([&] { loss->Backward(); });
    EXPECT_EQ(report.source, Source::kBackward);
    EXPECT_EQ(report.function, "Sqrt");
    EXPECT_EQ(report.module, "Root");
    EXPECT_EQ(report.kinds, "inf");
    EXPECT_EQ(report.found.name, "gradient of input 0");
    EXPECT_EQ(report.found.statistics.max, 0.25);
    ASSERT_EQ(report.inputs.size(), 2U);
    EXPECT_EQ(report.inputs[0].name, "gradient of output 0");
    EXPECT_EQ(report.inputs[0].statistics.min, 1);
    EXPECT_EQ(report.inputs[1].name, "saved 0");
    EXPECT_EQ(report.inputs[1].statistics.zeros, 1);
    EXPECT_EQ(x->grad(), nullptr);
}

TEST(NanGuard, GradientsThatAreGivenOrPutInPlaceByAHook) {
    const NanGuard guard;
    const auto x = Leaf(Floats{1, 2});
    auto report = ReportOf([&] { x->Mul(2)->Backward(Of({1, kNan})); });
    EXPECT_EQ(report.source, Source::kGradient);
    EXPECT_EQ(report.function, "MulScalar");
    EXPECT_EQ(report.found.name, "gradient of output 0");

    const auto y = x->Mul(2);
    y->RegisterHook([](const TensorPtr &) { return Of({kInf, 0}); });
    report = ReportOf([&] { y->Sum()->Backward(); });
    EXPECT_EQ(report.source, Source::kGradient);
    EXPECT_EQ(report.function, "MulScalar");
    EXPECT_EQ(report.kinds, "inf");
}

TEST(NanGuard, ParametersAndTheirGradientsAroundAStep) {
    const auto model = std::make_shared<nn::Linear>(2, 1, /*bias=*/false);
    const auto weight = model->parameter("weight");
    optimizers::SGD optimizer(model->Parameters(), 1e38);
    const NanGuard guard(*model);
    weight->set_grad(Of({1, 1}, {1, 2}));
    optimizer.Step();
    EXPECT_EQ(guard.step(), 1);
    weight->set_grad(Of({1, 1e10F}, {1, 2}));
    auto report = ReportOf([&] { optimizer.Step(); });
    EXPECT_EQ(report.source, Source::kParameter);
    EXPECT_EQ(report.function, "SGD");
    EXPECT_EQ(report.step, 1);
    EXPECT_EQ(report.found.name, "parameter weight");
    EXPECT_EQ(report.kinds, "-inf");
    ASSERT_EQ(report.inputs.size(), 1U);
    EXPECT_EQ(report.inputs[0].statistics.max, 1e10F);
    EXPECT_EQ(guard.step(), 2);

    const auto before = test::Values(weight);
    weight->set_grad(Of({kNan, 0}, {1, 2}));
    report = ReportOf([&] { optimizer.Step(); });
    EXPECT_EQ(report.source, Source::kParameterGradient);
    EXPECT_EQ(report.found.name, "gradient of parameter weight");
    EXPECT_EQ(report.step, 2);
    EXPECT_EQ(test::Values(weight), before);  // the step was stopped before it changed anything
}

TEST(NanGuard, MasksMayHoldNegativeInfinity) {
    const NanGuard guard;
    const auto scores = Of({1, 2, 3, 4}, {2, 2})->RequiresGrad();
    const auto mask = Tensor::FromVector<bool>({false, true, false, false}, {{2, 2}});
    const auto weights = scores->MaskedFill(mask, -kInf)->Mul(0.5)->Softmax(-1);
    EXPECT_EQ(weights->ToVector<float>()[0], 1);
    weights->Sum()->Backward();
    // A mask that is added.
    scores->Add(Of({0, -kInf, 0, 0}, {2, 2}))->Softmax(-1)->Sum()->Backward();
    // A row that is masked as a whole has no softmax.
    const auto all = Tensor::FromVector<bool>({true, true, false, false}, {{2, 2}});
    const auto report = ReportOf([&] { scores->MaskedFill(all, -kInf)->Softmax(-1); });
    EXPECT_EQ(report.source, Source::kOperator);
    EXPECT_EQ(report.function, "Softmax");
    EXPECT_EQ(report.kinds, "nan");
    EXPECT_EQ(report.inputs[0].statistics.infs, 2);
    // +inf is no mask.
    EXPECT_EQ(ReportOf([&] { scores->MaskedFill(mask, kInf); }).function, "Mask");
}

TEST(NanGuard, OperatorsAreAllowedOrIgnoredByName) {
    const auto log = [] { Of({0, 1})->Log(); };
    {
        const NanGuard guard(NanGuardOptions{.allow_negative_inf = {"Log"}});
        EXPECT_EQ(ReportOf(log).step, -1);
        EXPECT_EQ(ReportOf([] { Of({-1})->Log(); }).kinds, "nan");
        EXPECT_EQ(ReportOf([] {
                      const auto mask = Tensor::FromVector<bool>({true});
                      Of({1})->MaskedFill(mask, -kInf);
                  }).function,
                  "Mask");
    }
    {
        const NanGuard guard(NanGuardOptions{.ignore = {"Log", "Sqrt"}});
        EXPECT_EQ(ReportOf(log).step, -1);
        const auto x = Leaf(Floats{0});
        EXPECT_EQ(ReportOf([&] { x->Sqrt()->Backward(Of({1})); }).step, -1);
    }
}

TEST(NanGuard, PartsCanBeSwitchedOff) {
    const auto x = Leaf(Floats{0});
    {
        const NanGuard guard(NanGuardOptions{.forward = false});
        EXPECT_EQ(ReportOf([] { Of({0})->Log(); }).step, -1);
        EXPECT_EQ(ReportOf([&] { x->Sqrt()->Backward(Of({1})); }).source, Source::kBackward);
    }
    {
        const NanGuard guard(NanGuardOptions{.backward = false, .optimizer = false});
        x->Sqrt()->Backward(Of({1}));
        optimizers::SGD optimizer({x}, 1);
        optimizer.Step();
        EXPECT_EQ(guard.step(), 1);
        EXPECT_EQ(guard.num_reports(), 0);
    }
}

TEST(NanGuard, CallbackIsToldOnceAStep) {
    std::vector<NonFiniteReport> reports;
    NanGuard guard(NanGuardOptions{.callback = [&](const NonFiniteReport &report) { reports.push_back(report); }});
    const auto run = [] { Of({-1, 4})->Sqrt()->Mul(2)->Sum(); };
    run();
    run();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].function, "Sqrt");
    guard.NextStep();
    run();
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_EQ(reports[1].step, 1);
    EXPECT_EQ(guard.num_reports(), 2);
}

TEST(NanGuard, OneModelOnly) {
    const auto watched = TwoLayers();
    const auto other = TwoLayers();
    const auto zero = Of({0, 1}, {1, 2});
    const NanGuard guard(*watched);
    EXPECT_EQ(ReportOf([&] { (*other)({zero}); }).step, -1);
    EXPECT_EQ(ReportOf([&] { Of({0})->Log(); }).step, -1);
    EXPECT_EQ(ReportOf([&] { (*watched)({zero}); }).module, "1 (LogLayer)");
    EXPECT_EQ(ReportOf([&] { Of({0})->Log(); }).step, -1);  // the call that threw has been left

    const auto root = MakeModule([](const TensorList &in) { return TensorList{in[0]->Sqrt()}; }, "Root");
    const NanGuard root_guard(*root);
    const auto x = Leaf(Floats{0});
    const auto outside = x->Sqrt();
    const auto inside = (*root)({x})[0];
    EXPECT_EQ(ReportOf([&] { outside->Backward(Of({1})); }).step, -1);
    EXPECT_EQ(ReportOf([&] { inside->Backward(Of({1})); }).module, "Root");

    optimizers::SGD elsewhere({x}, 0.1);
    x->set_grad(Of({kNan}));
    elsewhere.Step();
    EXPECT_EQ(root_guard.step(), 0);
}

// Values that are made inside of a backward pass are the business of the function whose backward it is.
TEST(NanGuard, DoubleBackwardAndHooks) {
    const NanGuard guard;
    const auto x = Leaf(Floats{0});
    const auto y = x->Pow(1.5);  // y' = 1.5 sqrt(x) is finite, y'' = 0.75 / sqrt(x) isn't
    y->Backward(Of({1}), /*retain_graph=*/true, /*create_graph=*/true);
    const auto report = ReportOf([&] { x->grad()->Sum()->Backward(); });
    EXPECT_EQ(report.source, Source::kBackward);
    EXPECT_EQ(report.function, "Pow");
    x->set_grad(nullptr);
}

TEST(NanGuard, EndsWithItsScope) {
    {
        const NanGuard guard;
        EXPECT_EQ(ReportOf([] { Of({0})->Log(); }).step, 0);
    }
    EXPECT_EQ(ReportOf([] { Of({0})->Log(); }).step, -1);
}

TEST(NanGuard, EveryThread) {
    std::atomic<int> found{0};
    const NanGuard guard;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&found, i] {
            const auto model = TwoLayers();
            for (int round = 0; round < 50; ++round) {
                const bool bad = round % 10 == i;
                const auto report = ReportOf([&] {
                    const auto x = Of({bad ? 0.0F : 1.0F, 2}, {1, 2});
                    (*model)({x})[0]->Sum()->Backward();
                });
                found += report.step == 0 ? 1 : 0;
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(found.load(), 20);
    EXPECT_EQ(guard.num_reports(), 20);
}

}  // namespace
}  // namespace infini_train
