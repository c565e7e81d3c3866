#include "infini_train/src/kernels/cpu/gemm.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <Eigen/Core>
#include <gtest/gtest.h>

#include "infini_train/include/core/parallel.h"
// The choice of targets comes before Highway.
// clang-format off
#include "infini_train/src/kernels/cpu/simd_targets.h"
#include <hwy/targets.h>
// clang-format on

namespace infini_train::cpu {
namespace {

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

template <typename T>
T FromDouble(double value) {
    if constexpr (kIsHalf<T>) {
        return T(static_cast<float>(value));
    } else {
        return static_cast<T>(value);
    }
}

template <typename T>
double ToDouble(T value) {
    if constexpr (kIsHalf<T>) {
        return static_cast<double>(static_cast<float>(value));
    } else {
        return static_cast<double>(value);
    }
}

// A matrix in the middle of an allocation: rows `ld` apart, the first element off any alignment, nothing behind the
// last one. The elements between the rows hold a mark.
template <typename T>
class Matrix {
public:
    Matrix(int64_t rows, int64_t columns, int64_t gap)
        : rows_(rows),
          columns_(columns),
          ld_(columns + gap),
          elements_(1 + (rows == 0 ? 0 : (rows - 1) * ld_ + columns), FromDouble<T>(kMark)) {}

    T *data() { return elements_.data() + 1; }
    const T *data() const { return elements_.data() + 1; }
    int64_t ld() const { return ld_; }
    int64_t rows() const { return rows_; }
    int64_t columns() const { return columns_; }
    T &At(int64_t i, int64_t j) { return elements_[1 + i * ld_ + j]; }
    T At(int64_t i, int64_t j) const { return elements_[1 + i * ld_ + j]; }

    template <typename Value>
    void Fill(Value &&value) {
        for (int64_t i = 0; i < rows_; ++i) {
            for (int64_t j = 0; j < columns_; ++j) {
                At(i, j) = FromDouble<T>(value());
            }
        }
    }

    void ExpectMarksIntact() const {
        ASSERT_EQ(ToDouble(elements_[0]), kMark);
        for (int64_t i = 0; i + 1 < rows_; ++i) {
            for (int64_t j = columns_; j < ld_; ++j) {
                ASSERT_EQ(ToDouble(At(i, j)), kMark) << "behind row " << i;
            }
        }
    }

private:
    static constexpr double kMark = 77;
    int64_t rows_, columns_, ld_;
    std::vector<T> elements_;
};

struct Case {
    bool trans_a, trans_b;
    int64_t m, n, k;
    int64_t gap = 0;
    bool accumulate = false, bias = false;

    std::string Name() const {
        return std::string(trans_a ? "T" : "N") + (trans_b ? "T" : "N") + " m " + std::to_string(m) + " n " +
               std::to_string(n) + " k " + std::to_string(k) + " gap " + std::to_string(gap) +
               (accumulate ? " accumulate" : "") + (bias ? " bias" : "");
    }
};

template <typename T>
struct Operands {
    explicit Operands(const Case &c)
        : a(c.trans_a ? c.k : c.m, c.trans_a ? c.m : c.k, c.gap),
          b(c.trans_b ? c.n : c.k, c.trans_b ? c.k : c.n, c.gap),
          c(c.m, c.n, c.gap),
          bias(1, c.n, 0) {}

    GemmArgs<T> Args(const Case &shape) {
        return {.trans_a = shape.trans_a,
                .trans_b = shape.trans_b,
                .m = shape.m,
                .n = shape.n,
                .k = shape.k,
                .a = a.data(),
                .lda = a.ld(),
                .b = b.data(),
                .ldb = b.ld(),
                .c = c.data(),
                .ldc = c.ld(),
                .accumulate = shape.accumulate,
                .bias = shape.bias ? bias.data() : nullptr};
    }

    double A(const Case &shape, int64_t i, int64_t p) const {
        return ToDouble(shape.trans_a ? a.At(p, i) : a.At(i, p));
    }
    double B(const Case &shape, int64_t p, int64_t j) const {
        return ToDouble(shape.trans_b ? b.At(j, p) : b.At(p, j));
    }

