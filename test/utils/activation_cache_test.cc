// What the cache collects, against values worked out by hand or computed by calling the pieces one by one.

#include "infini_train/include/utils/activation_cache.h"

#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/grad_mode.h"
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
using utils::ActivationKind;
using utils::Keep;
using Names = std::vector<std::string>;

TensorPtr Tokens() {
    return Tensor::FromVector<int64_t>({1, 2, 3, 4, 5, 6}, {{2, 3}});
}

// A model with one child, `child`, around which `body` does what it likes.
std::shared_ptr<test::Lambda> Around(const std::shared_ptr<nn::Module> &child, const test::Lambda::Body &body) {
    auto model = MakeModule(body, "Model");
    model->RegisterModule("child", child);
    return model;
}

std::shared_ptr<test::Lambda> Twice() {
    return MakeModule([](const TensorList &inputs) { return TensorList{inputs[0]->Mul(2)}; }, "Twice");
}

TEST(ActivationCache, CollectsTheOutputsOfChosenModules) {
    test::TinyTransformer model;
    ActivationCache cache(model, {"embed", "blocks.*.attn", "head"});
    const auto logits = cache.Run({Tokens()})[0];
    EXPECT_EQ(cache.Names(), (Names{"embed", "blocks.0.attn", "blocks.1.attn", "head"}));
    EXPECT_EQ(Values(cache["head"]), Values(logits));

    // The same by hand.
    const auto embedded = (*model.module("embed"))({Tokens()});
    EXPECT_EQ(Values(cache["embed"]), Values(embedded[0]));
    const auto attention = (*model.module("blocks.0.attn"))((*model.module("blocks.0.norm"))(embedded));
    EXPECT_EQ(Values(cache["blocks.0.attn"]), Values(attention[0]));
    EXPECT_FALSE(cache["head"]->requires_grad());
}

TEST(ActivationCache, RecordsInRunAloneAndLeavesNoHooks) {
    auto twice = Twice();
    auto model = Around(twice, [&](const TensorList &inputs) { return (*twice)(inputs); });
    ActivationCache cache(*model, "child");
    cache.Run({Of({1})});
    (*model)({Of({5})});
    EXPECT_EQ(Values(cache["child"]), (Floats{2}));
    cache.Run({Of({3})});  // forgets the run before
    EXPECT_EQ(cache.NumCalls("child"), 1U);
    EXPECT_EQ(Values(cache["child"]), (Floats{6}));
    cache.Clear();
    EXPECT_FALSE(cache.Contains("child"));
    EXPECT_TRUE(cache.Names().empty());
}

TEST(ActivationCache, SeveralCallsOfOneModule) {
    auto twice = Twice();
    auto model = Around(twice, [&](const TensorList &inputs) { return (*twice)((*twice)((*twice)(inputs))); });
    ActivationCache cache(*model, "child", {.inputs = true});
    cache.Run({Of({1})});
    EXPECT_EQ(cache.NumCalls("child"), 3U);
    EXPECT_EQ(Values(cache.Outputs("child", 0)[0]), (Floats{2}));
    EXPECT_EQ(Values(cache.Outputs("child", 2)[0]), (Floats{8}));
    EXPECT_EQ(Values(cache.Outputs("child", -2)[0]), (Floats{4}));
    EXPECT_EQ(Values(cache.Inputs("child", -1)[0]), (Floats{4}));
    EXPECT_EQ(Thrown<IndexError>([&] { cache["child"]; }),
              "ActivationCache: 'child' was called 3 times; say which call is meant");
    EXPECT_EQ(Thrown<IndexError>([&] { cache.Outputs("child", 3); }),
              "ActivationCache: 'child' was called 3 times, there is no call 3");
    EXPECT_EQ(Thrown<IndexError>([&] { cache.Outputs("child", -4); }),
              "ActivationCache: 'child' was called 3 times, there is no call -4");
}

TEST(ActivationCache, AModuleThatCallsItself) {
    std::shared_ptr<test::Lambda> self;
    // x, x + 1, ... until 3, then doubled on the way back.
    self = MakeModule([&](const TensorList &inputs) -> TensorList {
        return inputs[0]->Item<float>() >= 3 ? inputs : TensorList{(*self)({inputs[0]->Add(1)})[0]->Mul(2)};
    });
    ActivationCache cache(*self, "", {.inputs = true});
    cache.Run({Of({1})});
    ASSERT_EQ(cache.NumCalls(""), 3U);
    const Floats inputs = {1, 2, 3}, outputs = {12, 6, 3};
    for (int64_t call = 0; call < 3; ++call) {
        EXPECT_EQ(Values(cache.Inputs("", call)[0])[0], inputs[static_cast<size_t>(call)]);
        EXPECT_EQ(Values(cache.Outputs("", call)[0])[0], outputs[static_cast<size_t>(call)]);
    }
}

