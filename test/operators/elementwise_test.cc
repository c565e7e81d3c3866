// Arithmetic, comparisons and selection: values, types, shapes, the corners of floats and integers, and errors.

#include "infini_train/include/autograd/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"
#include "test/support/instruction_sets.h"

namespace infini_train {
namespace {

using test::ExpectError;
using Doubles = std::vector<double>;
using BinaryOp = std::function<TensorPtr(const TensorPtr &, const TensorPtr &)>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DataType kFloats[] = {DataType::kFLOAT32, DataType::kFLOAT64, DataType::kFLOAT16, DataType::kBFLOAT16};

// Equal, and NaN equal to NaN.
void ExpectValues(const TensorPtr &actual, const Doubles &expected, const std::string &what = "") {
    const auto values = actual->ToVector<double>();
    ASSERT_EQ(values.size(), expected.size()) << what;
    for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE(values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i])))
            << what << " at " << i << ": " << values[i] << ", expected " << expected[i];
    }
}

TensorPtr Of(const Doubles &values, DataType dtype = DataType::kFLOAT32) {
    return Tensor::FromVector<double>(values)->To(dtype);
}

TEST(Arithmetic, EveryType) {
    for (const DataType dtype : test::kAllDataTypes) {
        const std::string name = ToString(dtype);
        const auto a = Of({1, 0, 1, 1}, dtype);
        const auto b = Of({1, 1, 0, 1}, dtype);
        const bool is_bool = dtype == DataType::kBOOL;
        EXPECT_EQ(a->Add(b)->Dtype(), dtype);
        ExpectValues(a->Add(b), is_bool ? Doubles{1, 1, 1, 1} : Doubles{2, 1, 1, 2}, name);
        ExpectValues(a->Mul(b), {1, 0, 0, 1}, name);
        ExpectValues(a->Maximum(b), {1, 1, 1, 1}, name);
        ExpectValues(a->Minimum(b), {1, 0, 0, 1}, name);
        EXPECT_EQ(a->Div(b)->Dtype(), IsFloatingPoint(dtype) ? dtype : DataType::kFLOAT32);
        ExpectValues(a->Div(b), {1, 0, kInf, 1}, name);
        if (!is_bool) {
            ExpectValues(a->Mul(5)->Sub(b),
                         {4,
                          -1 + (dtype == DataType::kUINT8    ? 256.0
                                : dtype == DataType::kUINT16 ? 65536.0
                                : dtype == DataType::kUINT32 ? 4294967296.0
                                : dtype == DataType::kUINT64 ? 18446744073709551616.0
                                                             : 0.0),
                          5, 4},
                         name);
        }
    }
}

TEST(Arithmetic, IntegersWrapAndKeepAll64Bits) {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
    const auto x = Tensor::FromVector<int64_t>({kMax, kMin, 9007199254740993});
    EXPECT_EQ(x->Add(1)->ToVector<int64_t>(), (std::vector<int64_t>{kMin, kMin + 1, 9007199254740994}));
    EXPECT_EQ(x->Neg()->ToVector<int64_t>(), (std::vector<int64_t>{-kMax, kMin, -9007199254740993}));
    EXPECT_EQ(x->Abs()->ToVector<int64_t>(), (std::vector<int64_t>{kMax, kMin, 9007199254740993}));
    EXPECT_EQ(x->Mul(x)->ToVector<int64_t>()[0], 1);
    EXPECT_EQ(x->Square()->ToVector<int64_t>()[1], 0);
    const auto u = Tensor::FromVector<uint64_t>({18446744073709551615U, 9223372036854775808U, 3});
    const auto v = Tensor::FromVector<uint64_t>({1, 5, 4});
    EXPECT_EQ(u->Maximum(v)->ToVector<uint64_t>(),
              (std::vector<uint64_t>{18446744073709551615U, 9223372036854775808U, 4}));
    EXPECT_EQ(u->Lt(v)->ToVector<bool>(), (std::vector<bool>{false, false, true}));
    EXPECT_EQ(u->Add(v)->ToVector<uint64_t>(), (std::vector<uint64_t>{0, 9223372036854775813U, 7}));
    EXPECT_EQ(u->Clamp(4)->ToVector<uint64_t>(),
              (std::vector<uint64_t>{18446744073709551615U, 9223372036854775808U, 4}));
    EXPECT_EQ(Tensor::FromVector<int8_t>({127, -128})->Add(1)->ToVector<int8_t>(), (std::vector<int8_t>{-128, -127}));
    EXPECT_EQ(Tensor::FromVector<int32_t>({3, -2})->Pow(5)->ToVector<int32_t>(), (std::vector<int32_t>{243, -32}));
    EXPECT_EQ(Tensor::FromVector<int64_t>({2})->Pow(64)->ToVector<int64_t>(), (std::vector<int64_t>{0}));
}

