#include "infini_train/include/autograd/matmul.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/linear.h"
#include "infini_train/include/autograd/outer.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"
#include "test/support/instruction_sets.h"

namespace infini_train {
namespace {

using test::ExpectDerivatives;
using test::ExpectError;
using test::NoiseTensor;
using Dims = std::vector<int64_t>;

TensorPtr MatmulOf(const TensorList &inputs) {
    return inputs[0]->Matmul(inputs[1]);
}

TensorPtr LinearOf(const TensorList &inputs) {
    return std::make_shared<autograd::Linear>()->Apply(inputs)[0];
}

double At(const std::vector<double> &values, const Dims &dims, const Dims &index) {
    int64_t flat = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
        flat = flat * dims[i] + (dims[i] == 1 ? 0 : index[index.size() - dims.size() + i]);
    }
    return values[static_cast<size_t>(flat)];
}

// The product of matrices with broadcast batches by definition, one element at a time.
std::vector<double> Reference(const TensorPtr &a, const TensorPtr &b, const Dims &out) {
    const auto x = a->ToVector<double>(), y = b->ToVector<double>();
    int64_t count = 1;
    for (const int64_t dim : out) {
        count *= dim;
    }
    std::vector<double> values;
    for (int64_t flat = 0; flat < count; ++flat) {
        Dims index(out.size());
        int64_t rest = flat;
        for (size_t i = out.size(); i-- > 0;) {
            index[i] = rest % out[i];
            rest /= out[i];
        }
        double sum = 0;
        for (int64_t k = 0; k < a->Dims().back(); ++k) {
            Dims left = index, right = index;
            left.back() = k;
            right[right.size() - 2] = k;
            sum += At(x, a->Dims(), left) * At(y, b->Dims(), right);
        }
        values.push_back(sum);
    }
    return values;
}

void ExpectValues(const TensorPtr &tensor, const Dims &dims, const std::vector<double> &values, double tolerance) {
    ASSERT_EQ(tensor->Dims(), dims);
    const auto actual = tensor->ToVector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(actual[i], values[i], tolerance * std::max(1.0, std::abs(values[i]))) << "at " << i;
    }
}

// A tensor of these values whose memory lies in another order: dimension `dim` first.
TensorPtr Permuted(const TensorPtr &x, int64_t dim) {
    return x->Transpose(0, dim)->Contiguous()->Transpose(0, dim);
}

TEST(Matmul, TakesEveryCombinationOfRanks) {
    const struct {
        Dims a, b, out;
    } kCases[] = {
        {{5}, {5}, {}},
        {{3, 5}, {5}, {3}},
        {{5}, {5, 4}, {4}},
        {{3, 5}, {5, 4}, {3, 4}},
        {{2, 3, 5}, {5}, {2, 3}},
        {{5}, {2, 5, 4}, {2, 4}},
        {{2, 3, 5}, {5, 4}, {2, 3, 4}},
        {{3, 5}, {2, 5, 4}, {2, 3, 4}},
        {{2, 3, 5}, {2, 5, 4}, {2, 3, 4}},
        {{2, 1, 3, 5}, {6, 5, 4}, {2, 6, 3, 4}},
        {{6, 3, 5}, {2, 1, 5, 4}, {2, 6, 3, 4}},
        {{1, 1, 5}, {2, 2, 5, 1}, {2, 2, 1, 1}},
    };
    for (const auto &c : kCases) {
        const auto a = NoiseTensor(c.a, 1), b = NoiseTensor(c.b, 2);
        const auto full_a = c.a.size() == 1 ? a->Unsqueeze(0) : a, full_b = c.b.size() == 1 ? b->Unsqueeze(1) : b;
        Dims full(c.out.begin(), c.out.end());
        if (c.a.size() == 1) {
            full.insert(full.end() - (c.b.size() > 1 ? 1 : 0), 1);
        }
        if (c.b.size() == 1) {
            full.push_back(1);
        }
        ExpectValues(a->Matmul(b), c.out, Reference(full_a, full_b, full), 1e-14);
        ExpectDerivatives(MatmulOf, {a, b});
    }
}

