// Random graphs against a tape of scalars that shares nothing with the library's autograd. Set INFINI_TRAIN_GRAPH_SEED
// to run one seed alone.

#include "test/autograd/random_graph.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/checkpoint.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::RandomGraph;

constexpr uint64_t kGraphs = 5000, kCheckpointedGraphs = 1000;

TEST(RandomGraph, AgreesWithATapeOfScalars) {
    const char *only = std::getenv("INFINI_TRAIN_GRAPH_SEED");
    const uint64_t begin = only != nullptr ? std::strtoull(only, nullptr, 10) : 0;
    const uint64_t end = only != nullptr ? begin + 1 : kGraphs;
    uint64_t differentiated = 0;
    for (uint64_t seed = begin; seed < end && !::testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("INFINI_TRAIN_GRAPH_SEED=" + std::to_string(seed));
        RandomGraph graph(seed);
        graph.Build();
        differentiated += static_cast<uint64_t>(graph.Check());
    }
    RecordProperty("differentiated", std::to_string(differentiated));
    if (only == nullptr && !::testing::Test::HasFailure()) {
        EXPECT_GE(differentiated, kGraphs * 95 / 100) << "changes in place are refused too often";
    }
}

// All that these graphs save is computed again, by making a graph of the same seed.
TEST(RandomGraph, AgreesUnderACheckpoint) {
    uint64_t differentiated = 0;
    for (uint64_t seed = 0; seed < kCheckpointedGraphs && !::testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        RandomGraph graph(seed);
        const auto build = [&](const TensorList &) {
            if (autograd::IsRecomputing()) {
                RandomGraph(seed).Build();
            } else {
                graph.Build();
            }
            return TensorList();
        };
        autograd::Checkpoint(build, {});
        differentiated += static_cast<uint64_t>(graph.Check());
    }
    if (!::testing::Test::HasFailure()) {
        EXPECT_GE(differentiated, kCheckpointedGraphs * 95 / 100);
    }
}

// What the random graphs have found.

// b's gradient by the product isn't computed when only x is asked for, so that its hook would see a part of it.
TEST(RandomGraph, HookOfARootThatLeadsToNoTarget) {
    auto x = test::Leaf(2), w = test::Leaf(3);
    auto b = w * 1;
    int calls = 0;
    b->RegisterHook([&](const TensorPtr &) { ++calls; });
    EXPECT_EQ(test::Values(autograd::Grad({b, b * x}, {x})[0]), (test::Floats{3}));
    EXPECT_EQ(calls, 0);
}

TEST(RandomGraph, InPlaceProductOfTwoRecordedTensors) {
    auto x = test::Leaf(2), w = test::Leaf(3);
    auto y = x * 1;
    y->Mul_(w * 1);
    y->Mul_(y);  // x^2 w^2
    y->Backward();
    EXPECT_EQ(test::Values(x->grad()), (test::Floats{36}));
    EXPECT_EQ(test::Values(w->grad()), (test::Floats{24}));
}

TEST(RandomGraph, RecordedValuesIntoAViewOfPlainOnes) {
    auto x = test::Leaf({1, 2});
    auto whole = Tensor::Zeros({4});
    const auto refuse = [&](const TensorPtr &tensor, const TensorPtr &value) {
        const auto text = test::Thrown<AutogradError>([&] { tensor->Copy_(value); });
        EXPECT_TRUE(test::Contains(text, "shares its memory")) << text;
        EXPECT_THROW(tensor->Add_(value), AutogradError);
    };
    auto view = whole->Slice(0, 0, 2);
    refuse(view, x);
    refuse(whole, x->Sum());
    EXPECT_EQ(test::Values(whole), (test::Floats{0, 0, 0, 0}));
    view = nullptr;
    whole->Copy_(x->Sum());
    EXPECT_TRUE(whole->requires_grad());
}

}  // namespace
}  // namespace infini_train
