// Copies and conversions, fills and random numbers: the kernels of kernels/fill.h.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/core/philox.h"
#include "infini_train/include/dtype_dispatch.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"
#include "test/support/instruction_sets.h"

namespace infini_train {
namespace {

using test::kAllDataTypes;

// static_cast as C++ defines it, and as the library does where C++ doesn't.
template <typename To, typename From>
To Reference(From value) {
    if constexpr (std::is_same_v<From, BFloat16> || std::is_same_v<From, Float16>) {
        return Reference<To>(static_cast<float>(value));
    } else if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>) {
        return To(static_cast<float>(value));
    } else if constexpr (std::is_same_v<To, bool>) {
        return value != 0;
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        if (std::isnan(value)) {
            return 0;
        }
        const long double wide = std::trunc(static_cast<long double>(value));
        return static_cast<To>(std::clamp(wide, static_cast<long double>(std::numeric_limits<To>::min()),
                                          static_cast<long double>(std::numeric_limits<To>::max())));
    } else {
        return static_cast<To>(value);
    }
}

template <typename T>
bool SameBits(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
        return a == b || (std::isnan(a) && std::isnan(b));
    } else if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
        return SameBits(static_cast<float>(a), static_cast<float>(b));
    } else {
        return a == b;
    }
}

// 1,100 values over three chunks, with the limits of everything among them.
template <typename T>
void FillInteresting(Tensor *tensor) {
    const double interesting[] = {0,        1,
                                  -1,       0.5,
                                  -0.5,     1.5,
                                  127,      128,
                                  -128,     -129,
                                  255,      256,
                                  32767,    65535,
                                  65520,    -40000,
                                  3e9,      -3e9,
                                  9.2e18,   -9.3e18,
                                  1.8e19,   2e19,
                                  1e-40,    1e39,
                                  16777217, 9007199254740993.0,
                                  INFINITY, -INFINITY,
                                  NAN};
    T *const data = tensor->Data<T>();
    for (int64_t i = 0; i < tensor->NumElements(); ++i) {
        const auto k = static_cast<size_t>(i) % (std::size(interesting) + 2);
        if (k < std::size(interesting)) {
            data[i] = Reference<T>(interesting[k]);
        } else if constexpr (std::numeric_limits<T>::is_integer) {
            data[i] = k == std::size(interesting) ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
        } else {
            data[i] = Reference<T>(0.1);
        }
    }
}

// Whether the element at `to` is what the one at `from` converts to.
using Converts = bool (*)(const void *from, const void *to);

template <typename From, typename To>
bool ConvertsTo(const void *from, const void *to) {
    return SameBits(*static_cast<const To *>(to), Reference<To>(*static_cast<const From *>(from)));
}

void CheckConversion(const TensorPtr &input, const TensorPtr &output, Converts converts) {
    const auto at = [](const TensorPtr &tensor, int64_t i, int64_t j) {
        return static_cast<const char *>(tensor->DataPtr()) +
               (i * tensor->Strides()[0] + j * tensor->Strides()[1]) * static_cast<int64_t>(SizeOf(tensor->Dtype()));
    };
    ASSERT_EQ(output->Dims(), input->Dims());
    for (int64_t i = 0; i < input->Dim(0); ++i) {
        for (int64_t j = 0; j < input->Dim(1); ++j) {
            ASSERT_TRUE(converts(at(input, i, j), at(output, i, j)))
                << ToString(input->Dtype()) << " to " << ToString(output->Dtype()) << " at " << i << ", " << j;
        }
    }
}

// Adjacent elements, and strided ones on either side.
void CheckConversions(const TensorPtr &input, DataType to, Converts converts) {
    CheckConversion(input, input->To(to)->Clone(), converts);
    const auto turned = input->Transpose(0, 1);
    CheckConversion(turned, turned->To(to)->Clone(), converts);
    auto output = Tensor::Zeros({22, 50}, to)->Transpose(0, 1);
    output->CopyFrom(input);
    CheckConversion(input, output, converts);
    const auto every_second = input->Slice(1, 0, 22, 2);
    CheckConversion(every_second, every_second->To(to)->Clone(), converts);
}

void CheckAllConversions() {
    for (const DataType from : kAllDataTypes) {
        DispatchDtype(from, [&]<typename From>() {
            auto input = Tensor::Empty({50, 22}, from);
            FillInteresting<From>(input.get());
            for (const DataType to : kAllDataTypes) {
                CheckConversions(input, to,
                                 DispatchDtype(to, []<typename To>() -> Converts { return &ConvertsTo<From, To>; }));
            }
        });
    }
}

TEST(Copy, ConvertsEveryTypeToEveryOther) {
    test::ForEachInstructionSet(CheckAllConversions);
}

