#include "infini_train/include/autograd/attention.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/gradcheck.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "test/operators/near.h"
#include "test/support/instruction_sets.h"

namespace infini_train::test {
namespace {

using nn::function::AttentionOptions;
using nn::function::ScaledDotProductAttention;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// As one writes it without the operator. Every query must see a key.
TensorPtr Composed(const TensorList &qkv, const AttentionOptions &options) {
    const auto &q = qkv[0];
    const int64_t group = q->Dim(1) / qkv[1]->Dim(1), t = q->Dim(2), s = qkv[1]->Dim(2);
    const auto k = qkv[1]->RepeatInterleave(group, 1), v = qkv[2]->RepeatInterleave(group, 1);
    const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q->Dim(3))));
    auto scores = q->Matmul(k->Transpose(2, 3))->Mul(scale);
    if (options.mask != nullptr && options.mask->Dtype() == DataType::kBOOL) {
        scores = scores->MaskedFill(options.mask->Equals(0), -kInfinity);
    } else if (options.mask != nullptr) {
        scores = scores->Add(options.mask);
    }
    if (options.is_causal) {
        scores = scores->MaskedFill(Tensor::Ones({t, s}, DataType::kBOOL)->Triu(s - t + 1), -kInfinity);
    }
    const auto weights = scores->Softmax(-1);
    return nn::function::Dropout(weights, options.dropout_p, true, options.generator)->Matmul(v);
}

TensorPtr Fused(const TensorList &qkv, const AttentionOptions &options) {
    return ScaledDotProductAttention(qkv[0], qkv[1], qkv[2], options);
}

struct Shape {
    int64_t b, h, key_heads, t, s, d, dv;

    TensorList Inputs(DataType dtype) const {
        return {NoiseTensor({b, h, t, d}, dtype, 1)->Mul(2), NoiseTensor({b, key_heads, s, d}, dtype, 2)->Mul(2),
                NoiseTensor({b, key_heads, s, dv}, dtype, 3)};
    }
    std::string Text() const {
        std::string text;
        for (const int64_t n : {b, h, key_heads, t, s, d, dv}) {
            text += std::to_string(n) + " ";
        }
        return text;
    }
};

const Shape kShapes[] = {{1, 1, 1, 1, 1, 1, 1},     {2, 3, 3, 5, 7, 3, 4},       {1, 4, 2, 17, 33, 8, 8},
                         {1, 2, 2, 64, 64, 64, 64}, {2, 2, 1, 65, 130, 16, 20},  {1, 1, 1, 3, 200, 40, 9},
                         {1, 6, 2, 1, 70, 16, 16},  {1, 1, 1, 130, 131, 80, 65}, {1, 17, 17, 65, 65, 5, 7}};

// Outputs and the three gradients.
TensorList OutputAndGrads(const TensorList &inputs, const AttentionOptions &options,
                          TensorPtr (*attention)(const TensorList &, const AttentionOptions &)) {
    TensorList leaves;
    for (const auto &input : inputs) {
        leaves.push_back(input->Detach()->RequiresGrad());
    }
    const auto y = attention(leaves, options);
    TensorList results = autograd::Grad({y}, leaves, {NoiseTensor(y->Dims(), y->Dtype(), 4)});
    results.insert(results.begin(), y->Detach());
    return results;
}

// Compares with the composition in float64; `options` are given a generator of their own for each.
void ExpectAsComposed(const Shape &shape, AttentionOptions options, DataType dtype, double tolerance) {
    const TensorList inputs = shape.Inputs(dtype);
    Generator ours(11), theirs(11);
    options.generator = &ours;
    const TensorList actual = OutputAndGrads(inputs, options, &Fused);
    TensorList wide;
    for (const auto &input : inputs) {
        wide.push_back(input->To(DataType::kFLOAT64));
    }
    options.generator = &theirs;
    if (options.mask != nullptr && options.mask->Dtype() != DataType::kBOOL) {
        options.mask = options.mask->To(DataType::kFLOAT64);
    }
    const TensorList expected = OutputAndGrads(wide, options, &Composed);
    EXPECT_EQ(ours.GetState(), theirs.GetState());
    const char *const names[] = {"output", "dq", "dk", "dv"};
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(actual[i]->Dtype(), dtype);
        EXPECT_EQ(actual[i]->Dims(), expected[i]->Dims());
        ExpectNear(actual[i], expected[i]->ToVector<double>(), tolerance, shape.Text() + names[i]);
    }
}

