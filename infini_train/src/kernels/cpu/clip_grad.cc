#include "infini_train/src/kernels/clip_grad.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/clip_grad.cc"
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/row_access.h"
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

using kernels::FlatGrad;
using kernels::GradNormKind;

// The elements of all gradients, as if they lay one behind the other, fall into blocks, each of which is added up by
// itself: the result depends on neither threads nor vector lengths.
inline constexpr int64_t kNormBlock = 32768;
inline constexpr int64_t kScaleGrain = 32768;
inline constexpr int kLanes = 16;

/// Calls run(grad, begin, end) for the pieces of gradients that make up elements begin..end of all.
template <typename Run>
HWY_INLINE void ForRange(std::span<const FlatGrad> grads, int64_t begin, int64_t end, const Run &run) {
    const auto after = [](int64_t position, const FlatGrad &grad) { return position < grad.begin; };
    auto grad = std::upper_bound(grads.begin(), grads.end(), begin, after) - 1;
    for (int64_t i = begin; i < end; ++grad) {
        const int64_t stop = std::min(end, grad->begin + grad->num_elements);
        run(*grad, i - grad->begin, stop - grad->begin);
        i = stop;
    }
}

template <GradNormKind kKind>
HWY_INLINE void Accumulate(double value, double *sum) {
    if constexpr (kKind == GradNormKind::kSumOfSquares) {
        *sum += value * value;
    } else if constexpr (kKind == GradNormKind::kSumOfAbs) {
        *sum += std::fabs(value);
    } else {
        // False for NaN on either side, which is how it gets in and stays.
        const double magnitude = std::fabs(value);
        *sum = magnitude <= *sum || *sum != *sum ? *sum : magnitude;
    }
}

/// Sixteen sums side by side, which the compiler turns into vectors of any length.
template <GradNormKind kKind, typename C>
HWY_INLINE void AccumulateAll(const C *HWY_RESTRICT values, int64_t n, double *HWY_RESTRICT sums) {
    double lanes[kLanes];
    std::copy_n(sums, kLanes, lanes);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (int lane = 0; lane < kLanes; ++lane) {
            Accumulate<kKind>(static_cast<double>(values[i + lane]), &lanes[lane]);
        }
    }
    for (int lane = 0; i < n; ++i, ++lane) {
        Accumulate<kKind>(static_cast<double>(values[i]), &lanes[lane]);
    }
    std::copy_n(lanes, kLanes, sums);
}

template <GradNormKind kKind, typename C>
HWY_INLINE void NormOfRange(const FlatGrad &grad, int64_t begin, int64_t end, double *sums) {
    C buffer[kChunk];
    const Reader<C> reader(grad.data, grad.dtype);
    for (int64_t i = begin; i < end; i += kChunk) {
        const int64_t n = std::min(kChunk, end - i);
        AccumulateAll<kKind>(reader.Read(i, n, buffer), n, sums);
    }
}

template <GradNormKind kKind>
HWY_INLINE double Combine(const double *values, int64_t n) {
    double result = 0;
    for (int64_t i = 0; i < n; ++i) {
        if constexpr (kKind == GradNormKind::kMaxAbs) {
            Accumulate<kKind>(values[i], &result);
        } else {
            result += values[i];
        }
    }
    return result;
}

template <GradNormKind kKind>
double NormOfKind(std::span<const FlatGrad> grads) {
    const int64_t total = grads.back().begin + grads.back().num_elements;
    const int64_t num_blocks = (total + kNormBlock - 1) / kNormBlock;
    std::vector<double> blocks(static_cast<size_t>(num_blocks));
    ParallelFor(0, num_blocks, 1, [&](int64_t first, int64_t last) HWY_ATTR {
        for (int64_t block = first; block < last; ++block) {
            double sums[kLanes] = {};
            const int64_t begin = block * kNormBlock;
            ForRange(grads, begin, std::min(total, begin + kNormBlock),
                     [&](const FlatGrad &grad, int64_t from, int64_t to) HWY_ATTR {
                         if (grad.dtype == DataType::kFLOAT64) {
                             NormOfRange<kKind, double>(grad, from, to, sums);
                         } else {
                             NormOfRange<kKind, float>(grad, from, to, sums);
                         }
                     });
            blocks[static_cast<size_t>(block)] = Combine<kKind>(sums, kLanes);
        }
    });
    return Combine<kKind>(blocks.data(), num_blocks);
}

