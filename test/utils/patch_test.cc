// Patches on a small transformer against PyTorch 2.15 in float64, then gradients, positions and errors by hand.

#include "infini_train/include/utils/patch.h"

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"
#include "test/utils/tiny_transformer.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
using test::Leaf;
using test::MakeModule;
using test::Of;
using test::Thrown;
using test::Values;
using utils::ActivationCache;
using utils::Patch;
using utils::Positions;

std::shared_ptr<test::Lambda> Twice() {
    return MakeModule([](const TensorList &inputs) { return TensorList{inputs[0]->Mul(2)}; }, "Twice");
}

// The transformer whose j-th parameter holds cos(0.7 k + j) / 2 at its k-th element.
class PatchedTransformer : public ::testing::Test {
protected:
    PatchedTransformer() {
        const auto parameters = model_.Parameters();
        for (size_t j = 0; j < parameters.size(); ++j) {
            std::vector<float> values(static_cast<size_t>(parameters[j]->NumElements()));
            for (size_t k = 0; k < values.size(); ++k) {
                values[k] = static_cast<float>(0.5 * std::cos(0.7 * static_cast<double>(k) + static_cast<double>(j)));
            }
            parameters[j]->Detach()->Copy_(Tensor::FromVector(values, parameters[j]->Dims()));
        }
    }

    static void ExpectLast(const TensorPtr &logits, const Floats &expected) {
        const auto last = Values(logits->Select(1, -1));
        ASSERT_EQ(last.size(), expected.size());
        for (size_t i = 0; i < last.size(); ++i) {
            EXPECT_NEAR(last[i], expected[i], 2e-5) << i;
        }
    }

    const TensorPtr clean_ = Tensor::FromVector<int64_t>({1, 2, 3, 4}, {{1, 4}});
    const TensorPtr corrupt_ = Tensor::FromVector<int64_t>({1, 7, 3, 4}, {{1, 4}});
    const Floats clean_logits_ = {0.0613697F, -0.1853213F, -0.3406870F, -0.3414001F, -0.1943650F, 0.0297788F,
                                  0.2305473F, 0.3226560F,  0.2720279F,  0.1076717F,  -0.0942948F};
    const Floats corrupt_logits_ = {-0.2773516F, -0.6143650F, -0.6674689F, -0.4192382F, 0.0116797F, 0.4272194F,
                                    0.6409854F,  0.5618589F,  0.2326250F,  -0.1926503F, -0.5207308F};
    test::TinyTransformer model_;
};

TEST_F(PatchedTransformer, WholeActivationOfAnotherRun) {
    ActivationCache cache(model_, "blocks.*");
    ExpectLast(cache.Run({clean_})[0], clean_logits_);
    {
        Patch patch(model_, "blocks.1", cache);
        ExpectLast(model_({corrupt_})[0], clean_logits_);
        EXPECT_EQ(patch.Applications(), 1U);
    }
    ExpectLast(model_({corrupt_})[0], corrupt_logits_);
}

TEST_F(PatchedTransformer, PositionsOfAnotherRun) {
    ActivationCache cache(model_, {"embed", "blocks.0.attn"});
    cache.Run({clean_});
    const Patch patch(model_, "blocks.0.attn", cache, {.at = {Positions::Range(1, 1, 3)}});
    ExpectLast(model_({corrupt_})[0], {-0.1552111F, -0.4624159F, -0.5539165F, -0.3950525F, -0.0643575F, 0.2850900F,
                                       0.4965611F, 0.4799672F, 0.2500246F, -0.0837697F, -0.3692422F});
    // The runs differ in the token at position 1 alone.
    const Patch token(model_, "embed", cache, {.at = {Positions::Indices(1, {1})}});
    ExpectLast(model_({corrupt_})[0], clean_logits_);
}