TEST(Arithmetic, PromotesAsPyTorch) {
    const auto type = [](DataType a, std::vector<int64_t> dims_a, DataType b, std::vector<int64_t> dims_b) {
        return Tensor::Ones(dims_a, a)->Add(Tensor::Ones(dims_b, b))->Dtype();
    };
    EXPECT_EQ(type(DataType::kINT32, {2}, DataType::kINT64, {2}), DataType::kINT64);
    EXPECT_EQ(type(DataType::kINT32, {2}, DataType::kINT64, {}), DataType::kINT32);
    EXPECT_EQ(type(DataType::kFLOAT32, {}, DataType::kFLOAT64, {}), DataType::kFLOAT64);
    EXPECT_EQ(type(DataType::kFLOAT32, {1}, DataType::kFLOAT64, {}), DataType::kFLOAT32);
    EXPECT_EQ(type(DataType::kINT64, {1}, DataType::kFLOAT16, {}), DataType::kFLOAT16);
    EXPECT_EQ(type(DataType::kBOOL, {1}, DataType::kUINT8, {}), DataType::kUINT8);
    EXPECT_EQ(type(DataType::kUINT8, {2}, DataType::kINT8, {2}), DataType::kINT16);
    EXPECT_EQ(type(DataType::kBFLOAT16, {2}, DataType::kFLOAT16, {2}), DataType::kFLOAT32);
    EXPECT_EQ(Tensor::Ones({2})->Mul(0.1)->Dtype(), DataType::kFLOAT32);
    EXPECT_EQ(Tensor::Ones({2}, DataType::kBFLOAT16)->Mul(0.1)->Dtype(), DataType::kBFLOAT16);
    EXPECT_EQ(Tensor::Ones({2}, DataType::kUINT8)->Mul(2)->Dtype(), DataType::kUINT8);
    EXPECT_EQ(Tensor::Ones({2}, DataType::kINT64)->Mul(0.5)->Dtype(), DataType::kFLOAT32);
    EXPECT_EQ(Tensor::Ones({2}, DataType::kBOOL)->Add(1)->Dtype(), DataType::kINT64);
    EXPECT_EQ(Tensor::Ones({2}, DataType::kINT64)->Exp()->Dtype(), DataType::kFLOAT32);
    ExpectValues(Tensor::Ones({2}, DataType::kINT64)->Mul(0.5), {0.5, 0.5});
    // Mixed operands are converted to the common type.
    ExpectValues(Of({1.5, -2}, DataType::kFLOAT16)->Add(Of({1, 2}, DataType::kFLOAT64)), {2.5, 0});
    ExpectValues(Of({3, 300}, DataType::kINT64)->Mul(Of({0.5, 0.25}, DataType::kBFLOAT16)), {1.5, 75});
}