TEST(Copy, MovesAnyStridesOfAnySize) {
    for (const DataType dtype : {DataType::kUINT8, DataType::kFLOAT16, DataType::kINT32, DataType::kFLOAT64}) {
        for (const std::vector<int64_t> &dims : std::vector<std::vector<int64_t>>{
                 {3, 70, 45}, {70, 45, 3}, {1, 33, 97}, {5, 1, 4}, {0, 3, 2}, {2, 300, 300}}) {
            const int64_t n = dims[0] * dims[1] * dims[2];
            const auto input = Tensor::Arange(0, n, 1, DataType::kINT64)->To(dtype)->View(dims);
            const auto expected = input->ToVector<double>();
            for (const std::vector<int64_t> &order :
                 std::vector<std::vector<int64_t>>{{0, 2, 1}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}}) {
                const auto view = input->Permute(order);
                const auto copy = view->Contiguous()->Clone();
                ASSERT_TRUE(copy->IsContiguous());
                ASSERT_EQ(copy->Dims(), view->Dims());
                // Back to the input's order by way of the strides.
                std::vector<int64_t> back(3);
                for (int64_t i = 0; i < 3; ++i) {
                    back[static_cast<size_t>(order[static_cast<size_t>(i)])] = i;
                }
                ASSERT_EQ(copy->Permute(back)->ToVector<double>(), expected) << ToString(dtype);
                // Element by element for a few.
                for (int64_t k = 0; k < std::min<int64_t>(n, 50); ++k) {
                    const int64_t flat = k * 7919 % n;
                    const int64_t i2 = flat % copy->Dim(2), i1 = flat / copy->Dim(2) % copy->Dim(1);
                    const int64_t i0 = flat / copy->Dim(2) / copy->Dim(1);
                    const int64_t from = i0 * view->Strides()[0] + i1 * view->Strides()[1] + i2 * view->Strides()[2];
                    ASSERT_EQ(copy->View({-1})->Select(0, flat)->Item<double>(), expected[static_cast<size_t>(from)]);
                }
            }
        }
    }
}

TEST(Copy, BroadcastsAndKeepsTheRest) {
    auto output = Tensor::Zeros({4, 6});
    output->Slice(1, 1, 6, 2)->CopyFrom(Tensor::FromVector<float>({1, 2, 3}));
    EXPECT_EQ(output->Select(0, 3)->ToVector<float>(), (std::vector<float>{0, 1, 0, 2, 0, 3}));
    output->Select(1, 0)->Copy_(Tensor::FromScalar(7, DataType::kINT32));
    EXPECT_EQ(output->Select(0, 0)->ToVector<float>(), (std::vector<float>{7, 1, 0, 2, 0, 3}));
}

TEST(Copy, OverlappingMemoryIsCopiedFirst) {
    const auto x = Tensor::Arange(0, 6, 1, DataType::kFLOAT32);
    x->Slice(0, 1, 6)->Copy_(x->Slice(0, 0, 5));
    EXPECT_EQ(x->ToVector<float>(), (std::vector<float>{0, 0, 1, 2, 3, 4}));
    const auto square = Tensor::Arange(0, 9, 1, DataType::kFLOAT32)->View({3, 3});
    square->Add_(square->Transpose(0, 1));
    EXPECT_EQ(square->ToVector<float>(), (std::vector<float>{0, 4, 8, 4, 8, 12, 8, 12, 16}));
}

TEST(Fill, EveryTypeAndAnyStrides) {
    for (const DataType dtype : kAllDataTypes) {
        const double one = dtype == DataType::kBOOL ? 1 : 3;
        EXPECT_EQ(Tensor::Full({5}, 3, dtype)->ToVector<double>(), std::vector<double>(5, one)) << ToString(dtype);
        auto x = Tensor::Zeros({3, 4}, dtype);
        x->Slice(1, 1, 4, 2)->Fill_(3);
        const std::vector<double> row = {0, one, 0, one};
        EXPECT_EQ(x->Select(0, 2)->ToVector<double>(), row) << ToString(dtype);
        EXPECT_EQ(Tensor::Full({0, 3}, 1, dtype)->NumElements(), 0);
    }
    EXPECT_EQ(Tensor::Full({1 << 20}, -2.5)->Sum()->Item<double>(), -2.5 * (1 << 20));
    EXPECT_EQ(Tensor::Full({1}, uint64_t{18446744073709551615U}, DataType::kUINT64)->Item<uint64_t>(),
              18446744073709551615U);
}

TEST(Arange, StepsInEveryKind) {
    EXPECT_EQ(Tensor::Arange(5, 0, -2)->ToVector<int64_t>(), (std::vector<int64_t>{5, 3, 1}));
    EXPECT_EQ(Tensor::Arange(0.0, 1.0, 0.25, DataType::kFLOAT32)->ToVector<float>(),
              (std::vector<float>{0, 0.25F, 0.5F, 0.75F}));
    const auto large = Tensor::Arange(0, 100000, 1, DataType::kFLOAT64)->ToVector<double>();
    for (size_t i = 0; i < large.size(); ++i) {
        ASSERT_EQ(large[i], static_cast<double>(i));
    }
}