    Matrix<T> a, b, c, bias;
};

// The reference: a triple loop in double. Also the sum of magnitudes, to which rounding errors are proportional.
template <typename T>
void Reference(const Operands<T> &x, const Case &shape, std::vector<double> *value, std::vector<double> *magnitude) {
    value->assign(shape.m * shape.n, 0);
    magnitude->assign(shape.m * shape.n, 0);
    for (int64_t i = 0; i < shape.m; ++i) {
        for (int64_t j = 0; j < shape.n; ++j) {
            double sum = shape.accumulate ? ToDouble(x.c.At(i, j)) : shape.bias ? ToDouble(x.bias.At(0, j)) : 0;
            double size = std::abs(sum);
            for (int64_t p = 0; p < shape.k; ++p) {
                const double product = x.A(shape, i, p) * x.B(shape, p, j);
                sum += product;
                size += std::abs(product);
            }
            (*value)[i * shape.n + j] = sum;
            (*magnitude)[i * shape.n + j] = size;
        }
    }
}

// Small multiples of 1/4: every sum is exact in float, so results must be equal, or rounded once to 16 bits.
template <typename T>
void ExpectExact(const Case &shape) {
    SCOPED_TRACE(shape.Name());
    std::minstd_rand random(static_cast<unsigned>(shape.m * 10007 + shape.n * 101 + shape.k + 1));
    const double unit = std::is_integral_v<T> ? 1 : 0.25;
    const auto value = [&] { return (static_cast<int>(random() >> 8) % 9 - 4) * unit; };
    Operands<T> x(shape);
    x.a.Fill(value);
    x.b.Fill(value);
    x.c.Fill(value);
    x.bias.Fill(value);
    std::vector<double> expected, magnitude;
    Reference(x, shape, &expected, &magnitude);
    Gemm(x.Args(shape));
    for (int64_t i = 0; i < shape.m; ++i) {
        for (int64_t j = 0; j < shape.n; ++j) {
            ASSERT_EQ(ToDouble(x.c.At(i, j)), ToDouble(FromDouble<T>(expected[i * shape.n + j])))
                << "at " << i << ", " << j;
        }
    }
    x.c.ExpectMarksIntact();
}

template <typename T>
double Epsilon() {
    if constexpr (std::is_same_v<T, BFloat16>) {
        return 0x1p-8;
    } else if constexpr (std::is_same_v<T, Float16>) {
        return 0x1p-11;
    } else {
        return std::numeric_limits<T>::epsilon();
    }
}

template <typename T>
void FillRandomly(Operands<T> *x) {
    std::mt19937 random(5);
    std::uniform_real_distribution<double> uniform(-1, 1);
    const auto value = [&] { return uniform(random); };
    x->a.Fill(value);
    x->b.Fill(value);
    x->c.Fill(value);
    x->bias.Fill(value);
}

// The machine's instruction sets that the kernels are compiled for, one after the other.
template <typename Body>
void ForEachTarget(Body &&body) {
    const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
    for (int64_t left = targets; left != 0; left &= left - 1) {
        const int64_t target = left & -left;
        SCOPED_TRACE(hwy::TargetName(target));
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(target);
        body();
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(targets);
}

class ThreadCount {
public:
    explicit ThreadCount(int count) : before_(GetNumThreads()) { SetNumThreads(count); }
    ~ThreadCount() { SetNumThreads(before_); }

private:
    const int before_;
};

template <typename T>
class GemmTest : public testing::Test {};
using AllTypes = testing::Types<float, double, BFloat16, Float16, int32_t, int64_t>;
TYPED_TEST_SUITE(GemmTest, AllTypes);

template <typename T>
class FloatGemmTest : public testing::Test {};
using FloatTypes = testing::Types<float, double, BFloat16, Float16>;
TYPED_TEST_SUITE(FloatGemmTest, FloatTypes);

constexpr bool kBoth[] = {false, true};

TYPED_TEST(GemmTest, SmallSizesAroundTheTiles) {
    const int64_t sizes[] = {0, 1, 3, 4, 5, 6, 7, 13, 14, 15, 16, 17, 31, 32, 33};
    ForEachTarget([&] {
        for (const int64_t m : sizes) {
            for (const int64_t n : sizes) {
                for (const int64_t k : sizes) {
                    const bool trans_a = (m + n + k) % 2 == 0;
                    ExpectExact<TypeParam>({trans_a, false, m, n, k});
                    ExpectExact<TypeParam>({!trans_a, true, m, n, k, 3});
                    if (testing::Test::HasFatalFailure()) {
                        return;
                    }
                }
            }
        }
    });
}

TYPED_TEST(GemmTest, LargerSizesAroundTheBlocks) {
    const int64_t sizes[][3] = {{257, 33, 256}, {33, 257, 255}, {17, 256, 257},  {256, 1, 257}, {1, 257, 256},
                                {3, 255, 257},  {257, 4, 255},  {255, 17, 391},  {14, 15, 785}, {63, 65, 64},
                                {6, 513, 40},   {12, 1030, 9},  {1030, 12, 9},   {151, 97, 7},  {2, 1100, 770},
                                {1, 1, 1000},   {5, 5, 1153},   {300, 300, 300}, {200, 2100, 5}};
    ForEachTarget([&] {
        for (const auto &size : sizes) {
            for (const bool trans_a : kBoth) {
                for (const bool trans_b : kBoth) {
                    ExpectExact<TypeParam>({trans_a, trans_b, size[0], size[1], size[2], 5});
                    if (testing::Test::HasFatalFailure()) {
                        return;
                    }
                }
            }
        }
    });
}

TYPED_TEST(GemmTest, AccumulateAndBias) {
    const int64_t sizes[][3] = {{0, 5, 5},   {5, 0, 5},    {5, 5, 0},    {1, 40, 30},  {40, 1, 30},
                                {7, 17, 33}, {64, 10, 30}, {64, 30, 50}, {33, 47, 785}};
    ForEachTarget([&] {
        for (const auto &size : sizes) {
            for (const bool trans_b : kBoth) {
                ExpectExact<TypeParam>({false, trans_b, size[0], size[1], size[2], 2, true, false});
                ExpectExact<TypeParam>({true, trans_b, size[0], size[1], size[2], 2, false, true});
            }
        }
    });
}

TYPED_TEST(FloatGemmTest, RoundingStaysWithinTheTypesBound) {
    const int64_t sizes[][3] = {{37, 45, 1000}, {2, 70, 3000}, {70, 3, 3000}, {130, 90, 385}};
    using Sums = std::conditional_t<kIsHalf<TypeParam>, float, TypeParam>;
    ForEachTarget([&] {
        for (const auto &size : sizes) {
            for (const bool trans_b : kBoth) {
                const Case shape{!trans_b, trans_b, size[0], size[1], size[2], 1, false, true};
                SCOPED_TRACE(shape.Name());
                Operands<TypeParam> x(shape);
                FillRandomly(&x);
                std::vector<double> expected, magnitude;
                Reference(x, shape, &expected, &magnitude);
                Gemm(x.Args(shape));
                const double sum_error = Epsilon<Sums>() * std::sqrt(static_cast<double>(shape.k));
                for (int64_t i = 0; i < shape.m; ++i) {
                    for (int64_t j = 0; j < shape.n; ++j) {
                        const int64_t at = i * shape.n + j;
                        const double rounding = kIsHalf<TypeParam> ? Epsilon<TypeParam>() * std::abs(expected[at]) : 0;
                        ASSERT_NEAR(ToDouble(x.c.At(i, j)), expected[at], sum_error * magnitude[at] + rounding);
                    }
                }
            }
        }
    });
}

TYPED_TEST(FloatGemmTest, NotANumberReachesItsRowAndColumnOnly) {
    const int64_t sizes[][3] = {{2, 37, 50}, {37, 2, 50}, {23, 37, 50}, {64, 64, 64}, {23, 13, 400}};
    const double infinity = std::numeric_limits<double>::infinity();
    ForEachTarget([&] {
        for (const auto &size : sizes) {
            for (const bool trans : kBoth) {
                const Case shape{trans, !trans, size[0], size[1], size[2]};
                SCOPED_TRACE(shape.Name());
                Operands<TypeParam> x(shape);
                x.a.Fill([] { return 1; });
                x.b.Fill([] { return 0; });
                x.c.Fill([] { return std::nan(""); });  // must not be read
                const int64_t row = shape.m - 1, column = shape.n - 1, step = shape.k - 1;
                // Infinity times zero is NaN in all of row 0; the NaN in B fills the last column.
                (trans ? x.a.At(step, 0) : x.a.At(0, step)) = FromDouble<TypeParam>(infinity);
                (!trans ? x.b.At(column, 0) : x.b.At(0, column)) = FromDouble<TypeParam>(std::nan(""));
                (!trans ? x.b.At(0, 1) : x.b.At(1, 0)) = FromDouble<TypeParam>(-infinity);
                Gemm(x.Args(shape));
                for (int64_t i = 0; i < shape.m; ++i) {
                    for (int64_t j = 0; j < shape.n; ++j) {
                        const double value = ToDouble(x.c.At(i, j));
                        if (i == 0 || j == column) {
                            ASSERT_TRUE(std::isnan(value)) << i << ", " << j;
                        } else {
                            ASSERT_EQ(value, j == 0 ? -infinity : 0) << i << ", " << j;
                        }
                    }
                }
                EXPECT_GT(row, 0);
            }
        }
    });
}

TYPED_TEST(GemmTest, BatchesWithStridesAndSharedInputs) {
    struct Strides {
        bool share_a, share_b;
    };
    const int64_t sizes[][3] = {{5, 7, 6}, {1, 33, 20}, {64, 48, 40}};
    for (const auto &[share_a, share_b] : {Strides{false, false}, Strides{true, false}, Strides{false, true}}) {
        for (const auto &size : sizes) {
            const int64_t m = size[0], n = size[1], k = size[2], batch = 7;
            // One tall matrix each holds the batch; gaps between the products' parts come from an extra row.
            const Case all{false, true, batch * (m + 1), batch * (n + 1), k, 2};
            Operands<TypeParam> x(all);
            int counter = 0;
            const auto value = [&] { return ++counter * 7 % 11 - 5; };
            x.a.Fill(value);
            x.b.Fill(value);
            Matrix<TypeParam> c(batch * m, n, 3);
            BatchedGemmArgs<TypeParam> args;
            args.gemm = x.Args({false, true, m, n, k});
            args.gemm.c = c.data();
            args.gemm.ldc = c.ld();
            args.batch = batch;
            args.stride_a = share_a ? 0 : (m + 1) * x.a.ld();
            args.stride_b = share_b ? 0 : (n + 1) * x.b.ld();
            args.stride_c = m * c.ld();
            GemmBatched(args);
            for (int64_t s = 0; s < batch; ++s) {
                for (int64_t i = 0; i < m; ++i) {
                    for (int64_t j = 0; j < n; ++j) {
                        double sum = 0;
                        for (int64_t p = 0; p < k; ++p) {
                            sum += ToDouble(x.a.At((share_a ? 0 : s * (m + 1)) + i, p)) *
                                   ToDouble(x.b.At((share_b ? 0 : s * (n + 1)) + j, p));
                        }
                        ASSERT_EQ(ToDouble(c.At(s * m + i, j)), ToDouble(FromDouble<TypeParam>(sum)));
                    }
                }
            }
            c.ExpectMarksIntact();
        }
    }
}

TYPED_TEST(GemmTest, EmptyBatch) {
    BatchedGemmArgs<TypeParam> args;
    args.gemm.m = args.gemm.n = args.gemm.k = 3;
    GemmBatched(args);
}

TYPED_TEST(FloatGemmTest, ThreadsDontChangeABit) {
    const int64_t sizes[][3] = {{256, 200, 800}, {100, 333, 50},  {500, 20, 90}, {64, 30, 784}, {2, 3000, 100},
                                {3000, 2, 100},  {1, 1000, 1000}, {70, 80, 90},  {7, 900, 400}};
    for (const auto &size : sizes) {
        for (const bool trans_a : kBoth) {
            for (const bool trans_b : kBoth) {
                const Case shape{trans_a, trans_b, size[0], size[1], size[2], 1, false, true};
                SCOPED_TRACE(shape.Name());
                Operands<TypeParam> x(shape);
                FillRandomly(&x);
                std::vector<TypeParam> first;
                for (const int threads : {1, 2, 3, 5}) {
                    const ThreadCount count(threads);
                    Gemm(x.Args(shape));
                    const std::vector<TypeParam> result(x.c.data(), x.c.data() + (shape.m - 1) * x.c.ld() + shape.n);
                    if (first.empty()) {
                        first = result;
                    }
                    ASSERT_EQ(std::memcmp(first.data(), result.data(), result.size() * sizeof(TypeParam)), 0)
                        << threads << " threads";
                }
            }
        }
    }
}

TYPED_TEST(FloatGemmTest, ABatchComputesWhatItsProductsDo) {
    const Case shape{false, false, 260, 250, 70};
    for (const int64_t batch : {3, 4}) {
        const Case all{false, false, batch * shape.m, shape.n, shape.k};
        Operands<TypeParam> x(all), y(all);
        FillRandomly(&x);
        FillRandomly(&y);
        const ThreadCount count(2);
        BatchedGemmArgs<TypeParam> args{x.Args(shape), batch, shape.m * shape.k, 0, shape.m * shape.n};
        GemmBatched(args);
        for (int64_t s = 0; s < batch; ++s) {
            GemmArgs<TypeParam> gemm = y.Args(shape);
            gemm.a += s * shape.m * shape.k;
            gemm.c += s * shape.m * shape.n;
            Gemm(gemm);
        }
        ASSERT_EQ(std::memcmp(x.c.data(), y.c.data(), batch * shape.m * shape.n * sizeof(TypeParam)), 0);
    }
}

template <typename T>
void ExpectLikeEigen(int64_t m, int64_t n, int64_t k) {
    using EigenMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const EigenMatrix a = EigenMatrix::Random(m, k);
    const EigenMatrix b = EigenMatrix::Random(k, n);
    const EigenMatrix b_transposed = b.transpose();
    const EigenMatrix a_transposed = a.transpose();
    const EigenMatrix expected = a * b;
    for (const bool trans_a : kBoth) {
        for (const bool trans_b : kBoth) {
            EigenMatrix c(m, n);
            Gemm(GemmArgs<T>{.trans_a = trans_a,
                             .trans_b = trans_b,
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = trans_a ? a_transposed.data() : a.data(),
                             .lda = trans_a ? m : k,
                             .b = trans_b ? b_transposed.data() : b.data(),
                             .ldb = trans_b ? k : n,
                             .c = c.data(),
                             .ldc = n});
            const double bound = 4 * Epsilon<T>() * std::sqrt(static_cast<double>(k)) * std::sqrt(k / 9.0);
            EXPECT_LT((c - expected).cwiseAbs().maxCoeff(), bound) << m << ", " << n << ", " << k;
        }
    }
}

TEST(GemmEigenTest, LargeProducts) {
    ExpectLikeEigen<float>(256, 2304, 768);
    ExpectLikeEigen<float>(1100, 700, 1500);
    ExpectLikeEigen<float>(64, 5000, 300);
    ExpectLikeEigen<double>(300, 1100, 900);
    ExpectLikeEigen<double>(1500, 90, 2100);
}

TEST(GemmIntegerTest, WrapsOnOverflow) {
    const int32_t a[] = {std::numeric_limits<int32_t>::max()};
    const int32_t b[] = {2};
    int32_t c[] = {0};
    Gemm(GemmArgs<int32_t>{.m = 1, .n = 1, .k = 1, .a = a, .lda = 1, .b = b, .ldb = 1, .c = c, .ldc = 1});
    EXPECT_EQ(c[0], -2);
}

TEST(GemmThreadTest, CallsFromSeveralThreadsAtOnce) {
    const Case shape{false, true, 60, 70, 80};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] { ExpectExact<float>(shape); });
    }
    for (auto &thread : threads) {
        thread.join();
    }
}

}  // namespace
}  // namespace infini_train::cpu