TEST(Arithmetic, ScalarsOnEitherSide) {
    const auto x = Of({1, 2, 4});
    ExpectValues(Scalar(1) - x, {0, -1, -3});
    ExpectValues(x - 1, {0, 1, 3});
    ExpectValues(Scalar(4) / x, {4, 2, 1});
    ExpectValues(x / 4, {0.25, 0.5, 1});
    ExpectValues(Scalar(2) + x * 3 - x, {4, 6, 10});
    ExpectValues(-x, {-1, -2, -4});
    ExpectValues(Scalar(2) * x, {2, 4, 8});
    EXPECT_EQ(x->Add(Tensor::FromScalar(1))->Dims(), (std::vector<int64_t>{3}));
}

// Every combination of strides and shapes that the driver treats on its own, against the definition.
TEST(Driver, AnyStridesAndShapes) {
    struct Case {
        const char *name;
        TensorPtr a, b;
    };
    const auto noise = [](const std::vector<int64_t> &dims, uint64_t seed) { return test::NoiseTensor(dims, seed); };
    std::vector<Case> cases = {
        {"equal", noise({7, 11}, 1), noise({7, 11}, 2)},
        {"rows", noise({70, 40}, 1), noise({40}, 2)},
        {"columns", noise({70, 40}, 1), noise({70, 1}, 2)},
        {"outer", noise({70, 1}, 1), noise({40}, 2)},
        {"transposed", noise({40, 70}, 1)->Transpose(0, 1), noise({70, 40}, 2)},
        {"both transposed", noise({40, 70}, 1)->Transpose(0, 1), noise({40, 70}, 2)->Transpose(0, 1)},
        {"steps", noise({30, 90}, 1)->Slice(1, 1, 90, 3), noise({90, 30}, 2)->Slice(0, 0, 90, 3)},
        {"short rows", noise({900, 3}, 1), noise({3}, 2)},
        {"short rows, one column", noise({900, 3}, 1), noise({900, 1}, 2)},
        {"middle", noise({6, 5, 4, 3}, 1), noise({5, 1, 3}, 2)},
        {"one", noise({1, 1}, 1), noise({1}, 2)},
        {"no dimensions", noise({}, 1), noise({}, 2)},
        {"one with many", noise({1}, 1), noise({300, 7}, 2)},
        {"expanded", noise({1, 50}, 1)->Expand({60, 50}), noise({60, 1}, 2)->Expand({60, 50})},
        {"both repeat the row", noise({60, 1}, 1)->Expand({60, 50}), noise({60, 1}, 2)->Expand({60, 50})},
        {"large rows", noise({3, 70001}, 1), noise({3, 1}, 2)},
        {"empty", noise({0, 4}, 1), noise({1, 4}, 2)},
    };
    for (const Case &c : cases) {
        for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32, DataType::kBFLOAT16, DataType::kINT32}) {
            const auto cast = [&](const TensorPtr &x) {
                return dtype == DataType::kFLOAT64 ? x : x->Mul(1000)->To(dtype);
            };
            const auto a = cast(c.a);
            const auto b = cast(c.b);
            const auto sum = a->Sub(b);
            const auto whole_a = a->Expand(sum->Dims())->ToVector<double>();
            const auto whole_b = b->Expand(sum->Dims())->ToVector<double>();
            Doubles expected(whole_a.size());
            for (size_t i = 0; i < expected.size(); ++i) {
                expected[i] = whole_a[i] - whole_b[i];
            }
            ExpectValues(sum, Tensor::FromVector<double>(expected)->To(dtype)->ToVector<double>(), c.name);
            ExpectValues(b->Sub(a)->Neg(), Tensor::FromVector<double>(expected)->To(dtype)->ToVector<double>(), c.name);
            const auto less = a->Lt(b)->ToVector<bool>();
            for (size_t i = 0; i < less.size(); ++i) {
                ASSERT_EQ(less[i], whole_a[i] < whole_b[i]) << c.name << " at " << i;
            }
        }
    }
}

TEST(Driver, InPlaceOnAnyStrides) {
    auto x = Tensor::Zeros({6, 900});
    x->Transpose(0, 1)->Slice(0, 0, 900, 2)->Add_(Tensor::Arange(0, 6, 1, DataType::kFLOAT32));
    const auto values = x->ToVector<float>();
    for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], i % 2 == 0 ? static_cast<float>(i / 900) : 0.0F);
    }
}