// What the kernels promise: values that depend on the state and the position alone.
TEST(RandomFill, FollowsTheBlocks) {
    Generator generator(11, 5);
    const auto uniform = Tensor::Rand({3, 1001}, DataType::kFLOAT32, {}, &generator)->ToVector<float>();
    EXPECT_EQ(generator.GetState().offset, 751U);  // a quarter of 3,003 numbers, rounded up
    for (size_t i = 0; i < uniform.size(); ++i) {
        ASSERT_EQ(uniform[i], UniformFloat(PhiloxBlock(11, 5, i / 4)[i % 4])) << i;
    }
    generator.SetState({11, 5, 0});
    const auto normal = Tensor::Randn({1001}, DataType::kFLOAT32, {}, &generator)->ToVector<float>();
    for (size_t i = 0; i < normal.size(); ++i) {
        const auto block = PhiloxBlock(11, 5, i / 4);
        const auto pair = NormalFloats(block[i % 4 / 2 * 2], block[i % 4 / 2 * 2 + 1]);
        ASSERT_NEAR(normal[i], pair[i % 2], 1e-5) << i;
    }
    generator.SetState({11, 5, 0});
    const auto doubles = Tensor::Rand({1001}, DataType::kFLOAT64, {}, &generator)->ToVector<double>();
    EXPECT_EQ(generator.GetState().offset, 501U);
    for (size_t i = 0; i < doubles.size(); ++i) {
        const auto block = PhiloxBlock(11, 5, i / 2);
        ASSERT_EQ(doubles[i], UniformDouble(block[i % 2 * 2], block[i % 2 * 2 + 1])) << i;
    }
    generator.SetState({11, 5, 0});
    const auto wide = Tensor::Randn({101}, DataType::kFLOAT64, {}, &generator)->ToVector<double>();
    for (size_t i = 0; i < wide.size(); ++i) {
        ASSERT_NEAR(wide[i], NormalDoubles(PhiloxBlock(11, 5, i / 2))[i % 2], 1e-12) << i;
    }
}

TEST(RandomFill, DoesNotDependOnThreadsOrStrides) {
    const auto draw = [](bool transposed) {
        Generator generator(3);
        auto x = transposed ? Tensor::Empty({301, 203})->Transpose(0, 1) : Tensor::Empty({203, 301});
        x->Normal(1.0F, 2.0F, &generator);
        return x->ToVector<float>();
    };
    const int before = GetNumThreads();
    SetNumThreads(1);
    const auto expected = draw(false);
    SetNumThreads(3);
    EXPECT_EQ(draw(false), expected);
    EXPECT_EQ(draw(true), expected);
    SetNumThreads(before);
}

TEST(RandomFill, HasTheRightMoments) {
    Generator generator(1);
    const auto moments = [](const std::vector<double> &x) {
        const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
        double variance = 0;
        for (const double value : x) {
            variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
        }
        return std::pair(mean, variance);
    };
    for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64, DataType::kBFLOAT16, DataType::kFLOAT16}) {
        const auto x = Tensor::Empty({200000}, dtype);
        const auto uniform = x->Uniform(-1, 3, &generator)->ToVector<double>();
        EXPECT_GE(*std::min_element(uniform.begin(), uniform.end()), -1);
        EXPECT_LT(*std::max_element(uniform.begin(), uniform.end()), 3) << ToString(dtype);
        EXPECT_NEAR(moments(uniform).first, 1, 0.01);
        EXPECT_NEAR(moments(uniform).second, 16.0 / 12, 0.02);
        const auto normal = x->Normal(2, 3, &generator)->ToVector<double>();
        EXPECT_NEAR(moments(normal).first, 2, 0.03);
        EXPECT_NEAR(moments(normal).second, 9, 0.1);
    }
}

TEST(RandomFill, IntegersCoverTheirRange) {
    Generator generator(1);
    const auto dice = Tensor::RandInt(1, 7, {6000}, DataType::kINT32, {}, &generator)->ToVector<int32_t>();
    for (int face = 1; face <= 6; ++face) {
        EXPECT_NEAR(static_cast<double>(std::count(dice.begin(), dice.end(), face)), 1000, 130);
    }
    EXPECT_EQ(std::set<int32_t>(dice.begin(), dice.end()).size(), 6U);
    const auto whole = Tensor::RandInt(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), {1000},
                                       DataType::kINT64, {}, &generator)
                           ->ToVector<int64_t>();
    EXPECT_NEAR(static_cast<double>(std::count_if(whole.begin(), whole.end(), [](int64_t v) { return v < 0; })), 500,
                80);
}

TEST(RandomFill, SaysWhatIsWrong) {
    const auto x = Tensor::Empty({2});
    test::ExpectError<ValueError>([&] { x->Uniform(2, 1); }, "Uniform: expected from <= to, both finite, got 2 and 1");
    test::ExpectError<ValueError>([&] { x->Normal(0, -1); }, "Normal: expected a standard deviation >= 0, got -1");
    test::ExpectError<DtypeError>([&] { Tensor::Empty({2}, DataType::kINT64)->Uniform(); },
                                  "Uniform: expected a floating-point tensor, got int64");
}

}  // namespace
}  // namespace infini_train