TEST_F(PatchedTransformer, ZeroAblationOfAHead) {
    const Patch patch(model_, "blocks.1.attn.mix", utils::ZeroAblation(),
                      {.at = {Positions::Heads(2, {1})}, .target = {.input = true}});
    ExpectLast(model_({clean_})[0], {-0.3321441F, -0.6776369F, -0.7108195F, -0.4232088F, 0.0488714F, 0.4888793F,
                                     0.6994362F, 0.5908639F, 0.2191649F, -0.2425338F, -0.5846466F});
}

TEST_F(PatchedTransformer, MeanAblation) {
    const Floats expected = {0.0374008F, -0.2947046F, -0.4863860F, -0.4580151F, -0.2295513F, 0.0918153F,
                             0.3619603F, 0.4644584F,  0.3605691F,  0.1032083F,  -0.1897592F};
    ActivationCache cache(model_, "blocks.0.mlp");
    cache.Run({clean_});
    {
        const Patch patch(model_, "blocks.0.mlp", utils::MeanAblation());
        ExpectLast(model_({clean_})[0], expected);
    }
    const Patch patch(model_, "blocks.0.mlp", utils::MeanAblation(cache));
    ExpectLast(model_({clean_})[0], expected);
}

TEST_F(PatchedTransformer, GradientsGoAroundWhatWasReplaced) {
    ActivationCache cache(model_, "blocks.0.attn");
    cache.Run({clean_});
    const Patch patch(model_, "blocks.0.attn", cache, {.at = {Positions::Range(1, 1, 3)}});
    ActivationCache gradients(model_, "embed", {.gradients = true});
    gradients.Run({corrupt_})[0]->Select(1, -1)->Select(1, 3)->Backward();
    const auto all = Values(gradients.OutputGradients("embed")[0]);
    const Floats at_1 = {0.1623428F, -0.0572203F, -0.1902310F, -0.0121289F,
                         0.1986728F, 0.1147270F,  -0.1075033F, -0.0953258F};
    const Floats at_3 = {0.0317134F, -0.1935621F, -0.2849486F, -0.0962983F,
                         0.1531485F, 0.1984779F,  0.0986788F,  0.0756283F};
    for (size_t i = 0; i < 8; ++i) {
        EXPECT_NEAR(all[8 + i], at_1[i], 2e-5) << i;
        EXPECT_NEAR(all[24 + i], at_3[i], 2e-5) << i;
    }
}

TEST(Patch, GradientsOfAReplacement) {
    auto model = Twice();
    auto x = Leaf({1, 2, 3});
    auto value = Leaf({10, 20, 30});
    {
        const Patch patch(*model, "", value);
        const auto y = (*model)({x})[0];
        EXPECT_EQ(Values(y), (Floats{10, 20, 30}));
        y->Backward(Of({3, 4, 5}));
        EXPECT_EQ(x->grad(), nullptr);
        EXPECT_EQ(Values(value->grad()), (Floats{3, 4, 5}));
    }
    value->ZeroGrad();
    {
        const Patch patch(*model, "", value, {.at = {Positions::Indices(0, {1})}});
        const auto y = (*model)({x})[0];
        EXPECT_EQ(Values(y), (Floats{2, 20, 6}));
        y->Backward(Of({3, 4, 5}));
        EXPECT_EQ(Values(x->grad()), (Floats{6, 0, 10}));
        EXPECT_EQ(Values(value->grad()), (Floats{0, 4, 0}));
    }
    x->ZeroGrad();
    {
        const Patch patch(*model, "", [](const TensorPtr &activation) { return activation->Mul(10); });
        const auto y = (*model)({x})[0];
        EXPECT_EQ(Values(y), (Floats{20, 40, 60}));
        y->Backward(Of({1, 1, 1}));
        EXPECT_EQ(Values(x->grad()), (Floats{20, 20, 20}));
    }
    x->ZeroGrad();
    {
        const Patch patch(*model, "", utils::MeanAblation({0}));
        const auto y = (*model)({x})[0];
        EXPECT_EQ(Values(y), (Floats{4, 4, 4}));
        y->Backward(Of({1, 2, 3}));
        EXPECT_EQ(Values(x->grad()), (Floats{4, 4, 4}));  // (1 + 2 + 3) / 3 * 2
    }
}