TEST(Driver, DoesNotDependOnThreads) {
    const auto x = test::NoiseTensor({401, 333}, 5)->To(DataType::kFLOAT32);
    const auto bias = test::NoiseTensor({333}, 6)->To(DataType::kFLOAT32);
    const auto narrow = test::NoiseTensor({50000, 3}, 7)->To(DataType::kFLOAT32);
    const auto half = x->To(DataType::kBFLOAT16);
    const auto compute = [&] {
        std::vector<std::vector<float>> results;
        for (const auto &y : {x->Exp(), x->Add(bias), x->Gelu(), x->Transpose(0, 1)->Tanh(), half->Silu(), x->Sin(),
                              narrow->Mul(Tensor::FromVector<float>({1, 2, 3}))->Sigmoid(), x->Pow(1.7)}) {
            results.push_back(y->ToVector<float>());
        }
        return results;
    };
    const int before = GetNumThreads();
    SetNumThreads(1);
    const auto expected = compute();
    for (const int threads : {2, 3, 7}) {
        SetNumThreads(threads);
        const auto results = compute();
        for (size_t i = 0; i < results.size(); ++i) {
            // Bit for bit, except that NaN isn't equal to itself.
            ASSERT_EQ(results[i].size(), expected[i].size());
            ASSERT_TRUE(std::equal(results[i].begin(), results[i].end(), expected[i].begin(),
                                   [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }))
                << "operator " << i << ", " << threads << " threads";
        }
    }
    SetNumThreads(before);
}

void CheckCorners() {
    for (const DataType dtype : kFloats) {
        const std::string name = ToString(dtype);
        const auto x = Of({kNan, kInf, -kInf, 0, -2, 3}, dtype);
        ExpectValues(x->Relu(), {kNan, kInf, 0, 0, 0, 3}, name);
        ExpectValues(x->Abs(), {kNan, kInf, kInf, 0, 2, 3}, name);
        ExpectValues(x->Clamp(-1, 2), {kNan, 2, -1, 0, -1, 2}, name);
        ExpectValues(x->Clamp(std::nullopt, 2), {kNan, 2, -kInf, 0, -2, 2}, name);
        ExpectValues(x->Clamp(1, -1), {kNan, -1, -1, -1, -1, -1}, name);
        ExpectValues(x->Maximum(Of({1, kNan, 1, 1, 1, 1}, dtype)), {kNan, kNan, 1, 1, 1, 3}, name);
        ExpectValues(x->Minimum(Of({1, kNan, 1, 1, 1, 1}, dtype)), {kNan, kNan, -kInf, 0, -2, 1}, name);
        ExpectValues(x->Exp()->Slice(0, 0, 4), {kNan, kInf, 0, 1}, name);
        ExpectValues(x->Log()->Slice(0, 0, 5), {kNan, kInf, kNan, -kInf, kNan}, name);
        ExpectValues(x->Sqrt()->Slice(0, 0, 5), {kNan, kInf, kNan, 0, kNan}, name);
        ExpectValues(x->Tanh()->Slice(0, 0, 4), {kNan, 1, -1, 0}, name);
        ExpectValues(x->Sigmoid()->Slice(0, 0, 4), {kNan, 1, 0, 0.5}, name);
        ExpectValues(x->Reciprocal()->Slice(0, 0, 4), {kNan, 0, 0, kInf}, name);
        ExpectValues(x->Sin()->Slice(0, 0, 4), {kNan, kNan, kNan, 0}, name);
        ExpectValues(x->Equals(x), {0, 1, 1, 1, 1, 1}, name);
        ExpectValues(x->NotEquals(x), {1, 0, 0, 0, 0, 0}, name);
        ExpectValues(x->Lt(Scalar(0)), {0, 0, 1, 0, 1, 0}, name);
        ExpectValues(x->Ge(Scalar(0)), {0, 1, 0, 1, 0, 1}, name);
        ExpectValues(x->And(x), {1, 1, 1, 0, 1, 1}, name);
    }
}