TEST(ActivationCache, OutputsThatAreLists) {
    auto model = MakeModule([](const TensorList &inputs) {
        return TensorList{inputs[0]->Mul(2), nullptr, inputs[0]->Mul(3)};
    });
    ActivationCache cache(*model, "");
    cache.Run({Of({1, 2})});
    const auto outputs = cache.Outputs("");
    ASSERT_EQ(outputs.size(), 3U);
    EXPECT_EQ(Values(outputs[0]), (Floats{2, 4}));
    EXPECT_EQ(outputs[1], nullptr);
    EXPECT_EQ(Values(outputs[2]), (Floats{3, 6}));
    EXPECT_EQ(Thrown<IndexError>([&] { cache[""]; }), "ActivationCache: '' has 3 outputs; use Outputs");
    EXPECT_FALSE(cache.Statistics("")[1].has_value());
}

TEST(ActivationCache, GradientsAreThoseOfTheModulesOwnCalls) {
    auto twice = Twice();
    // loss = 2 (2 x) + 5 x: of the input's gradient 9 only 4 comes through the first call, of 2 x all does.
    auto model = Around(twice, [&](const TensorList &inputs) {
        return TensorList{(*twice)((*twice)(inputs))[0]->Add(inputs[0]->Mul(5))};
    });
    ActivationCache cache(*model, "child", {.inputs = true, .gradients = true});
    auto x = Leaf({1, 2});
    cache.Run({x})[0]->Backward(Of({1, 10}));
    EXPECT_EQ(Values(x->grad()), (Floats{9, 90}));
    EXPECT_EQ(Values(cache.InputGradients("child", 0)[0]), (Floats{4, 40}));
    EXPECT_EQ(Values(cache.OutputGradients("child", 0)[0]), (Floats{2, 20}));
    EXPECT_EQ(Values(cache.InputGradients("child", 1)[0]), (Floats{2, 20}));
    EXPECT_EQ(Values(cache.OutputGradients("child", 1)[0]), (Floats{1, 10}));
}

TEST(ActivationCache, GradientOfAnOutputThatIsAnInput) {
    auto identity = MakeModule([](const TensorList &inputs) { return inputs; });
    auto model = Around(identity, [&](const TensorList &inputs) {
        return TensorList{(*identity)(inputs)[0]->Mul(2)->Add(inputs[0]->Mul(5))};
    });
    for (const bool inputs : {false, true}) {
        ActivationCache cache(*model, "child", {.inputs = inputs, .gradients = true});
        auto x = Leaf(1);
        cache.Run({x})[0]->Backward();
        EXPECT_EQ(Values(x->grad()), (Floats{7}));
        EXPECT_EQ(Values(cache.OutputGradients("child")[0]), (Floats{2}));
    }
}

TEST(ActivationCache, GradientsThatDontArriveAreNull) {
    auto twice = Twice();
    auto model = Around(twice, [&](const TensorList &inputs) {
        (*twice)(inputs);  // unused
        return TensorList{inputs[0]->Mul(3)};
    });
    ActivationCache cache(*model, "child", {.gradients = true});
    auto x = Leaf(1);
    cache.Run({x})[0]->Backward();
    ASSERT_EQ(cache.OutputGradients("child").size(), 1U);
    EXPECT_EQ(cache.OutputGradients("child")[0], nullptr);
    // Of a second pass through a retained graph the gradients are the latest ones.
    ActivationCache used(*model, "", {.gradients = true});
    const auto y = used.Run({x})[0];
    y->Backward(Tensor::FromScalar(1.0F), /*retain_graph=*/true);
    y->Backward(Tensor::FromScalar(7.0F));
    EXPECT_EQ(Values(used.OutputGradients("")[0]), (Floats{7}));
    const autograd::NoGradGuard no_grad;
    used.Run({x});
    EXPECT_EQ(used.OutputGradients("")[0], nullptr);
}