TEST(Patch, ReplacementsOfTheShapeOfThePositions) {
    auto model = MakeModule([](const TensorList &inputs) { return inputs; });
    const auto x = Tensor::Arange(0, 12, 1, DataType::kFLOAT32)->View({3, 4});
    const auto patched = [&](const TensorPtr &value, const std::vector<Positions> &at) {
        const Patch patch(*model, "", value, {.at = at});
        return Values((*model)({x})[0]);
    };
    // One value, a row, a column; of two rows each; of a block in two dimensions, in the order of the indices.
    EXPECT_EQ(patched(Tensor::FromScalar(-1.0F), {Positions::Indices(0, {1})}),
              (Floats{0, 1, 2, 3, -1, -1, -1, -1, 8, 9, 10, 11}));
    EXPECT_EQ(patched(Of({-1, -2, -3, -4}), {Positions::Indices(0, {-1})}),
              (Floats{0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4}));
    EXPECT_EQ(patched(Of({-1, -2}, {2, 1}), {Positions::Range(0, 1)}),
              (Floats{0, 1, 2, 3, -1, -1, -1, -1, -2, -2, -2, -2}));
    EXPECT_EQ(patched(Of({-1, -2, -3, -4}, {2, 2}), {Positions::Indices(0, {2, 0}), Positions::Range(-1, 1, 3)}),
              (Floats{0, -3, -4, 3, 4, 5, 6, 7, 8, -1, -2, 11}));
    EXPECT_EQ(patched(Of({-1, -2, -3}, {3, 1}), {Positions::Indices(1, {3})}),
              (Floats{0, 1, 2, -1, 4, 5, 6, -2, 8, 9, 10, -3}));
    // Of the shape of the whole activation.
    EXPECT_EQ(patched(x->Neg(), {Positions::Heads(2, {0})}), (Floats{-0.0F, -1, 2, 3, -4, -5, 6, 7, -8, -9, 10, 11}));
    EXPECT_EQ(patched(Of({7}), {}), Floats(12, 7));

    auto leaf = Leaf({1, 2, 3, 4});
    const Patch patch(*model, "", leaf->View({2, 2}),
                      {.at = {Positions::Indices(0, {2, 0}), Positions::Range(1, 1, 3)}});
    (*model)({x})[0]->Mul(x)->Sum()->Backward();
    EXPECT_EQ(Values(leaf->grad()), (Floats{9, 10, 1, 2}));
}

TEST(Patch, SeveralCallsInARun) {
    auto twice = Twice();
    auto model = MakeModule([&](const TensorList &inputs) { return (*twice)((*twice)((*twice)(inputs))); });
    model->RegisterModule("child", twice);
    ActivationCache cache(*model, "child");
    EXPECT_EQ(Values(cache.Run({Of({1})})[0]), (Floats{8}));
    {
        const Patch patch(*model, "child", Of({100}), {.call = 1});
        EXPECT_EQ(Values((*model)({Of({1})})[0]), (Floats{200}));
        EXPECT_EQ(Values((*model)({Of({1})})[0]), (Floats{200}));  // calls count anew in every run
        EXPECT_EQ(patch.Applications(), 2U);
    }
    {
        const Patch patch(*model, "child", cache);  // call by call
        EXPECT_EQ(Values((*model)({Of({50})})[0]), (Floats{8}));
        // Outside of a run of the model the calls go on counting.
        EXPECT_TRUE(Contains(Thrown<IndexError>([&] { (*twice)({Of({1})}); }), "this is call 3"));
    }
    auto longer = MakeModule([&](const TensorList &inputs) { return (*twice)((*model)(inputs)); });
    longer->RegisterModule("child", twice);
    const Patch patch(*longer, "child", cache);
    const auto text = Thrown<IndexError>([&] { (*longer)({Of({1})}); });
    EXPECT_TRUE(Contains(text, "Patch: the cache holds 3 calls of 'child', this is call 3")) << text;
    // The mean of 2, 4 and 8.
    EXPECT_NEAR(utils::MeanAblation(cache, {0}).For("child", {})(nullptr, 0)->Item<double>(), 14.0 / 3, 1e-6);
}