TEST(Corners, NanAndInfinity) {
    test::ForEachInstructionSet(CheckCorners);
}

TEST(Comparisons, EveryOperator) {
    const auto a = Of({1, 2, 3}, DataType::kINT32);
    const auto b = Of({2, 2, 2}, DataType::kFLOAT32);
    EXPECT_EQ(a->Equals(b)->Dtype(), DataType::kBOOL);
    ExpectValues(a->Equals(b), {0, 1, 0});
    ExpectValues(a->NotEquals(b), {1, 0, 1});
    ExpectValues(a->Lt(b), {1, 0, 0});
    ExpectValues(a->Le(b), {1, 1, 0});
    ExpectValues(a->Gt(b), {0, 0, 1});
    ExpectValues(a->Ge(b), {0, 1, 1});
    ExpectValues(a->Equals(2), {0, 1, 0});
    ExpectValues(a->NotEquals(2), {1, 0, 1});
    ExpectValues(a->Lt(2.5), {1, 1, 0});
    ExpectValues(a->Le(2), {1, 1, 0});
    ExpectValues(a->Gt(2), {0, 0, 1});
    ExpectValues(a->Ge(2), {0, 1, 1});
    const auto zero = Of({0, 1, 0});
    ExpectValues(a->And(zero), {0, 1, 0});
    ExpectValues(zero->Or(Of({0, 0, 0.5})), {0, 1, 1});
    ExpectValues(std::make_shared<autograd::AndScalar>(0)->Apply({a})[0], {0, 0, 0});
    ExpectValues(std::make_shared<autograd::OrScalar>(0)->Apply({zero})[0], {0, 1, 0});
    // A number beyond the type's range is compared as it is.
    ExpectValues(Of({255, 0}, DataType::kUINT8)->Lt(300), {1, 1});
}

TEST(Where, EveryTypeAndScalars) {
    const auto condition = Of({1, 0, 1}, DataType::kBOOL);
    for (const DataType dtype : test::kAllDataTypes) {
        const auto a = Of({1, 1, 0}, dtype);
        const auto b = Of({0, 0, 1}, dtype);
        EXPECT_EQ(a->Where(condition, b)->Dtype(), dtype);
        ExpectValues(a->Where(condition, b), {1, 0, 0}, ToString(dtype));
        ExpectValues(a->Where(condition, Tensor::FromScalar(1, dtype)), {1, 1, 0}, ToString(dtype));
        ExpectValues(Tensor::FromScalar(1, dtype)->Where(condition, b), {1, 0, 1}, ToString(dtype));
        ExpectValues(Tensor::FromScalar(1, dtype)->Where(condition, Tensor::FromScalar(0, dtype)), {1, 0, 1});
    }
    const auto wide = Tensor::Ones({2, 1})->Where(condition, Tensor::Zeros({3}));
    EXPECT_EQ(wide->Dims(), (std::vector<int64_t>{2, 3}));
    ExpectValues(wide, {1, 0, 1, 1, 0, 1});
    ExpectValues(Of({1, 2, 3})->Where(Tensor::Ones({}, DataType::kBOOL), Of({4, 5, 6})), {1, 2, 3});
}

TEST(Pow, SpecialAndGeneralExponents) {
    for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64}) {
        const auto x = Of({0.25, 4, 9}, dtype);
        ExpectValues(x->Pow(2), {0.0625, 16, 81});
        ExpectValues(x->Pow(3), {0.015625, 64, 729});
        ExpectValues(x->Pow(0.5), {0.5, 2, 3});
        ExpectValues(x->Pow(-1)->Slice(0, 0, 2), {4, 0.25});
        ExpectValues(x->Pow(-0.5)->Slice(0, 0, 2), {2, 0.5});
        ExpectValues(x->Pow(0), {1, 1, 1});
        ExpectValues(x->Pow(1), {0.25, 4, 9});
        ExpectValues(x->Pow(1.5), {0.125, 8, 27});
    }
    ExpectValues(Of({-8, 0})->Pow(1.0 / 3), {kNan, 0});
    ExpectValues(Of({2, 3}, DataType::kINT32)->Pow(0.5)->Square()->Sub(Of({2, 3}))->Abs()->Lt(1e-6), {1, 1});
}