TEST(ActivationCache, LateGradientsOfARunThatWasForgotten) {
    auto twice = Twice();
    auto x = Leaf(1);
    TensorPtr y;
    {
        ActivationCache cache(*twice, "", {.gradients = true});
        y = cache.Run({x})[0];
        const auto second = cache.Run({x})[0];
        y->Backward(Tensor::FromScalar(3.0F), /*retain_graph=*/true);
        EXPECT_EQ(cache.OutputGradients("")[0], nullptr);
    }
    y->Backward();  // the cache is gone
    EXPECT_EQ(Values(x->grad()), (Floats{8}));
}

TEST(ActivationCache, ClonesStayAndReferencesAreWatched) {
    auto model = MakeModule([](const TensorList &inputs) { return TensorList{inputs[0]->Add(1)}; });
    ActivationCache clones(*model, "");
    ActivationCache references(*model, "", {.keep = Keep::kReference});
    const auto y = clones.Run({Of({1})})[0];
    const auto z = references.Run({Of({1})})[0];
    EXPECT_EQ(references[""], z);
    y->Mul_(10);
    z->Mul_(10);
    EXPECT_EQ(Values(clones[""]), (Floats{2}));
    const auto text = Thrown<AutogradError>([&] { references[""]; });
    EXPECT_TRUE(Contains(text, "one of the outputs of '', kept by reference, was changed in place since")) << text;
}

TEST(ActivationCache, ReferencesKeepTheirPlaceInTheGraph) {
    auto twice = Twice();
    auto model = Around(twice, [&](const TensorList &inputs) { return TensorList{(*twice)(inputs)[0]->Square()}; });
    ActivationCache cache(*model, "child", {.keep = Keep::kReference});
    const auto loss = cache.Run({Leaf(3)})[0];
    EXPECT_EQ(Values(autograd::Grad({loss}, {cache["child"]})[0]), (Floats{12}));
}

TEST(ActivationCache, StatisticsAlone) {
    auto model = MakeModule([](const TensorList &inputs) { return inputs; });
    const float infinity = std::numeric_limits<float>::infinity();
    for (const Keep keep : {Keep::kStatistics, Keep::kClone}) {
        ActivationCache cache(*model, "", {.keep = keep});
        cache.Run({Of({0, 2, 4, 6, infinity})});
        const auto statistics = cache.Statistics("")[0].value();
        EXPECT_EQ(statistics.count, 5);
        EXPECT_EQ(statistics.zeros, 1);
        EXPECT_EQ(statistics.infs, 1);
        EXPECT_EQ(statistics.mean, 3);
        EXPECT_EQ(statistics.min, 0);
        EXPECT_EQ(statistics.max, 6);
    }
    ActivationCache cache(*model, "", {.keep = Keep::kStatistics});
    cache.Run({Of({1})});
    EXPECT_EQ(cache.MemoryBytes(), 0U);
    EXPECT_EQ(Thrown<IndexError>([&] { cache[""]; }),
              "ActivationCache: of the outputs of '' only the statistics are kept");
}

TEST(ActivationCache, MemoryIsCountedOnce) {
    auto model = MakeModule([](const TensorList &inputs) {
        return TensorList{inputs[0]->Mul(2), inputs[0]->View({4})};
    });
    ActivationCache references(*model, "", {.keep = Keep::kReference, .inputs = true});
    references.Run({Tensor::Zeros({2, 2})});
    EXPECT_EQ(references.MemoryBytes(), 2 * 16U);  // the view shares the input's
    ActivationCache clones(*model, "", {.inputs = true});
    clones.Run({Tensor::Zeros({2, 2})});
    EXPECT_EQ(clones.MemoryBytes(), 3 * 16U);
}

TEST(ActivationCache, AskingForWhatIsntThere) {
    test::TinyTransformer model;
    ActivationCache cache(model, {"blocks.0.attn", "blocks.1.attn"});
    EXPECT_EQ(Thrown<IndexError>([&] { cache["blocks.0.attn"]; }),
              "ActivationCache: 'blocks.0.attn' wasn't called; collected are: none");
    cache.Run({Tokens()});
    EXPECT_EQ(Thrown<IndexError>([&] { cache["head"]; }),
              "ActivationCache: 'head' isn't among the chosen modules; collected are: 'blocks.0.attn', "
              "'blocks.1.attn'");
    EXPECT_EQ(Thrown<IndexError>([&] { cache.Inputs("blocks.0.attn"); }),
              "ActivationCache: the inputs aren't collected; ask for them in ActivationCacheOptions");
    EXPECT_EQ(Thrown<IndexError>([&] { cache.OutputGradients("blocks.0.attn"); }),
              "ActivationCache: the gradients of outputs aren't collected; ask for them in ActivationCacheOptions");
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] { ActivationCache(model, "blocks.*.atn"); }), "blocks.0.attn"));
}