TEST(Patch, InputsAndOtherOutputs) {
    auto model = MakeModule([](const TensorList &inputs) { return TensorList{inputs[0]->Mul(2), inputs[1]->Mul(3)}; });
    {
        const Patch patch(*model, "", Of({10}), {.target = {.input = true, .index = 1}});
        const auto outputs = (*model)({Of({1}), Of({1})});
        EXPECT_EQ(Values(outputs[0]), (Floats{2}));
        EXPECT_EQ(Values(outputs[1]), (Floats{30}));
    }
    {
        const Patch patch(*model, "", Of({10}), {.target = {.index = 1}});
        const auto outputs = (*model)({Of({1}), Of({1})});
        EXPECT_EQ(Values(outputs[0]), (Floats{2}));
        EXPECT_EQ(Values(outputs[1]), (Floats{10}));
    }
    const Patch patch(*model, "", Of({10}), {.target = {.index = 2}});
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] {
                             (*model)({Of({1}), Of({1})});
                         }),
                         "Patch: expected a tensor at 2, the module has 2"));
}

TEST(Patch, PatchesOfOneModuleFollowEachOther) {
    auto model = Twice();
    Patch first(*model, "", [](const TensorPtr &activation) { return activation->Add(1); });
    const Patch second(*model, "", [](const TensorPtr &activation) { return activation->Mul(10); });
    const Patch nothing(*model, "", [](const TensorPtr &) { return TensorPtr(); });
    EXPECT_EQ(Values((*model)({Of({1})})[0]), (Floats{30}));
    EXPECT_EQ(nothing.Applications(), 0U);
    first.Disable();
    EXPECT_EQ(Values((*model)({Of({1})})[0]), (Floats{20}));
    first.Enable();
    EXPECT_EQ(Values((*model)({Of({1})})[0]), (Floats{30}));
    first.Remove();
    EXPECT_EQ(Values((*model)({Of({1})})[0]), (Floats{20}));
    try {
        const Patch third(*model, "", Of({7}));
        throw std::runtime_error("unwinds");
    } catch (const std::runtime_error &) {
    }
    EXPECT_EQ(Values((*model)({Of({1})})[0]), (Floats{20}));
}

TEST(Patch, WhatFollowsMayChangeThePatchedTensorInPlace) {
    auto twice = Twice();
    auto model = MakeModule([&](const TensorList &inputs) { return TensorList{(*twice)(inputs)[0]->Add_(1)}; });
    model->RegisterModule("child", twice);
    ActivationCache cache(*model, "child");
    cache.Run({Of({1})});
    const auto value = Of({5});
    {
        const Patch patch(*model, "child", cache);
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(Values((*model)({Of({9})})[0]), (Floats{3}));
        }
    }
    const Patch patch(*model, "child", value);
    (*model)({Of({9})});
    EXPECT_EQ(Values(value), (Floats{5}));
}