TEST(Matmul, TakesAnyStrides) {
    const auto a = NoiseTensor({4, 3, 6, 5}, 1), b = NoiseTensor({4, 3, 5, 7}, 2);
    const auto expected = Reference(a, b, {4, 3, 6, 7});
    for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 4; ++j) {
            ExpectValues(Permuted(a, i)->Matmul(Permuted(b, j)), {4, 3, 6, 7}, expected, 1e-14);
        }
    }
    // Heads side by side, as attention has them: neither batch dimension follows from the other.
    const auto q = NoiseTensor({2, 5, 3, 4}, 3)->Transpose(1, 2);
    ExpectValues(q->Matmul(q->Transpose(-1, -2)), {2, 3, 5, 5},
                 Reference(q->Contiguous(), q->Transpose(2, 3)->Contiguous(), {2, 3, 5, 5}), 1e-14);
    // Every other column and row; rows expanded.
    const auto wide = NoiseTensor({6, 10}, 4);
    const auto m = wide->Slice(1, 0, 10, 2)->Slice(0, 0, 6, 2);
    ExpectValues(m->Matmul(wide->Slice(1, 0, 4)->Slice(0, 1, 6)), {3, 4},
                 Reference(m->Contiguous(), wide->Slice(1, 0, 4)->Slice(0, 1, 6)->Contiguous(), {3, 4}), 1e-14);
    const auto row = NoiseTensor({1, 5}, 5)->Expand({3, 5});
    ExpectValues(row->Matmul(row->Transpose(0, 1)), {3, 3},
                 Reference(row->Contiguous(), row->Transpose(0, 1)->Contiguous(), {3, 3}), 1e-14);
    const auto strided = wide->Select(1, 3);
    ExpectValues(strided->Matmul(wide), {10}, Reference(strided->Contiguous()->Unsqueeze(0), wide, {1, 10}), 1e-14);
}

TEST(Matmul, FoldsABatchIntoOneProduct) {
    const auto a = NoiseTensor({3, 4, 10}, 1)->Slice(2, 2, 7), b = NoiseTensor({5, 6}, 2);
    ExpectValues(a->Matmul(b), {3, 4, 6}, Reference(a->Contiguous(), b, {3, 4, 6}), 1e-14);
    const auto turned = NoiseTensor({4, 3, 5}, 3)->Transpose(0, 1);
    ExpectValues(turned->Matmul(b), {3, 4, 6}, Reference(turned->Contiguous(), b, {3, 4, 6}), 1e-14);
}

TEST(Matmul, GivesZerosOrNothingForEmptyOperands) {
    ExpectValues(Tensor::Ones({2, 0})->Matmul(Tensor::Ones({0, 3})), {2, 3}, {0, 0, 0, 0, 0, 0}, 0);
    ExpectValues(Tensor::Ones({0})->Matmul(Tensor::Ones({0})), {}, {0}, 0);
    EXPECT_EQ(Tensor::Ones({0, 2})->Matmul(Tensor::Ones({2, 3}))->Dims(), (Dims{0, 3}));
    EXPECT_EQ(Tensor::Ones({0, 4, 2})->Matmul(Tensor::Ones({1, 2, 3}))->Dims(), (Dims{0, 4, 3}));
    ExpectValues(Tensor::Ones({2, 1, 0})->Matmul(Tensor::Ones({2, 0, 1})), {2, 1, 1}, {0, 0}, 0);

    auto a = Tensor::Ones({0, 2})->RequiresGrad(), b = Tensor::Ones({2, 3})->RequiresGrad();
    a->Matmul(b)->Backward(Tensor::Ones({0, 3}));
    EXPECT_EQ(a->grad()->Dims(), (Dims{0, 2}));
    ExpectValues(b->grad(), {2, 3}, {0, 0, 0, 0, 0, 0}, 0);
}