double NormOfAll(std::span<const FlatGrad> grads, GradNormKind kind) {
    switch (kind) {
        case GradNormKind::kSumOfAbs:
            return NormOfKind<GradNormKind::kSumOfAbs>(grads);
        case GradNormKind::kSumOfSquares:
            return NormOfKind<GradNormKind::kSumOfSquares>(grads);
        default:
            return NormOfKind<GradNormKind::kMaxAbs>(grads);
    }
}

/// Replaces elements begin..end by change(element).
template <typename C, typename Change>
HWY_INLINE void ChangeRange(const FlatGrad &grad, int64_t begin, int64_t end, const Change &change) {
    C buffer[kChunk];
    const Reader<C> reader(grad.data, grad.dtype);
    const Writer<C> writer(grad.data, grad.dtype);
    for (int64_t i = begin; i < end; i += kChunk) {
        const int64_t n = std::min(kChunk, end - i);
        C *values = writer.Begin(i, buffer);
        reader.Read(i, n, buffer);
        for (int64_t j = 0; j < n; ++j) {
            values[j] = change(values[j]);
        }
        writer.Commit(i, n, values);
    }
}

template <typename MakeChange>
HWY_INLINE void ChangeAll(std::span<const FlatGrad> grads, const MakeChange &make_change) {
    ParallelFor(0, grads.back().begin + grads.back().num_elements, kScaleGrain,
                [&](int64_t begin, int64_t end) HWY_ATTR {
                    ForRange(grads, begin, end, [&](const FlatGrad &grad, int64_t from, int64_t to) HWY_ATTR {
                        if (grad.dtype == DataType::kFLOAT64) {
                            ChangeRange<double>(grad, from, to, make_change(double{}));
                        } else {
                            ChangeRange<float>(grad, from, to, make_change(float{}));
                        }
                    });
                });
}

void ScaleAll(std::span<const FlatGrad> grads, double factor) {
    ChangeAll(grads, [factor](auto zero) {
        const auto scale = static_cast<decltype(zero)>(factor);
        return [scale](auto value) { return value * scale; };
    });
}

void ClampAll(std::span<const FlatGrad> grads, double limit) {
    ChangeAll(grads, [limit](auto zero) {
        const auto most = static_cast<decltype(zero)>(limit);
        return [most](auto value) {
            const auto below = value > most ? most : value;
            return below < -most ? -most : below;
        };
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

HWY_EXPORT(NormOfAll);
HWY_EXPORT(ScaleAll);
HWY_EXPORT(ClampAll);

double GradNormKernel(std::span<const kernels::FlatGrad> grads, kernels::GradNormKind kind) {
    return grads.empty() ? 0 : HWY_DYNAMIC_DISPATCH(NormOfAll)(grads, kind);
}

void ScaleGradsKernel(std::span<const kernels::FlatGrad> grads, double factor) {
    if (!grads.empty()) {
        HWY_DYNAMIC_DISPATCH(ScaleAll)(grads, factor);
    }
}

void ClampGradsKernel(std::span<const kernels::FlatGrad> grads, double limit) {
    if (!grads.empty()) {
        HWY_DYNAMIC_DISPATCH(ClampAll)(grads, limit);
    }
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterClipGradCpu() {
    RegisterKernel<GradNorm>(DeviceType::kCPU, &cpu::GradNormKernel);
    RegisterKernel<ScaleGrads>(DeviceType::kCPU, &cpu::ScaleGradsKernel);
    RegisterKernel<ClampGrads>(DeviceType::kCPU, &cpu::ClampGradsKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