// Each query sees at least its first key.
TensorPtr BoolMask(const std::vector<int64_t> &dims) {
    const auto mask = NoiseTensor(dims, DataType::kFLOAT64, 5)->Gt(-0.3);
    mask->Narrow(-1, 0, 1)->Fill_(1);
    return mask;
}

void CompareAll(DataType dtype, double tolerance, size_t shapes = std::size(kShapes)) {
    for (const Shape &s : std::span(kShapes).first(shapes)) {
        ExpectAsComposed(s, {}, dtype, tolerance);
        ExpectAsComposed(s, {.is_causal = s.t <= s.s, .scale = 0.3}, dtype, tolerance);
        ExpectAsComposed(s, {.mask = BoolMask({s.t, s.s})}, dtype, tolerance);
        ExpectAsComposed(s, {.mask = BoolMask({s.b, 1, 1, s.s}), .is_causal = s.t <= s.s}, dtype, tolerance);
        ExpectAsComposed(s, {.mask = NoiseTensor({s.h, s.t, s.s}, dtype, 6)}, dtype, tolerance);
        ExpectAsComposed(s, {.mask = NoiseTensor({s.s}, dtype, 6), .dropout_p = 0.25}, dtype, tolerance);
        ExpectAsComposed(s, {.dropout_p = 0.6, .is_causal = s.t <= s.s}, dtype, tolerance);
    }
}

TEST(Attention, AsTheCompositionOnEveryInstructionSet) {
    ForEachInstructionSet([] {
        CompareAll(DataType::kFLOAT64, 1e-11);
        CompareAll(DataType::kFLOAT32, 2e-5);
    });
}

TEST(Attention, SixteenBitTypesAreRoundedOnce) {
    CompareAll(DataType::kBFLOAT16, 3e-2, 5);
    CompareAll(DataType::kFLOAT16, 4e-3, 5);
}

TEST(Attention, AnyStrides) {
    const Shape shape{2, 3, 3, 6, 6, 4, 4};
    const AttentionOptions options{.is_causal = true};
    const auto expected = OutputAndGrads(shape.Inputs(DataType::kFLOAT32), options, &Fused);
    const auto expect_same = [&](const TensorList &inputs) {
        const auto results = OutputAndGrads(inputs, options, &Fused);
        for (size_t i = 0; i < 4; ++i) {
            ExpectNear(results[i], expected[i]->ToVector<double>(), 0);
        }
    };
    TensorList turned, sparse;
    for (const auto &x : shape.Inputs(DataType::kFLOAT32)) {
        turned.push_back(x->Permute({3, 0, 2, 1})->Contiguous()->Permute({1, 3, 2, 0}));
        auto wide = x->Dims();
        wide.push_back(2);
        sparse.push_back(Tensor::Zeros(wide)->Select(-1, 1)->Copy_(x)->Detach());
    }
    expect_same(turned);
    expect_same(sparse);
}

TEST(Attention, TheOutputIsReadyToJoinTheHeads) {
    const auto qkv = Shape{2, 3, 3, 5, 5, 4, 4}.Inputs(DataType::kFLOAT32);
    const auto y = Fused(qkv, {});
    EXPECT_EQ(y->Dims(), (std::vector<int64_t>{2, 3, 5, 4}));
    EXPECT_NO_THROW(y->Transpose(1, 2)->View({2, 5, 12}));
}

// The gradients of three parts of one tensor are parts of one tensor: joining them copies nothing.
TEST(Attention, GradientsOfPartsOfOneTensorAreJoinedInPlace) {
    const int64_t b = 2, t = 5, h = 4, d = 3;
    const AttentionOptions options{.is_causal = true};
    const auto grad = NoiseTensor({b, h, t, d}, DataType::kFLOAT64, 2);
    const auto heads = [&](const TensorPtr &part) { return part->View({b, t, part->Dim(2) / d, d})->Transpose(1, 2); };
    const auto x = NoiseTensor({b, t, 3 * h * d}, DataType::kFLOAT64)->RequiresGrad();
    const void *of_part = nullptr, *of_whole = nullptr;
    const auto parts = MemoryOfGradient::Watch(x, &of_whole)->Split(h * d, 2);
    Fused({heads(parts[0]), heads(MemoryOfGradient::Watch(parts[1], &of_part)), heads(parts[2])}, options)
        ->Backward(grad);
    EXPECT_NE(of_part, nullptr);
    EXPECT_EQ(of_part, of_whole);
    // The same of tensors of their own.
    TensorList leaves;
    for (const auto &part : parts) {
        leaves.push_back(part->Detach()->Contiguous()->RequiresGrad());
    }
    const auto y = Fused({heads(leaves[0]), heads(leaves[1]), heads(leaves[2])}, options);
    y->Backward(grad);
    for (size_t i = 0; i < 3; ++i) {
        const auto part = x->grad()->Narrow(2, static_cast<int64_t>(i) * h * d, h * d);
        ExpectNear(part, leaves[i]->grad()->ToVector<double>(), 0);
    }
}