TEST(Matmul, TakesEveryNumber) {
    for (const DataType dtype : test::kAllDataTypes) {
        if (dtype == DataType::kBOOL) {
            continue;
        }
        const auto a = Tensor::Arange(0, 6)->View({2, 3})->To(dtype), b = Tensor::Arange(1, 7)->View({3, 2})->To(dtype);
        const auto product = a->Matmul(b);
        EXPECT_EQ(product->Dtype(), dtype);
        EXPECT_EQ(product->ToVector<int64_t>(), (std::vector<int64_t>{13, 16, 40, 52})) << ToString(dtype);
        EXPECT_EQ(a->Select(0, 1)->Outer(b->Select(1, 0))->ToVector<int64_t>(),
                  (std::vector<int64_t>{3, 9, 15, 4, 12, 20, 5, 15, 25}));
    }
    // Narrow integers wrap, as their sums do.
    const auto big = Tensor::Full({1, 4}, 100, DataType::kUINT8);
    EXPECT_EQ(big->Matmul(Tensor::Full({4, 1}, 3, DataType::kUINT8))->ToVector<int64_t>(),
              std::vector<int64_t>{1200 % 256});
}

TEST(Matmul, SixteenBitTypesRoundOnce) {
    const auto a = NoiseTensor({3, 70}, 1), b = NoiseTensor({70, 4}, 2);
    for (const DataType dtype : {DataType::kBFLOAT16, DataType::kFLOAT16}) {
        const auto x = a->To(dtype), y = b->To(dtype);
        const auto exact = Reference(x->To(DataType::kFLOAT64), y->To(DataType::kFLOAT64), {3, 4});
        ExpectValues(x->Matmul(y), {3, 4}, exact, dtype == DataType::kFLOAT16 ? 0x1p-11 : 0x1p-8);
    }
}

TEST(Matmul, PassesOnWhatIsNotFinite) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const auto a = Tensor::FromVector<double>({kInf, 1, 0, 1}, Dims{2, 2});
    const auto b = Tensor::FromVector<double>({0, 1, 2, std::nan("")}, Dims{2, 2});
    const auto c = a->Matmul(b)->ToVector<double>();
    EXPECT_TRUE(std::isnan(c[0]));  // inf * 0 + 2
    EXPECT_TRUE(std::isnan(c[1]));
    EXPECT_EQ(c[2], 2);
    EXPECT_TRUE(std::isnan(c[3]));
}

TEST(Matmul, SaysWhatDoesNotMatch) {
    const auto ones = [](const Dims &dims, DataType dtype = DataType::kFLOAT32) { return Tensor::Ones(dims, dtype); };
    ExpectError<ShapeError>(
        [&] {
            ones({2, 3})->Matmul(ones({4, 5}));
        },
        "Matmul: (2, 3) and (4, 5) don't match: 3 against 4");
    ExpectError<ShapeError>([&] { ones({3})->Matmul(ones({2})); }, "Matmul: (3,) and (2,) don't match: 3 against 2");
    ExpectError<ShapeError>(
        [&] {
            ones({2, 4, 3})->Matmul(ones({5, 3, 4}));
        },
        "Matmul: (2, 4, 3) and (5, 3, 4) don't broadcast: 2 against 5");
    ExpectError<ShapeError>([&] { ones({})->Matmul(ones({3})); },
                            "Matmul: expected at least 1 dimension, got () and (3,)");
    ExpectError<DtypeError>(
        [&] {
            ones({2, 2})->Matmul(ones({2, 2}, DataType::kFLOAT64));
        },
        "Matmul: expected tensors of one data type, got float32 for input 0 and float64 for input "
        "1");
    ExpectError<DtypeError>(
        [&] {
            ones({2, 2}, DataType::kBOOL)->Matmul(ones({2, 2}, DataType::kBOOL));
        },
        "Matmul: expected floating-point or integer tensors, got bool");
    ExpectError<ValueError>(
        [&] {
            std::make_shared<autograd::Matmul>()->Apply({ones({2, 2})});
        },
        "Matmul: expected 2 inputs, got 1");
    ExpectError<ValueError>([&] { ones({2, 2})->Matmul(nullptr); }, "Matmul: input 1 is null");
}

