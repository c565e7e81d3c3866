// Loops over adjacent elements that apply a functor. Compiled once for each Highway target, hence the toggled include
// guard; the compiler vectorises them for each.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_ELEMENTWISE_LOOPS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_ELEMENTWISE_LOOPS_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_ELEMENTWISE_LOOPS_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_ELEMENTWISE_LOOPS_H_
#endif

#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

#include "infini_train/include/datatype.h"

#include "infini_train/src/kernels/cpu/elementwise_driver.h"
#include "infini_train/src/kernels/cpu/independent_loop.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

template <typename F, typename T>
void UnaryLoop(const void *const *in, void *out, int64_t n, const void * /*params*/) {
    const auto *x = static_cast<const T *>(in[0]);
    auto *y = static_cast<std::invoke_result_t<F, T> *>(out);
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
        y[i] = F()(x[i]);
    }
}

template <typename F, typename T>
void BinaryLoop(const void *const *in, void *out, int64_t n, const void * /*params*/) {
    const auto *a = static_cast<const T *>(in[0]);
    const auto *b = static_cast<const T *>(in[1]);
    auto *y = static_cast<std::invoke_result_t<F, T, T> *>(out);
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
        y[i] = F()(a[i], b[i]);
    }
}

template <typename F, typename T>
void FirstScalarLoop(const void *const *in, void *out, int64_t n, const void * /*params*/) {
    const T a = *static_cast<const T *>(in[0]);
    const auto *b = static_cast<const T *>(in[1]);
    auto *y = static_cast<std::invoke_result_t<F, T, T> *>(out);
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
        y[i] = F()(a, b[i]);
    }
}

template <typename F, typename T>
void SecondScalarLoop(const void *const *in, void *out, int64_t n, const void * /*params*/) {
    const auto *a = static_cast<const T *>(in[0]);
    const T b = *static_cast<const T *>(in[1]);
    auto *y = static_cast<std::invoke_result_t<F, T, T> *>(out);
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
        y[i] = F()(a[i], b);
    }
}

/// Grains for functors of a few instructions, and for those that take a nanosecond or more an element.
inline constexpr int64_t kCheapGrain = 16384;
inline constexpr int64_t kCostlyGrain = 4096;

template <typename F, typename T>
constexpr ElementwiseOp MakeUnary(int64_t grain) {
    return {{&UnaryLoop<F, T>}, 1, {kDataTypeOf<T>}, kDataTypeOf<T>, grain};
}

template <typename F, typename T>
constexpr ElementwiseOp MakeBinary(int64_t grain) {
    return {{&BinaryLoop<F, T>, &FirstScalarLoop<F, T>, &SecondScalarLoop<F, T>},
            2,
            {kDataTypeOf<T>, kDataTypeOf<T>},
            kDataTypeOf<std::invoke_result_t<F, T, T>>,
            grain};
}

/// Without loops for scalars, for operators that hardly ever have one.
template <typename F, typename T>
constexpr ElementwiseOp MakePlainBinary(int64_t grain) {
    return {{&BinaryLoop<F, T>}, 2, {kDataTypeOf<T>, kDataTypeOf<T>}, kDataTypeOf<T>, grain};
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // the toggled include guard