TEST(ActivationCache, ARunThatThrowsLeavesWhatItHadCollected) {
    auto twice = Twice();
    auto model = Around(twice, [&](const TensorList &inputs) -> TensorList {
        (*twice)(inputs);
        throw std::runtime_error("no");
    });
    ActivationCache cache(*model, "**", {.inputs = true});
    EXPECT_THROW(cache.Run({Of({1})}), std::runtime_error);
    EXPECT_EQ(Values(cache["child"]), (Floats{2}));
    EXPECT_EQ(Values(cache.Inputs("")[0]), (Floats{1}));
    EXPECT_EQ(Thrown<IndexError>([&] { cache[""]; }),
              "ActivationCache: there are no outputs of '', which didn't return");
    (*twice)({Of({4})});  // nothing records any more
    EXPECT_EQ(cache.NumCalls("child"), 1U);
}

TEST(ActivationCache, StepsThatAreRunSomeOtherWay) {
    auto twice = Twice();
    ActivationCache cache(*twice, "");
    cache.Start();
    (*twice)({Of({1})});
    EXPECT_TRUE(Contains(Thrown<AutogradError>([&] { cache.Run({Of({1})}); }), "a recording is under way;"));
    EXPECT_TRUE(Contains(Thrown<AutogradError>([&] { cache.Start(); }), "a recording is under way;"));
    (*twice)({Of({2})});
    cache.Stop();
    cache.Stop();
    (*twice)({Of({3})});
    cache.Start();
    (*twice)({Of({4})});
    cache.Stop();
    ASSERT_EQ(cache.NumCalls(""), 3U);
    EXPECT_EQ(Values(cache.Outputs("", 1)[0]), (Floats{4}));
    EXPECT_EQ(Values(cache.Outputs("", 2)[0]), (Floats{8}));
}

TEST(ActivationCache, SeesWhatOtherHooksLeft) {
    auto twice = Twice();
    auto handle = twice->RegisterForwardPostHook(
        [](nn::Module *, const TensorList &, const TensorList &outputs) { return outputs[0]->Add(100); });
    ActivationCache cache(*twice, "");
    EXPECT_EQ(Values(cache.Run({Of({1})})[0]), (Floats{102}));
    EXPECT_EQ(Values(cache[""]), (Floats{102}));
}

TEST(ActivationCache, ThreadsRecordTheSameModelInCachesOfTheirOwn) {
    auto twice = Twice();
    auto model = Around(twice, [&](const TensorList &inputs) { return (*twice)((*twice)(inputs)); });
    std::vector<int> wrong(4);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < wrong.size(); ++t) {
        threads.emplace_back([&, t] {
            ActivationCache cache(*model, "child", {.inputs = true, .gradients = true});
            for (int i = 0; i < 30; ++i) {
                const auto value = static_cast<float>(1000 * t) + static_cast<float>(i);
                cache.Run({Leaf(value)})[0]->Backward();
                const bool right = cache.NumCalls("child") == 2 &&
                                   Values(cache.Outputs("child", 1)[0])[0] == 4 * value &&
                                   Values(cache.InputGradients("child", 0)[0])[0] == 4;
                wrong[t] += right ? 0 : 1;
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(ActivationCache, ASecondThreadIsRefused) {
    auto twice = Twice();
    ActivationCache cache(*twice, "");
    cache.Start();
    std::string run, stop;
    std::thread([&] {
        (*twice)({Of({5})});  // another thread's call isn't this recording's
        run = Thrown<AutogradError>([&] { cache.Run({Of({1})}); });
        stop = Thrown<AutogradError>([&] { cache.Stop(); });
    }).join();
    cache.Stop();
    EXPECT_EQ(cache.NumCalls(""), 0U);
    EXPECT_EQ(run, "ActivationCache: a recording is under way in another thread; stop it first, or use another cache");
    EXPECT_EQ(stop, "ActivationCache: another thread began the recording, and has to stop it");
}

TEST(ActivationCache, ModelOnTheStackAndMovedCache) {
    test::TinyTransformer model;
    ActivationCache cache = [&] {
        ActivationCache made(model, "head");
        made.Start();
        return made;
    }();
    model({Tokens()});
    EXPECT_EQ(cache.NumCalls("head"), 1U);
    cache = ActivationCache(model, "embed");
    model({Tokens()});
    EXPECT_FALSE(cache.Contains("head"));
}

}  // namespace
}  // namespace infini_train