// With fewer key heads the parts differ in size, and are taken one by one.
TEST(Attention, GradientsOfUnequalPartsOfOneTensor) {
    const int64_t b = 2, t = 5, h = 4, kv = 2, d = 3;
    const auto grad = NoiseTensor({b, h, t, d}, DataType::kFLOAT64, 2);
    const auto attend = [&](const TensorPtr &x) {
        const auto part = [&](int64_t first, int64_t n) {
            return x->Narrow(2, first * d, n * d)->View({b, t, n, d})->Transpose(1, 2);
        };
        return Fused({part(0, h), part(h, kv), part(h + kv, kv)}, {.is_causal = true})->Mul(grad)->Sum();
    };
    const auto x = NoiseTensor({b, t, (h + 2 * kv) * d}, DataType::kFLOAT64)->RequiresGrad();
    attend(x)->Backward();
    const auto value = [&](const TensorPtr &at) { return attend(at)->Item<double>(); };
    ExpectNear(x->grad(), NumericGradient(value, x->Detach()), 1e-8);
}

TEST(Attention, WhatSeesNothingGivesZeros) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const int64_t d : {3, 16}) {
        // With more queries than keys, the first ones see none.
        const TensorList inputs = Shape{1, 2, 1, 70, 4, d, d}.Inputs(DataType::kFLOAT64);
        const auto results = OutputAndGrads(inputs, {.is_causal = true}, &Fused);
        ExpectNear(results[0]->Narrow(2, 0, 66), std::vector<double>(static_cast<size_t>(2 * 66 * d), 0), 0);
        ExpectNear(results[1]->Narrow(2, 0, 66), std::vector<double>(static_cast<size_t>(2 * 66 * d), 0), 0);
        // The others are as without those.
        const TensorList seeing{inputs[0]->Narrow(2, 66, 4), inputs[1], inputs[2]};
        ExpectNear(results[0]->Narrow(2, 66, 4), Composed(seeing, {.is_causal = true})->ToVector<double>(), 1e-12);
    }
    const TensorList inputs = Shape{1, 1, 1, 2, 3, 4, 4}.Inputs(DataType::kFLOAT64);
    const auto poisoned = Tensor::Full({1, 1, 3, 4}, nan, DataType::kFLOAT64);
    for (const TensorPtr &mask :
         {Tensor::Zeros({2, 3}, DataType::kBOOL), Tensor::Full({2, 3}, -kInfinity, DataType::kFLOAT64)}) {
        for (const auto &result : OutputAndGrads(inputs, {.mask = mask}, &Fused)) {
            ExpectNear(result, std::vector<double>(static_cast<size_t>(result->NumElements()), 0), 0);
        }
        ExpectNear(Fused({inputs[0], inputs[1], poisoned}, {.mask = mask}), std::vector<double>(8, 0), 0);
    }
}

TEST(Attention, EmptyTensors) {
    const Shape shapes[] = {{0, 2, 2, 3, 3, 4, 4},
                            {1, 0, 0, 3, 3, 4, 4},
                            {1, 2, 2, 0, 3, 4, 4},
                            {1, 2, 2, 3, 0, 4, 4},
                            {1, 2, 2, 3, 3, 4, 0}};
    for (const Shape &shape : shapes) {
        for (const bool causal : {false, true}) {
            for (const auto &result : OutputAndGrads(shape.Inputs(DataType::kFLOAT32), {.is_causal = causal}, &Fused)) {
                ExpectNear(result, std::vector<double>(static_cast<size_t>(result->NumElements()), 0), 0, shape.Text());
            }
        }
    }
    // Without features all keys weigh the same.
    const TensorList inputs = Shape{1, 1, 1, 2, 4, 0, 3}.Inputs(DataType::kFLOAT64);
    ExpectNear(Fused(inputs, {})->Select(2, 1), inputs[2]->Mean(2)->ToVector<double>(), 1e-15);
}

