#include "infini_train/include/autograd/rotary.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/gradcheck.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "test/operators/near.h"
#include "test/support/instruction_sets.h"

namespace infini_train::test {
namespace {

using nn::function::RotaryEmbedding;

// cos and sin of position / 10000^(i / pairs), (length, pairs).
TensorList Tables(int64_t length, int64_t pairs, DataType dtype) {
    std::vector<double> cos, sin;
    for (int64_t t = 0; t < length; ++t) {
        for (int64_t i = 0; i < pairs; ++i) {
            const double angle =
                static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs));
            cos.push_back(std::cos(angle));
            sin.push_back(std::sin(angle));
        }
    }
    const std::vector<int64_t> dims{length, pairs};
    return {Tensor::FromVector(cos, dims)->To(dtype), Tensor::FromVector(sin, dims)->To(dtype)};
}

// Pair by pair, as the definition says.
std::vector<double> Reference(const TensorPtr &x, const TensorList &tables, bool interleaved) {
    auto values = x->ToVector<double>();
    const auto cos = tables[0]->ToVector<double>(), sin = tables[1]->ToVector<double>();
    const auto n = static_cast<size_t>(x->Dim(-1)), length = static_cast<size_t>(x->Dim(-2));
    for (size_t row = 0; row * n < values.size(); ++row) {
        for (size_t i = 0; i < n / 2; ++i) {
            double &a = values[row * n + (interleaved ? 2 * i : i)];
            double &b = values[row * n + (interleaved ? 2 * i + 1 : i + n / 2)];
            const size_t at = row % length * (n / 2) + i;
            const double turned = a * cos[at] - b * sin[at];
            b = a * sin[at] + b * cos[at];
            a = turned;
        }
    }
    return values;
}

TEST(RotaryEmbedding, ValuesOnEveryInstructionSet) {
    ForEachInstructionSet([] {
        for (const std::vector<int64_t> &dims :
             {std::vector<int64_t>{1, 2}, {5, 6}, {2, 3, 7, 64}, {3, 4, 70}, {2, 0, 4}, {3, 0}}) {
            for (const auto &[dtype, tolerance] :
                 {std::pair{DataType::kFLOAT64, 1e-14}, {DataType::kFLOAT32, 1e-6}, {DataType::kBFLOAT16, 1e-2}}) {
                for (const bool interleaved : {false, true}) {
                    const auto x = NoiseTensor(dims, dtype);
                    const auto tables = Tables(dims[dims.size() - 2], dims.back() / 2, dtype);
                    const auto y = RotaryEmbedding(x, tables[0], tables[1], interleaved);
                    EXPECT_EQ(y->Dtype(), dtype);
                    EXPECT_EQ(y->Dims(), dims);
                    ExpectNear(y, Reference(x, tables, interleaved), tolerance);
                }
            }
        }
    });
}

TEST(RotaryEmbedding, TheGradientIsTurnedBack) {
    for (const bool interleaved : {false, true}) {
        const auto tables = Tables(5, 3, DataType::kFLOAT64);
        const auto x = NoiseTensor({2, 5, 6}, DataType::kFLOAT64)->RequiresGrad();
        const auto y = RotaryEmbedding(x, tables[0], tables[1], interleaved);
        y->Backward(y->Detach());
        ExpectNear(x->grad(), x->ToVector<double>(), 1e-14);
    }
}

TEST(RotaryEmbedding, WideTablesForANarrowTensor) {
    const auto tables = Tables(4, 5, DataType::kFLOAT32);
    const auto x = NoiseTensor({4, 10}, DataType::kFLOAT16);
    const auto y = RotaryEmbedding(x, tables[0], tables[1]);
    EXPECT_EQ(y->Dtype(), DataType::kFLOAT16);
    ExpectNear(y, Reference(x, tables, false), 1e-3);
}

TEST(RotaryEmbedding, TheOutputLiesAsTheInput) {
    const auto tables = Tables(5, 2, DataType::kFLOAT32);
    const auto x = NoiseTensor({2, 5, 3, 4}, DataType::kFLOAT32)->Transpose(1, 2);
    const auto y = RotaryEmbedding(x, tables[0], tables[1]);
    EXPECT_EQ(y->Strides(), x->Strides());
    ExpectNear(y, Reference(x, tables, false), 1e-6);
    const auto part = NoiseTensor({2, 5, 24}, DataType::kFLOAT32)->Narrow(2, 4, 12)->View({2, 5, 3, 4});
    const auto z = RotaryEmbedding(part->Transpose(1, 2), tables[0], tables[1], true);
    EXPECT_TRUE(z->Transpose(1, 2)->IsContiguous());
    ExpectNear(z, Reference(part->Transpose(1, 2), tables, true), 1e-6);
}

TEST(RotaryEmbedding, DerivativesByFiniteDifferences) {
    for (const bool interleaved : {false, true}) {
        TensorList inputs{NoiseTensor({2, 3, 4}, DataType::kFLOAT64)->RequiresGrad()};
        for (const auto &table : Tables(3, 2, DataType::kFLOAT64)) {
            inputs.push_back(table->RequiresGrad());
        }
        const auto function = [&](const TensorList &in) -> TensorList {
            return {RotaryEmbedding(in[0], in[1], in[2], interleaved)};
        };
        const auto first = autograd::GradCheck(function, inputs);
        EXPECT_TRUE(first) << first.message;
        const auto second = autograd::GradGradCheck(function, inputs);
        EXPECT_TRUE(second) << second.message;
    }
}

TEST(RotaryEmbedding, AnyNumberOfThreads) {
    const auto tables = Tables(130, 16, DataType::kFLOAT32);
    const auto x = NoiseTensor({3, 5, 130, 32}, DataType::kFLOAT32);
    ExpectSameForAnyThreads([&] { return RotaryEmbedding(x, tables[0], tables[1], true); });
}

TEST(RotaryEmbedding, Errors) {
    const auto x = Tensor::Zeros({2, 3, 4});
    const auto table = Tensor::Zeros({3, 2});
    EXPECT_EQ(MessageOf<ShapeError>([&] {
                  RotaryEmbedding(Tensor::Zeros({3, 5}), table, table);
              }),
              "RotaryEmbedding: expected x (..., T, D) with an even D, got (3, 5)");
    EXPECT_EQ(MessageOf<ShapeError>([&] {
                  RotaryEmbedding(x, table, Tensor::Zeros({2, 2}));
              }),
              "RotaryEmbedding: expected cos and sin (T, D / 2) = (3, 2), got (3, 2) and (2, 2)");
    const auto wide = Tensor::Zeros({3, 2}, DataType::kFLOAT64);
    EXPECT_EQ(MessageOf<DtypeError>([&] { RotaryEmbedding(x, wide, wide); }),
              "RotaryEmbedding: expected cos and sin of float32, got float64 and float64");
    EXPECT_EQ(MessageOf<DtypeError>([&] { RotaryEmbedding(x->To(DataType::kINT32), table, table); }),
              "RotaryEmbedding: expected a floating-point tensor, got int32");
    MessageOf<ShapeError>([&] { RotaryEmbedding(Tensor::Zeros({4}), table, table); });
    MessageOf<ValueError>([&] { RotaryEmbedding(x, nullptr, table); });
}

}  // namespace
}  // namespace infini_train::test
