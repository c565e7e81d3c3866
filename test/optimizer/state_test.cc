// Saving and loading an optimizer's state.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using optimizers::Adam;
using optimizers::AdamW;
using optimizers::SGD;
using test::Contains;
using test::Floats;
using test::Leaf;
using test::Of;
using test::Thrown;
using test::Values;
using State = std::map<std::string, TensorPtr>;

State Snapshot(const Optimizer &optimizer) {
    State state = optimizer.StateDict();
    for (auto &[name, tensor] : state) {
        tensor = tensor->Clone();
    }
    return state;
}

std::vector<std::string> Names(const State &state) {
    std::vector<std::string> names;
    for (const auto &[name, tensor] : state) {
        names.push_back(name);
    }
    return names;
}

void Train(Optimizer &optimizer, int first, int last) {
    for (int step = first; step < last; ++step) {
        for (const TensorPtr &param : optimizer.params()) {
            Generator generator(static_cast<uint64_t>(step));
            param->set_grad(Tensor::Randn(param->Dims(), param->Dtype(), {}, &generator));
        }
        optimizer.Step();
    }
}

TEST(OptimizerState, ResumesBitForBit) {
    const std::vector<OptimizerCreator> creators = {SGD::Create(0.1), SGD::Create(0.1, 0.9, 0.1, 0.01),
                                                    SGD::Create(0.1, 0.9, 0, 0, true), Adam::Create(0.01),
                                                    AdamW::Create(0.01)};
    for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64, DataType::kBFLOAT16}) {
        for (const OptimizerCreator &create : creators) {
            const auto make = [&] {
                return TensorList{Tensor::Ones({3, 5}, dtype)->RequiresGrad(),
                                  Tensor::Ones({7}, dtype)->RequiresGrad()};
            };
            const TensorList whole = make();
            const auto first = create(whole);
            Train(*first, 0, 3);
            first->set_learning_rate(0.05);
            const State state = Snapshot(*first);
            TensorList resumed;
            for (const TensorPtr &param : whole) {
                resumed.push_back(param->Detach()->Clone()->RequiresGrad());
            }
            const auto second = create(resumed);
            second->LoadStateDict(state);
            EXPECT_EQ(second->learning_rate(), 0.05);
            Train(*first, 3, 6);
            Train(*second, 3, 6);
            for (size_t i = 0; i < whole.size(); ++i) {
                EXPECT_EQ(whole[i]->ToVector<double>(), resumed[i]->ToVector<double>()) << first->type();
            }
            EXPECT_EQ(Names(first->StateDict()), Names(second->StateDict()));
        }
    }
}

TEST(OptimizerState, HasDocumentedNames) {
    const auto a = Leaf(Floats{1});
    const auto b = Leaf(Floats{1});
    AdamW optimizer({{.params = {a}}, {.params = {b}, .lr = 0.5}}, 0.25);
    b->set_grad(Of({2}));
    optimizer.Step();
    const State state = optimizer.StateDict();
    EXPECT_EQ(Names(state),
              std::vector<std::string>({"1.exp_avg", "1.exp_avg_sq", "1.step", "beta1", "beta2", "eps", "group.0.lr",
                                        "group.0.weight_decay", "group.1.lr", "group.1.weight_decay"}));
    EXPECT_EQ(state.at("group.1.lr")->Item<double>(), 0.5);
    EXPECT_EQ(state.at("beta2")->Item<double>(), 0.999);
    EXPECT_FLOAT_EQ(Values(state.at("1.exp_avg"))[0], 0.2F);
    EXPECT_FLOAT_EQ(Values(state.at("1.exp_avg_sq"))[0], 0.004F);
    EXPECT_EQ(state.at("1.step")->Item<int64_t>(), 1);
}

TEST(OptimizerState, LoadingTakesCopies) {
    const auto a = Leaf(Floats{1});
    SGD first(TensorList{a}, 0.5, 0.5);
    a->set_grad(Of({2}));
    first.Step();
    const State state = first.StateDict();
    const auto b = Leaf(Floats{1});
    SGD second(TensorList{b}, 0.5, 0.5);
    second.LoadStateDict(state);
    first.Step();
    EXPECT_EQ(Values(second.StateDict().at("0.momentum_buffer")), Floats({2}));
    EXPECT_EQ(Values(state.at("0.momentum_buffer")), Floats({3}));  // shared with the first optimizer
    second.LoadStateDict(second.StateDict());
    EXPECT_EQ(Values(second.StateDict().at("0.momentum_buffer")), Floats({2}));
}

TEST(OptimizerState, WhatDoesntFitChangesNothing) {
    const auto w = Leaf({1, 2});
    Adam optimizer(TensorList{w}, 0.1);
    w->set_grad(Of({1, 1}));
    optimizer.Step();
    const State good = Snapshot(optimizer);
    const auto message = [&](const auto &change) {
        State state = good;
        state["group.0.lr"] = Tensor::FromScalar(0.7, DataType::kFLOAT64);
        change(state);
        std::string text = Thrown<ValueError>([&] { optimizer.LoadStateDict(state); });
        EXPECT_EQ(optimizer.learning_rate(), 0.1);
        EXPECT_EQ(Values(optimizer.StateDict().at("0.exp_avg")), Values(good.at("0.exp_avg")));
        return text;
    };
    EXPECT_EQ(message([](State &state) { state.erase("0.exp_avg_sq"); }),
              "Adam: the state doesn't fit:\n  0.exp_avg_sq is missing");
    EXPECT_EQ(message([](State &state) { state.erase("beta1"); }), "Adam: the state doesn't fit:\n  beta1 is missing");
    EXPECT_EQ(message([](State &state) { state["1.step"] = state["0.step"]; }),
              "Adam: the state doesn't fit:\n  1.step is unexpected");
    EXPECT_EQ(message([](State &state) {
                  state["0.exp_avg"] = Of({1, 2, 3});
              }),
              "Adam: the state doesn't fit:\n  0.exp_avg: expected shape (2,), got (3,) of float32");
    EXPECT_EQ(message([](State &state) {
                  state["0.step"] = Of({1, 2});
              }),
              "Adam: the state doesn't fit:\n  0.step: expected one number, got (2,)");
    EXPECT_EQ(message([](State &state) { state["beta2"] = Tensor::FromScalar(1); }),
              "Adam: the state doesn't fit:\n  beta2 is 1");
    EXPECT_EQ(message([](State &state) { state["group.0.lr"] = Tensor::FromScalar(-1); }),
              "Adam: the state doesn't fit:\n  group.0.lr is -1");
    EXPECT_EQ(message([](State &state) { state["0.step"] = nullptr; }),
              "Adam: the state doesn't fit:\n  0.step is missing");
    // A state with momentum has nowhere to go in an optimizer without.
    SGD plain(TensorList{w}, 0.1);
    SGD heavy(TensorList{w}, 0.1, 0.9);
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { plain.LoadStateDict(heavy.StateDict()); }), "momentum is 0.9"));
}

TEST(OptimizerState, ForgetsWhatTheLoadedStateDoesntHave) {
    const auto w = Leaf(Floats{1});
    Adam fresh(TensorList{w}, 0.1);
    const State empty = Snapshot(fresh);
    w->set_grad(Of({1}));
    fresh.Step();
    fresh.LoadStateDict(empty);
    EXPECT_EQ(fresh.StateDict().count("0.step"), 0U);
    fresh.Step();
    EXPECT_FLOAT_EQ(Values(w)[0], 0.8F);
    EXPECT_EQ(fresh.StateDict().at("0.step")->Item<int64_t>(), 1);
}

}  // namespace
}  // namespace infini_train