TEST(Attention, LargeScoresDontOverflow) {
    const auto q = Tensor::FromVector<float>({100, 200}, {{1, 1, 2, 1}});
    const auto k = Tensor::FromVector<float>({3, 5, -4}, {{1, 1, 3, 1}});
    const auto v = Tensor::FromVector<float>({1, 2, 4}, {{1, 1, 3, 1}});
    ExpectNear(Fused({q, k, v}, {}), {2, 2}, 0);
    ExpectNear(Fused({q, k, v}, {.scale = -1.0}), {4, 4}, 0);
    const auto nan = Tensor::Full({1, 1, 2, 1}, std::nan(""));
    EXPECT_TRUE(std::isnan(Fused({nan, k, v}, {})->ToVector<double>()[0]));
}

// A mask of -1e9 rather than -infinity, also for all keys of a query: float32 then holds nothing else of a score.
TEST(Attention, MasksOfLargeNumbers) {
    const Shape shape{1, 2, 2, 70, 130, 8, 8};
    const auto mask = NoiseTensor({70, 130}, DataType::kFLOAT32, 5)->Gt(0)->To(DataType::kFLOAT32)->Mul(-1e9);
    mask->Narrow(0, 3, 40)->Fill_(-1e9);
    const TensorList inputs = shape.Inputs(DataType::kFLOAT32);
    const auto actual = OutputAndGrads(inputs, {.mask = mask}, &Fused);
    const auto expected = OutputAndGrads(inputs, {.mask = mask}, &Composed);
    for (size_t i = 0; i < 4; ++i) {
        ExpectNear(actual[i], expected[i]->ToVector<double>(), 2e-5);
    }
}

TEST(Attention, DropoutKeepsTheExpectedShare) {
    // Equal weights 1 / S and the identity as values: the output is the weights after dropout.
    const int64_t t = 300, s = 200;
    const double p = 0.3;
    const auto zeros = [](int64_t n) { return Tensor::Zeros({1, 1, n, 8}); };
    const auto eye = Tensor::Eye(s)->View({1, 1, s, s});
    Generator generator(3);
    const auto y = Fused({zeros(t), zeros(s), eye}, {.dropout_p = p, .generator = &generator});
    EXPECT_EQ(generator.GetState().offset, static_cast<uint64_t>(t * s / 4));
    int64_t dropped = 0;
    for (const double value : y->ToVector<double>()) {
        dropped += value == 0 ? 1 : 0;
        EXPECT_NEAR(value, value == 0 ? 0 : 1 / (static_cast<double>(s) * (1 - p)), 1e-8);
    }
    const auto n = static_cast<double>(t * s);
    EXPECT_NEAR(static_cast<double>(dropped), p * n, 5 * std::sqrt(p * (1 - p) * n));
    const auto all = Fused({zeros(t), zeros(s), eye}, {.dropout_p = 1.0});
    ExpectNear(all, std::vector<double>(static_cast<size_t>(t * s), 0), 0);
}

TEST(Attention, DerivativesWithDropoutByFiniteDifferences) {
    TensorList inputs;
    for (const auto &x : Shape{1, 4, 2, 3, 5, 2, 3}.Inputs(DataType::kFLOAT64)) {
        inputs.push_back(x->Detach()->RequiresGrad());
    }
    const auto function = [](const TensorList &x) -> TensorList {
        Generator generator(21);  // the same numbers at each call
        return {Fused(x, {.dropout_p = 0.4, .is_causal = true, .generator = &generator})};
    };
    const auto first = autograd::GradCheck(function, inputs);
    EXPECT_TRUE(first) << first.message;
    const auto second = autograd::GradGradCheck(function, inputs);
    EXPECT_TRUE(second) << second.message;
}

TEST(Attention, AMaskThatRequiresAGradientGetsOne) {
    const TensorList qkv = Shape{2, 2, 2, 3, 4, 5, 5}.Inputs(DataType::kFLOAT64);
    const auto mask = NoiseTensor({2, 1, 4}, DataType::kFLOAT64, 7)->RequiresGrad();
    Fused(qkv, {.mask = mask})->Mul(NoiseTensor({2, 2, 3, 5}, DataType::kFLOAT64, 8))->Sum()->Backward();
    const auto value = [&](const TensorPtr &at) {
        return Fused(qkv, {.mask = at})->Mul(NoiseTensor({2, 2, 3, 5}, DataType::kFLOAT64, 8))->Sum()->Item<double>();
    };
    ExpectNear(mask->grad(), NumericGradient(value, mask->Detach()), 1e-8);
}