double Dot(const TensorPtr &a, const TensorPtr &b) {
    return a->Mul(b)->Sum()->Item<double>();
}

// Compares the gradients of the weighted sum of a float64 operator's output with differences along a direction: the
// fused and the composed first derivative, and the second.
void ExpectDerivatives(const std::function<TensorPtr(const TensorList &)> &op, const TensorList &inputs,
                       double tolerance = 1e-6) {
    constexpr double kStep = 1e-5;
    const auto weights = test::NoiseTensor(op(inputs)->Dims(), 77)->Add(1);
    const auto gradients = [&](const TensorList &at, bool create_graph) {
        TensorList leaves;
        for (const auto &input : at) {
            leaves.push_back(input->Clone()->RequiresGrad());
        }
        auto grads = autograd::Grad({op(leaves)}, leaves, {weights}, true, create_graph);
        return std::pair(leaves, grads);
    };
    TensorList directions, above, below;
    for (size_t i = 0; i < inputs.size(); ++i) {
        directions.push_back(test::NoiseTensor(inputs[i]->Dims(), 90 + i));
        above.push_back(inputs[i]->Add(directions[i]->Mul(kStep)));
        below.push_back(inputs[i]->Sub(directions[i]->Mul(kStep)));
    }
    const auto fused = gradients(inputs, false).second;
    const auto [leaves, composed] = gradients(inputs, true);
    double slope = 0;
    TensorPtr along = Tensor::FromScalar(0, DataType::kFLOAT64);
    double along_above = 0;
    double along_below = 0;
    const auto grads_above = gradients(above, false).second;
    const auto grads_below = gradients(below, false).second;
    for (size_t i = 0; i < inputs.size(); ++i) {
        ASSERT_EQ(fused[i]->Dims(), inputs[i]->Dims());
        EXPECT_LT(fused[i]->Sub(composed[i])->Abs()->Max()->Item<double>(), 1e-13);
        slope += Dot(fused[i], directions[i]);
        along = along + composed[i]->Mul(directions[i])->Sum();
        along_above += Dot(grads_above[i], directions[i]);
        along_below += Dot(grads_below[i], directions[i]);
    }
    EXPECT_NEAR(slope, (Dot(op(above), weights) - Dot(op(below), weights)) / (2 * kStep), tolerance);
    if (!along->requires_grad()) {
        return;  // linear
    }
    const auto second = autograd::Grad({along}, leaves, {}, false, false, /*allow_unused=*/true);
    double curvature = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
        curvature += second[i] == nullptr ? 0 : Dot(second[i], directions[i]);
    }
    EXPECT_NEAR(curvature, (along_above - along_below) / (2 * kStep), tolerance);
}

