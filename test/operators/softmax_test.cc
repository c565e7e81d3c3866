#include "infini_train/include/autograd/softmax.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/operators/near.h"
#include "test/support/instruction_sets.h"

namespace infini_train::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Slices {
    int64_t outer = 1, n = 1, inner = 1;

    Slices(const std::vector<int64_t> &dims, size_t dim) {
        for (size_t i = 0; i < dims.size(); ++i) {
            (i < dim ? outer : i == dim ? n : inner) *= dims[i];
        }
    }
    // Calls f(positions of a slice's elements).
    void ForEach(const std::function<void(const std::vector<size_t> &)> &f) const {
        for (int64_t o = 0; o < outer; ++o) {
            for (int64_t i = 0; i < inner; ++i) {
                std::vector<size_t> positions;
                for (int64_t k = 0; k < n; ++k) {
                    positions.push_back(static_cast<size_t>((o * n + k) * inner + i));
                }
                f(positions);
            }
        }
    }
};

std::vector<double> Reference(const TensorPtr &x, size_t dim, bool log) {
    auto values = x->ToVector<double>();
    Slices(x->Dims(), dim).ForEach([&](const std::vector<size_t> &at) {
        double max = -kInf, sum = 0;
        for (const size_t i : at) {
            max = std::max(max, values[i]);
        }
        for (const size_t i : at) {
            sum += std::exp(values[i] - max);
        }
        for (const size_t i : at) {
            values[i] = log ? values[i] - max - std::log(sum) : std::exp(values[i] - max) / sum;
        }
    });
    return values;
}

// Of sum(w * y) in x.
std::vector<double> ReferenceGradient(const TensorPtr &x, const std::vector<double> &w, size_t dim, bool log) {
    const auto p = Reference(x, dim, false);
    std::vector<double> gradient(p.size());
    Slices(x->Dims(), dim).ForEach([&](const std::vector<size_t> &at) {
        double dot = 0, sum = 0;
        for (const size_t i : at) {
            dot += w[i] * p[i];
            sum += w[i];
        }
        for (const size_t i : at) {
            gradient[i] = log ? w[i] - p[i] * sum : p[i] * (w[i] - dot);
        }
    });
    return gradient;
}

double Tolerance(DataType dtype) {
    switch (dtype) {
        case DataType::kFLOAT64:
            return 1e-14;
        case DataType::kFLOAT32:
            return 1e-6;
        case DataType::kFLOAT16:
            return 2e-3;
        default:
            return 1.6e-2;
    }
}

const std::vector<std::vector<int64_t>> kShapes = {{1},       {7},         {8},      {10},        {3, 10},
                                                   {2, 64},   {4, 1},      {3, 257}, {2, 5, 6},   {4, 3, 9},
                                                   {2, 3000}, {5, 2, 300}, {600, 3}, {2, 3, 4, 5}};

void EveryDimensionAndType() {
    for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32, DataType::kBFLOAT16, DataType::kFLOAT16}) {
        for (const auto &dims : kShapes) {
            const auto x = NoiseTensor(dims, DataType::kFLOAT64)->Mul(4)->To(dtype);
            for (size_t dim = 0; dim < dims.size(); ++dim) {
                const auto at = static_cast<int64_t>(dim);
                const std::string what = ToString(dtype) + " dim " + std::to_string(dim);
                EXPECT_EQ(x->Softmax(at)->Dtype(), dtype);
                ExpectNear(x->Softmax(at), Reference(x, dim, false), Tolerance(dtype), what);
                ExpectNear(x->LogSoftmax(at), Reference(x, dim, true), Tolerance(dtype), what);
            }
        }
    }
}

TEST(Softmax, EveryDimensionAndTypeOnEveryInstructionSet) {
    ForEachInstructionSet(EveryDimensionAndType);
}

void GradientsOfEveryDimensionAndType() {
    for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32, DataType::kBFLOAT16, DataType::kFLOAT16}) {
        for (const auto &dims : kShapes) {
            for (size_t dim = 0; dim < dims.size(); ++dim) {
                const auto at = static_cast<int64_t>(dim);
                const auto w = NoiseTensor(dims, dtype, 5);
                for (const bool log : {false, true}) {
                    const auto x = NoiseTensor(dims, dtype)->RequiresGrad();
                    const auto y = log ? x->LogSoftmax(at) : x->Softmax(at);
                    y->Backward(w);
                    const double scale = log ? static_cast<double>(dims[dim]) : 1;
                    ExpectNear(x->grad(), ReferenceGradient(x, w->ToVector<double>(), dim, log),
                               Tolerance(dtype) * std::max(1.0, scale / 16), ToString(dtype) + (log ? " log" : ""));
                }
            }
        }
    }
}

TEST(Softmax, GradientsOfEveryDimensionAndTypeOnEveryInstructionSet) {
    ForEachInstructionSet(GradientsOfEveryDimensionAndType);
}