TEST(Attention, OnlyWantedGradients) {
    const TensorList qkv = Shape{1, 2, 2, 3, 3, 4, 4}.Inputs(DataType::kFLOAT64);
    const auto q = qkv[0]->Detach()->RequiresGrad();
    Fused({q, qkv[1], qkv[2]}, {})->Sum()->Backward();
    EXPECT_NE(q->grad(), nullptr);
    EXPECT_EQ(qkv[1]->grad(), nullptr);
}

TEST(Attention, AnyNumberOfThreads) {
    // Many heads, one a task, and few, whose keys are divided.
    for (const Shape &shape : {Shape{2, 9, 9, 70, 70, 16, 16}, Shape{1, 2, 1, 300, 300, 8, 8}}) {
        const TensorList inputs = shape.Inputs(DataType::kFLOAT32);
        for (const size_t which : {0, 1, 2, 3}) {
            ExpectSameForAnyThreads([&] {
                Generator generator(1);
                return OutputAndGrads(inputs, {.dropout_p = 0.1, .is_causal = true, .generator = &generator},
                                      &Fused)[which];
            });
        }
    }
}

TEST(Attention, TheWeightsAreNeverInMemory) {
    const int64_t length = 2048;
    const TensorList inputs = Shape{1, 1, 1, length, length, 8, 8}.Inputs(DataType::kFLOAT32);
    Allocator &allocator = GetAllocator(Device());
    const auto peak_of = [&](TensorPtr (*attention)(const TensorList &, const AttentionOptions &)) {
        allocator.ResetPeak();
        const size_t before = allocator.Stats().live;
        OutputAndGrads(inputs, {.is_causal = true}, attention);
        return allocator.Stats().peak - before;
    };
    const auto weights = static_cast<size_t>(length * length) * sizeof(float);
    EXPECT_GT(peak_of(&Composed), 3 * weights);
    EXPECT_LT(peak_of(&Fused), weights / 4);
}

TEST(Attention, Errors) {
    const auto zeros = [](const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32) {
        return Tensor::Zeros(dims, dtype);
    };
    const auto q = zeros({2, 4, 3, 8}), kv = zeros({2, 2, 5, 8});
    EXPECT_EQ(MessageOf<ShapeError>([&] {
                  Fused({zeros({4, 3, 8}), kv, kv}, {});
              }),
              "ScaledDotProductAttention: expected a query (B, H, T, D), a key (B, Hkv, S, D) and a value (B, Hkv, S, "
              "Dv), got (4, 3, 8), (2, 2, 5, 8) and (2, 2, 5, 8)");
    EXPECT_EQ(MessageOf<ShapeError>([&] {
                  Fused({q, zeros({2, 2, 5, 7}), kv}, {});
              }),
              "ScaledDotProductAttention: query (2, 4, 3, 8), key (2, 2, 5, 7) and value (2, 2, 5, 8) don't fit: "
              "expected one batch size, one number of features of query and key, and one number of heads and of "
              "positions of key and value");
    EXPECT_EQ(MessageOf<ShapeError>([&] {
                  Fused({q, zeros({2, 3, 5, 8}), zeros({2, 3, 5, 8})}, {});
              }),
              "ScaledDotProductAttention: expected a number of query heads that is a multiple of the 3 key heads, got "
              "4");
    EXPECT_EQ(MessageOf<ShapeError>([&] {
                  Fused({q, kv, kv}, {.mask = zeros({3, 4}, DataType::kBOOL)});
              }),
              "ScaledDotProductAttention: expected a mask that broadcasts to (B, H, T, S) = (2, 4, 3, 5), got (3, 4)");
    EXPECT_EQ(MessageOf<DtypeError>([&] {
                  Fused({q, kv, kv}, {.mask = zeros({3, 5}, DataType::kINT32)});
              }),
              "ScaledDotProductAttention: expected a mask of bool or float32, got int32");
    EXPECT_EQ(MessageOf<DtypeError>([&] {
                  Fused({q, kv, zeros({2, 2, 5, 8}, DataType::kFLOAT64)}, {});
              }),
              "ScaledDotProductAttention: expected query, key and value of one floating-point type, got float32, "
              "float32 and float64");
    EXPECT_EQ(MessageOf<ValueError>([&] {
                  Fused({q, kv, kv}, {.dropout_p = 1.5});
              }),
              "ScaledDotProductAttention: expected a probability in [0, 1], got 1.5");
    MessageOf<ValueError>([&] { Fused({q, nullptr, kv}, {}); });
}

}  // namespace
}  // namespace infini_train::test