TEST(Gradients, AgreeWithDifferencesOnceAndTwice) {
    const auto x = Tensor::FromVector<double>({0.3, -0.7, 1.9, -2.4, 0.05, 3.3});
    const auto positive = x->Abs()->Add(0.2);
    using Unary = TensorPtr (Tensor::*)();
    for (const Unary op :
         {&Tensor::Neg, &Tensor::Reciprocal, &Tensor::Sin, &Tensor::Cos, &Tensor::Tanh, &Tensor::Exp, &Tensor::Square,
          &Tensor::Abs, &Tensor::Sigmoid, &Tensor::Relu, &Tensor::Silu, &Tensor::Clone}) {
        ExpectDerivatives([op](const TensorList &in) { return (in[0].get()->*op)(); }, {x->Add(0.11)}, 1e-4);
    }
    for (const Unary op : {&Tensor::Log, &Tensor::Sqrt, &Tensor::Rsqrt}) {
        ExpectDerivatives([op](const TensorList &in) { return (in[0].get()->*op)(); }, {positive}, 1e-4);
    }
    for (const bool approximation : {false, true}) {
        ExpectDerivatives([=](const TensorList &in) { return in[0]->Gelu(approximation); }, {x});
    }
    for (const double exponent : {0.0, 0.5, 1.0, 2.0, 3.0, -1.0, 2.5}) {
        ExpectDerivatives([=](const TensorList &in) { return in[0]->Pow(exponent); }, {positive}, 1e-4);
    }
    ExpectDerivatives([](const TensorList &in) { return in[0]->Clamp(-1, 1.5); }, {x});
    ExpectDerivatives([](const TensorList &in) { return Scalar(2) / (Scalar(3) - in[0] * 0.5 + 1) - 2; }, {x});
    ExpectDerivatives([](const TensorList &in) { return in[0]->Div(4); }, {x});
}

TEST(Gradients, OfBroadcastOperands) {
    const auto a = test::NoiseTensor({2, 1, 3}, 1);
    const auto b = test::NoiseTensor({4, 1}, 2)->Add(2);
    ExpectDerivatives([](const TensorList &in) { return in[0] + in[1]; }, {a, b});
    ExpectDerivatives([](const TensorList &in) { return in[0] - in[1]; }, {a, b});
    ExpectDerivatives([](const TensorList &in) { return in[0] * in[1]; }, {a, b});
    ExpectDerivatives([](const TensorList &in) { return in[0] / in[1]; }, {a, b});
    ExpectDerivatives([](const TensorList &in) { return in[0]->Maximum(in[1]->Sub(2)); }, {a, b});
    ExpectDerivatives([](const TensorList &in) { return in[0]->Minimum(in[1]->Sub(2)); }, {a, b});
    const auto condition = test::NoiseTensor({4, 3}, 3)->Gt(Scalar(0));
    ExpectDerivatives([&](const TensorList &in) { return in[0]->Where(condition, in[1]); }, {a, b});
}

// The gradient of the sum of op(x) at x.
Doubles GradientAt(const Doubles &x, const std::function<TensorPtr(const TensorPtr &)> &op,
                   DataType dtype = DataType::kFLOAT32) {
    const auto leaf = Of(x, dtype)->RequiresGrad();
    op(leaf)->Backward(Tensor::Ones({static_cast<int64_t>(x.size())}, dtype));
    EXPECT_EQ(leaf->grad()->Dtype(), dtype);
    return leaf->grad()->ToVector<double>();
}

TEST(Gradients, FollowPyTorchAtTheCorners) {
    for (const DataType dtype : kFloats) {
        EXPECT_EQ(GradientAt(
                      {-1, 0, 2}, [](const TensorPtr &x) { return x->Relu(); }, dtype),
                  (Doubles{0, 0, 1}));
        EXPECT_EQ(GradientAt(
                      {-1, 0, 2}, [](const TensorPtr &x) { return x->Abs(); }, dtype),
                  (Doubles{-1, 0, 1}));
        EXPECT_EQ(GradientAt(
                      {-1, 0, 1, 2}, [](const TensorPtr &x) { return x->Clamp(0, 1); }, dtype),
                  (Doubles{0, 1, 1, 0}));
        EXPECT_EQ(GradientAt(
                      {0, 4}, [](const TensorPtr &x) { return x->Sqrt(); }, dtype),
                  (Doubles{kInf, 0.25}));
        EXPECT_EQ(GradientAt(
                      {0, 4}, [](const TensorPtr &x) { return x->Pow(0); }, dtype),
                  (Doubles{0, 0}));
        EXPECT_EQ(GradientAt(
                      {0, 4}, [](const TensorPtr &x) { return x->Pow(1); }, dtype),
                  (Doubles{1, 1}));
        EXPECT_EQ(GradientAt(
                      {-kInf, -1e4, 1e4}, [](const TensorPtr &x) { return x->Tanh(); }, dtype),
                  (Doubles{0, 0, 0}));
        EXPECT_EQ(GradientAt(
                      {-1e4, 1e4}, [](const TensorPtr &x) { return x->Gelu(true); }, dtype),
                  (Doubles{0, 1}));
        EXPECT_EQ(GradientAt(
                      {-1e4, 1e4}, [](const TensorPtr &x) { return x->Gelu(); }, dtype),
                  (Doubles{0, 1}));
        EXPECT_EQ(GradientAt(
                      {1, 2, 3},
                      [&](const TensorPtr &x) {
                          return x->Maximum(Of({2, 2, 2}, dtype));
                      },
                      dtype),
                  (Doubles{0, 0.5, 1}));
        EXPECT_EQ(GradientAt(
                      {1, 2, 3},
                      [&](const TensorPtr &x) {
                          return Of({2, 2, 2}, dtype)->Minimum(x);
                      },
                      dtype),
                  (Doubles{1, 0.5, 0}));
    }
}