TEST(Patch, WhatDoesntFit) {
    auto inner = Twice();
    auto model = MakeModule([&](const TensorList &inputs) { return (*inner)(inputs); }, "Net");
    model->RegisterModule("fc", inner);
    const auto x = Tensor::Zeros({2, 4});
    const auto run = [&](const utils::Replacement &replacement, utils::PatchOptions options) {
        const Patch patch(*model, "fc", replacement, std::move(options));
        (*model)({x});
    };
    EXPECT_EQ(Thrown<ShapeError>([&] {
                  run(Tensor::Zeros({3, 4}), {});
              }),
              "Patch: the activation is (2, 4), to which the replacement (3, 4) can't be broadcast [forward post hook "
              "'patch' of fc (Twice)] [in module fc (Twice)]");
    EXPECT_TRUE(Contains(
        Thrown<ShapeError>([&] {
            run(Tensor::Zeros({2, 3}), {.at = {Positions::Range(1, 0, 2)}, .name = "mine"});
        }),
        "Patch: the activation is (2, 4), the chosen positions (2, 2), to which the replacement (2, 3) can't be "
        "broadcast [forward post hook 'mine'"));
    EXPECT_TRUE(Contains(Thrown<DtypeError>([&] {
                             run(Tensor::Zeros({2, 4}, DataType::kFLOAT64), {});
                         }),
                         "Patch: the activation is of float32, its replacement of float64"));
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] { run(Of({0}), {.at = {Positions::Range(2, 0)}}); }),
                         "Positions: dimension 2 is out of range for 2"));
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] { run(Of({0}), {.at = {Positions::Range(1, 2, 5)}}); }),
                         "Positions: expected a range within 0 to 4 that isn't empty, got 2 to 5"));
    EXPECT_FALSE(Thrown<IndexError>([&] { run(Of({0}), {.at = {Positions::Range(1, 2, 2)}}); }).empty());
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] { run(Of({0}), {.at = {Positions::Indices(0, {-3})}}); }),
                         "Positions: index -3 is out of range for 2"));
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] { run(Of({0}), {.at = {Positions::Heads(2, {2})}}); }),
                         "Positions: head 2 is out of range for 2"));
    EXPECT_TRUE(Contains(Thrown<ShapeError>([&] { run(Of({0}), {.at = {Positions::Heads(3, {0})}}); }),
                         "Positions: 3 heads don't divide a dimension of 4"));
    EXPECT_FALSE(Thrown<ValueError>([&] { run(Of({0}), {.at = {Positions::Indices(1, {1, -3})}}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([&] { run(Of({0}), {.at = {Positions::Indices(1, {})}}); }).empty());
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] {
                             run(Of({0}), {.at = {Positions::Range(1, 0, 1), Positions::Range(-1, 2, 3)}});
                         }),
                         "Patch: expected positions of different dimensions, got two of dimension 1"));
    EXPECT_FALSE(Thrown<ValueError>([&] { run(Of({0}), {.call = -1}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([&] { run(TensorPtr(), {}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { Positions::Heads(0, {0}); }).empty());

    ActivationCache cache(*model, "");
    cache.Run({x});
    EXPECT_EQ(Thrown<IndexError>([&] { run(cache, {}); }),
              "ActivationCache: 'fc' isn't among the chosen modules; collected are: ''");
    ActivationCache other(*model, "fc");
    other.Run({Tensor::Zeros({1, 4})});
    EXPECT_TRUE(Contains(Thrown<ShapeError>([&] { run(other, {}); }),
                         "Patch: the activation is (2, 4), the one of the cache (1, 4)"));
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] { run(other, {.target = {.index = 1}}); }),
                         "Patch: the cache holds no output 1 of 'fc'"));
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] { Patch(*model, "fd", Of({0})); }), "near are: fc (Twice)"));
    (*model)({x});  // none of them is left
}

TEST(Patch, SeveralThreads) {
    auto twice = Twice();
    auto model = MakeModule([&](const TensorList &inputs) { return (*twice)((*twice)(inputs)); });
    model->RegisterModule("child", twice);
    const Patch patch(*model, "child", Of({100}), {.call = 0});
    std::vector<int> wrong(4);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < wrong.size(); ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 100; ++i) {
                wrong[t] += Values((*model)({Of({1})})[0]) == Floats{200} ? 0 : 1;
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong, std::vector<int>(4));
    EXPECT_EQ(patch.Applications(), 400U);
}

}  // namespace
}  // namespace infini_train