TEST(Matmul, GivesOnlyTheGradientsThatAreNeeded) {
    auto a = NoiseTensor({3, 4}, 1), b = NoiseTensor({4, 2}, 2)->RequiresGrad();
    a->Matmul(b)->Backward(Tensor::Ones({3, 2}, DataType::kFLOAT64)->Expand({3, 2}));
    EXPECT_EQ(a->grad(), nullptr);
    ExpectValues(b->grad(), {4, 2},
                 Reference(a->Transpose(0, 1)->Contiguous(), Tensor::Ones({3, 2}, DataType::kFLOAT64), {4, 2}), 1e-14);
    auto x = NoiseTensor({2, 3, 4}, 3)->RequiresGrad();
    x->Matmul(b->Detach())->Sum()->Backward();
    ExpectValues(
        x->grad(), {2, 3, 4},
        Reference(Tensor::Ones({2, 3, 2}, DataType::kFLOAT64), b->Detach()->Transpose(0, 1)->Contiguous(), {2, 3, 4}),
        1e-14);
}

TEST(Outer, MultipliesEachWithEach) {
    const auto a = Tensor::FromVector<float>({1, 2, 3}), b = Tensor::FromVector<float>({4, 5});
    ExpectValues(a->Outer(b), {3, 2}, {4, 5, 8, 10, 12, 15}, 0);
    const auto every_other = Tensor::FromVector<float>({1, 0, 2, 0, 3, 0})->Slice(0, 0, 6, 2);
    ExpectValues(b->Outer(every_other), {2, 3}, {4, 8, 12, 5, 10, 15}, 0);
    EXPECT_EQ(Tensor::Ones({0})->Outer(b)->Dims(), (Dims{0, 2}));
    ExpectDerivatives([](const TensorList &in) { return in[0]->Outer(in[1]); },
                      {NoiseTensor({3}, 1), NoiseTensor({4}, 2)});
    ExpectError<ShapeError>(
        [&] {
            a->Outer(Tensor::Ones({2, 2}));
        },
        "Outer: expected two vectors, got (3,) and (2, 2)");
}

TEST(Linear, AddsTheBiasToEachRow) {
    const auto x = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Dims{2, 3});
    const auto w = Tensor::FromVector<float>({1, 0, -1, 2, 1, 0}, Dims{2, 3});
    const auto b = Tensor::FromVector<float>({10, 20});
    ExpectValues(LinearOf({x, w}), {2, 2}, {-2, 4, -2, 13}, 0);
    ExpectValues(LinearOf({x, w, b}), {2, 2}, {8, 24, 8, 33}, 0);
    ExpectValues(LinearOf({x->Select(0, 1), w, b}), {2}, {8, 33}, 0);
    ExpectValues(LinearOf({x->View({1, 2, 1, 3}), w, b}), {1, 2, 1, 2}, {8, 24, 8, 33}, 0);
    EXPECT_EQ(LinearOf({Tensor::Ones({0, 3}), w, b})->Dims(), (Dims{0, 2}));
    ExpectValues(LinearOf({Tensor::Ones({2, 0}), Tensor::Ones({2, 0}), b}), {2, 2}, {10, 20, 10, 20}, 0);
}

TEST(Linear, HasDerivativesOfBothOrders) {
    for (const Dims &lead : {Dims{}, Dims{1}, Dims{5}, Dims{2, 3}}) {
        Dims dims = lead;
        dims.push_back(4);
        const auto x = NoiseTensor(dims, 1), w = NoiseTensor({3, 4}, 2), b = NoiseTensor({3}, 3);
        ExpectDerivatives(LinearOf, {x, w});
        ExpectDerivatives(LinearOf, {x, w, b});
    }
}

TEST(Linear, ReadsAGradientOfAnyStrides) {
    auto x = NoiseTensor({4, 5}, 1)->RequiresGrad(), w = NoiseTensor({3, 5}, 2)->RequiresGrad();
    auto b = NoiseTensor({3}, 3)->RequiresGrad();
    const auto grad = NoiseTensor({3, 4}, 4)->Transpose(0, 1);
    LinearOf({x, w, b})->Backward(grad);
    const auto g = grad->Contiguous();
    ExpectValues(x->grad(), {4, 5}, Reference(g, w->Detach(), {4, 5}), 1e-14);
    ExpectValues(w->grad(), {3, 5}, Reference(g->Transpose(0, 1)->Contiguous(), x->Detach(), {3, 5}), 1e-14);
    ExpectValues(b->grad(), {3}, Reference(Tensor::Ones({1, 4}, DataType::kFLOAT64), g, {1, 3}), 1e-14);
}