TEST(Gradients, HaveTheOperandsTypesAndIgnoreIntegers) {
    const auto a = Tensor::Ones({2, 3}, DataType::kBFLOAT16)->RequiresGrad();
    const auto b = Tensor::Full({3}, 2, DataType::kFLOAT64)->RequiresGrad();
    const auto c = Tensor::Full({2, 3}, 4, DataType::kINT32);
    (a * b * c)->Backward(Tensor::Ones({2, 3}, DataType::kFLOAT64));
    EXPECT_EQ(a->grad()->Dtype(), DataType::kBFLOAT16);
    EXPECT_EQ(b->grad()->Dtype(), DataType::kFLOAT64);
    ExpectValues(a->grad(), Doubles(6, 8));
    ExpectValues(b->grad(), Doubles(3, 8));
    const auto x = Tensor::FromVector<float>({1.5F})->RequiresGrad();
    x->To(DataType::kFLOAT64)->Mul(3)->Backward();
    EXPECT_EQ(x->grad()->Dtype(), DataType::kFLOAT32);
    ExpectValues(x->grad(), {3});
}

TEST(Errors, SayWhatDoesNotFit) {
    const auto a = Tensor::Ones({2, 3});
    ExpectError<ShapeError>(
        [&] {
            a->Add(Tensor::Ones({4, 3}));
        },
        "Add: (2, 3) and (4, 3) don't broadcast: 2 against 4");
    ExpectError<ShapeError>([&] { a->Lt(Tensor::Ones({2})); }, "Lt: (2, 3) and (2,) don't broadcast: 3 against 2");
    ExpectError<ValueError>([&] { a->Mul(TensorPtr()); }, "Mul: input 1 is null");
    const auto flag = Tensor::Ones({2}, DataType::kBOOL);
    ExpectError<DtypeError>([&] { flag->Neg(); }, "Neg: expected numbers, got bool");
    ExpectError<DtypeError>([&] { flag->Sub(flag); },
                            "Sub: expected numbers, got bool and bool; NotEquals tells where they differ");
    ExpectError<DtypeError>([&] { a->Where(a, a); }, "Where: expected a bool condition, got float32");
    ExpectError<ValueError>([&] { Tensor::Ones({2}, DataType::kINT64)->Pow(-1); },
                            "Pow: expected an exponent >= 0 for int64, got -1");
    ExpectError<ValueError>([&] { a->Clamp(std::nullopt); }, "Clamp: expected at least one limit, got none");
    ExpectError<ValueError>([&] { std::make_shared<autograd::Add>()->Apply({a}); }, "Add: expected 2 inputs, got 1");
    ExpectError<DtypeError>(
        [&] { Tensor::Ones({2}, DataType::kUINT16)->Add(Tensor::Ones({2}, DataType::kINT32)); },
        "PromoteTypes: expected uint16, uint32 and uint64 with themselves or a float, got uint16 and int32");
}

}  // namespace
}  // namespace infini_train