TEST(Softmax, SecondDerivatives) {
    for (const int64_t dim : {0, 1, 2}) {
        ExpectSecondDerivative([&](const TensorPtr &at) { return at->Softmax(dim); }, NoiseTensor({3, 7, 2}, 5));
        ExpectSecondDerivative([&](const TensorPtr &at) { return at->LogSoftmax(dim); }, NoiseTensor({3, 7, 2}, 5));
    }
}

void InfinitiesAndNan() {
    const auto x = Tensor::FromVector<float>(
        {0, -INFINITY, 0, -INFINITY, -INFINITY, -INFINITY, 1, NAN, 2, 1, INFINITY, 2}, std::vector<int64_t>{4, 3});
    const std::vector<double> expected = {0.5, 0, 0.5, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan};
    ExpectNear(x->Softmax(1), expected, 1e-7);
    ExpectNear(x->Transpose(0, 1)->Softmax(0)->Transpose(0, 1), expected, 1e-7);
    const std::vector<double> logs = {-std::log(2), -kInf, -std::log(2), kNan, kNan, kNan,
                                      kNan,         kNan,  kNan,         kNan, kNan, kNan};
    ExpectNear(x->LogSoftmax(1), logs, 1e-7);
    ExpectNear(x->Transpose(0, 1)->LogSoftmax(0)->Transpose(0, 1), logs, 1e-7);
}

TEST(Softmax, InfinitiesAndNanOnEveryInstructionSet) {
    ForEachInstructionSet(InfinitiesAndNan);
}

void LargeValuesDontOverflow() {
    const auto x = Tensor::FromVector<float>({1e4F, 1e4F, -1e4F, 3e38F, -3e38F, 0}, std::vector<int64_t>{2, 3});
    ExpectNear(x->Softmax(), {0.5, 0.5, 0, 1, 0, 0}, 1e-7);
    const auto y = Tensor::FromVector<float>({-1000, -1001})->LogSoftmax();
    ExpectNear(y, {-0.31326168751822286, -1.3132616875182228}, 1e-6);
    // The probability is subnormal in float32, its logarithm is not.
    ExpectNear(Tensor::FromVector<float>({0, -95})->LogSoftmax(), {0, -95}, 1e-6);
}

TEST(Softmax, LargeValuesDontOverflowOnEveryInstructionSet) {
    ForEachInstructionSet(LargeValuesDontOverflow);
}

TEST(Softmax, LayoutsAndEmptyTensors) {
    const auto x = NoiseTensor({6, 9}, DataType::kFLOAT32);
    const auto t = x->Transpose(0, 1);
    ExpectNear(t->Softmax(-1), Reference(t, 1, false), 1e-6);
    const auto s = x->Slice(1, 1, 9, 2);
    ExpectNear(s->Softmax(-1), Reference(s, 1, false), 1e-6);
    ExpectNear(x->Slice(1, 0, 1)->Expand({6, 5})->Softmax(), std::vector<double>(30, 0.2), 1e-7);
    EXPECT_EQ(Tensor::Empty({0, 3})->Softmax()->Dims(), (std::vector<int64_t>{0, 3}));
    EXPECT_EQ(Tensor::Empty({3, 0})->LogSoftmax()->Dims(), (std::vector<int64_t>{3, 0}));
    ExpectNear(Tensor::FromScalar(7)->Softmax(), {1}, 0);
    ExpectNear(Tensor::FromScalar(7)->LogSoftmax(0), {0}, 0);
}

TEST(Softmax, GradientOfAnExpandedGradient) {
    const auto x = NoiseTensor({3, 5}, DataType::kFLOAT64)->RequiresGrad();
    x->LogSoftmax(1)->Sum()->Backward();
    ExpectNear(x->grad(), ReferenceGradient(x, std::vector<double>(15, 1), 1, true), 1e-14);
}

TEST(Softmax, Errors) {
    const auto x = Tensor::Zeros({2, 3});
    EXPECT_EQ(MessageOf<IndexError>([&] { x->Softmax(2); }), "Softmax: dim 2 is out of range for 2 dimensions");
    EXPECT_EQ(MessageOf<IndexError>([&] { x->LogSoftmax(-3); }), "LogSoftmax: dim -3 is out of range for 2 dimensions");
    const auto labels = Tensor::Zeros({2}, DataType::kINT64);
    EXPECT_EQ(MessageOf<DtypeError>([&] { labels->Softmax(); }),
              "Softmax: expected a floating-point tensor, got int64");
}

TEST(Softmax, AnyNumberOfThreads) {
    const auto x = NoiseTensor({50, 40, 30}, DataType::kFLOAT32);
    for (const int64_t dim : {0, 1, 2}) {
        ExpectSameForAnyThreads([&] { return x->Softmax(dim); });
        ExpectSameForAnyThreads([&] {
            const auto leaf = x->Detach()->RequiresGrad();
            leaf->LogSoftmax(dim)->Backward(x);
            return leaf->grad();
        });
    }
}

}  // namespace
}  // namespace infini_train::test