void CheckBiasGradients() {
    // Many rows and few columns, few rows and many columns, and widths around the blocks that are summed in one go.
    for (const Dims &dims : {Dims{5000, 3}, Dims{3, 5000}, Dims{130, 513}, Dims{64, 512}, Dims{65, 1}}) {
        for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64, DataType::kBFLOAT16, DataType::kFLOAT16}) {
            const auto grad = NoiseTensor(dims, 5)->To(dtype);
            auto b = Tensor::Zeros({dims[1]}, dtype)->RequiresGrad();
            LinearOf({Tensor::Zeros({dims[0], 1}, dtype), Tensor::Zeros({dims[1], 1}, dtype), b})->Backward(grad);
            const auto g = grad->ToVector<double>();
            std::vector<double> sums(static_cast<size_t>(dims[1]));
            for (size_t i = 0; i < g.size(); ++i) {
                sums[i % sums.size()] += g[i];
            }
            const double tolerance = dtype == DataType::kFLOAT64   ? 1e-13
                                     : dtype == DataType::kFLOAT32 ? 1e-5
                                     : dtype == DataType::kFLOAT16 ? 0x1p-10
                                                                   : 0x1p-7;
            ExpectValues(b->grad(), {dims[1]}, sums, tolerance);
        }
    }
}

TEST(Linear, SumsALargeBiasGradientExactlyEnoughOnEveryInstructionSet) {
    test::ForEachInstructionSet(CheckBiasGradients);
}

TEST(Linear, DoesNotDependOnTheNumberOfThreads) {
    const int before = GetNumThreads();
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 3, 5}) {
        SetNumThreads(threads);
        auto x = NoiseTensor({64, 200}, 1)->To(DataType::kFLOAT32)->Detach()->RequiresGrad();
        auto w = NoiseTensor({300, 200}, 2)->To(DataType::kFLOAT32)->Detach()->RequiresGrad();
        auto b = NoiseTensor({300}, 3)->To(DataType::kFLOAT32)->Detach()->RequiresGrad();
        const auto y = LinearOf({x, w, b});
        y->Backward(NoiseTensor({64, 300}, 4)->To(DataType::kFLOAT32));
        std::vector<double> all;
        for (const auto &tensor : {y->Detach(), x->grad(), w->grad(), b->grad()}) {
            const auto values = tensor->ToVector<double>();
            all.insert(all.end(), values.begin(), values.end());
        }
        results.push_back(all);
        EXPECT_EQ(results.front(), all) << threads << " threads";
    }
    SetNumThreads(before);
}

TEST(Linear, SaysWhatDoesNotMatch) {
    const auto x = Tensor::Ones({2, 3}), w = Tensor::Ones({4, 3});
    ExpectError<ShapeError>(
        [&] {
            LinearOf({x, Tensor::Ones({4, 5})});
        },
        "Linear: (2, 3) and (4, 5) don't match: 3 against 5");
    ExpectError<ShapeError>(
        [&] {
            LinearOf({x, w, Tensor::Ones({3})});
        },
        "Linear: expected a bias (4,) for a weight (4, 3), got (3,)");
    ExpectError<ShapeError>(
        [&] {
            LinearOf({x, Tensor::Ones({3})});
        },
        "Linear: expected an input (..., in) and a weight (out, in), got (2, 3) and (3,)");
    ExpectError<DtypeError>(
        [&] {
            LinearOf({x, w, Tensor::Ones({4}, DataType::kFLOAT64)});
        },
        "Linear: expected tensors of one data type, got float32 for input 0 and float64 for input "
        "2");
    ExpectError<DtypeError>(
        [&] {
            LinearOf({x->To(DataType::kINT64), w->To(DataType::kINT64)});
        },
        "Linear: expected floating-point tensors, got int64");
    ExpectError<ValueError>([&] { LinearOf({x}); }, "Linear: expected 2 to 3 inputs, got 1");
}

}  // namespace
}  // namespace infini_train
