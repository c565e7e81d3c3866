#include <algorithm>
#include <type_traits>

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/channel_sum.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/dtype_dispatch.h"

#include "infini_train/src/kernels/matmul.h"
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Elements that are added up in one go, before their sum is added to a longer one: sums of sums lose less.
constexpr int64_t kSumBlock = 512;
constexpr int64_t kSumRows = 64;
constexpr int64_t kMinWork = 16384;  // additions that are worth a thread

template <typename T>
T SumOf(const T *x, int64_t n) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    auto s0 = hn::Zero(d), s1 = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
        s0 = hn::Add(s0, hn::LoadU(d, x + i));
        s1 = hn::Add(s1, hn::LoadU(d, x + i + lanes));
    }
    if (i + lanes <= n) {
        s0 = hn::Add(s0, hn::LoadU(d, x + i));
        i += lanes;
    }
    T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
    for (; i < n; ++i) {
        sum += x[i];
    }
    return sum;
}

// Gives `use(values, count, offset)` the n elements at x in pieces, converted to C.
template <typename C, typename T, typename Use>
void InPieces(const T *x, int64_t n, Use use) {
    for (int64_t i = 0; i < n; i += kSumBlock) {
        const int64_t count = std::min(kSumBlock, n - i);
        if constexpr (std::is_same_v<C, T>) {
            use(x + i, count, i);
        } else {
            C piece[kSumBlock];
            for (int64_t j = 0; j < count; ++j) {
                piece[j] = static_cast<C>(x[i + j]);
            }
            use(piece, count, i);
        }
    }
}

// input (rows, columns): each thread takes some columns.
template <typename C, typename T>
void SumRows(T *output, const T *input, int64_t rows, int64_t columns) {
    const int64_t grain = (kMinWork / std::max<int64_t>(rows, 1) + 16) / 16 * 16;
    ParallelFor(0, columns, grain, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; c += kSumBlock) {
            const int64_t width = std::min(kSumBlock, end - c);
            C total[kSumBlock] = {};
            for (int64_t r = 0; r < rows; r += kSumRows) {
                C part[kSumBlock] = {};
                for (int64_t i = r; i < std::min(rows, r + kSumRows); ++i) {
                    InPieces<C>(input + i * columns + c, width, [&](const C *x, int64_t n, int64_t) {
                        for (int64_t j = 0; j < n; ++j) {
                            part[j] += x[j];
                        }
                    });
                }
                for (int64_t j = 0; j < width; ++j) {
                    total[j] += part[j];
                }
            }
            for (int64_t j = 0; j < width; ++j) {
                output[c + j] = static_cast<T>(total[j]);
            }
        }
    });
}

// input (outer, channels, inner): each thread takes some channels.
template <typename C, typename T>
void SumPlanes(T *output, const T *input, int64_t outer, int64_t channels, int64_t inner) {
    const int64_t grain = kMinWork / std::max<int64_t>(outer * inner, 1) + 1;
    ParallelFor(0, channels, grain, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
            double total = 0;
            for (int64_t o = 0; o < outer; ++o) {
                InPieces<C>(input + (o * channels + c) * inner, inner,
                            [&](const C *x, int64_t n, int64_t) { total += static_cast<double>(SumOf(x, n)); });
            }
            output[c] = static_cast<T>(static_cast<C>(total));
        }
    });
}

void ChannelSum(TensorRef output, ConstTensorRef input, int64_t outer, int64_t inner) {
    DispatchFloatingDtype(output.dtype, kernels::ChannelSum::kName, [&]<typename T>() {
        using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
        if (inner == 1) {
            SumRows<C>(output.Data<T>(), input.Data<T>(), outer, output.num_elements);
        } else {
            SumPlanes<C>(output.Data<T>(), input.Data<T>(), outer, output.num_elements, inner);
        }
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {

HWY_EXPORT(ChannelSum);

static void ChannelSumKernel(TensorRef output, ConstTensorRef input, int64_t outer, int64_t inner) {
    HWY_DYNAMIC_DISPATCH(ChannelSum)(output, input, outer, inner);
}

}  // namespace cpu

namespace kernels {

void RegisterChannelSumCpu() {
    RegisterKernel<ChannelSum>(DeviceType::kCPU, &cpu::ChannelSumKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
