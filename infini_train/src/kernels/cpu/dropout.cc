// Dropout and its reverse.

#include "infini_train/src/kernels/dropout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/dtype_dispatch.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"
#include "infini_train/src/kernels/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/dropout.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/philox_simd.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu::HWY_NAMESPACE {

constexpr int64_t kDropoutChunk = 512;

template <typename T>
void ScaleKept(T *HWY_RESTRICT out, const T *HWY_RESTRICT in, const uint8_t *HWY_RESTRICT mask, T scale,
               int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const T scaled = in[i] * scale;
        out[i] = mask[i] != 0 ? scaled : T{0};
    }
}

// 16-bit types go through float.
template <typename T, typename Compute>
void ScaleKeptAs(void *out, const void *in, const uint8_t *mask, double scale, int64_t count) {
    auto *to = static_cast<T *>(out);
    const auto *from = static_cast<const T *>(in);
    if constexpr (std::is_same_v<T, Compute>) {
        ScaleKept(to, from, mask, static_cast<T>(scale), count);
    } else {
        float values[kDropoutChunk];
        for (int64_t begin = 0; begin < count; begin += kDropoutChunk) {
            const int64_t size = HWY_MIN(kDropoutChunk, count - begin);
            for (int64_t i = 0; i < size; ++i) {
                values[i] = static_cast<float>(from[begin + i]);
            }
            for (int64_t i = 0; i < size; ++i) {
                values[i] = mask[begin + i] != 0 ? values[i] * static_cast<float>(scale) : 0.0F;
            }
            for (int64_t i = 0; i < size; ++i) {
                to[begin + i] = T(values[i]);
            }
        }
    }
}

void ScaleKeptOf(DataType dtype, void *out, const void *in, const uint8_t *mask, double scale, int64_t count) {
    switch (dtype) {
        case DataType::kFLOAT32:
            return ScaleKeptAs<float, float>(out, in, mask, scale, count);
        case DataType::kFLOAT64:
            return ScaleKeptAs<double, double>(out, in, mask, scale, count);
        case DataType::kBFLOAT16:
            return ScaleKeptAs<BFloat16, float>(out, in, mask, scale, count);
        default:
            return ScaleKeptAs<Float16, float>(out, in, mask, scale, count);
    }
}

// mask[i] for the elements [begin, begin + count) of the draw, begin a multiple of 4: word >= threshold.
void DrawMask(const Generator::State &state, int64_t begin, int64_t count, uint32_t threshold,
              uint8_t *HWY_RESTRICT mask) {
    HWY_ALIGN uint32_t words[kDropoutChunk];
    PhiloxWords(state, static_cast<uint64_t>(begin / 4), (count + 3) / 4, words);
    for (int64_t i = 0; i < count; ++i) {
        mask[i] = words[i] >= threshold ? 1 : 0;
    }
}

}  // namespace infini_train::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(ScaleKeptOf);
HWY_EXPORT(DrawMask);

namespace {

constexpr int64_t kChunk = 512;
constexpr int64_t kGrain = 8 * kChunk;

void DropoutForwardKernel(TensorRef output, TensorRef mask, ConstTensorRef input, double drop, double scale,
                          Generator::State state) {
    const auto element = static_cast<int64_t>(SizeOf(output.dtype));
    auto *kept = mask.Data<uint8_t>();
    const double threshold = std::nearbyint(drop * 0x1p32);
    const bool drops_all = threshold >= 0x1p32;
    const auto draw = &HWY_DYNAMIC_DISPATCH(DrawMask);
    const auto scale_kept = &HWY_DYNAMIC_DISPATCH(ScaleKeptOf);
    ParallelFor(0, output.num_elements, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i += kChunk) {
            const int64_t count = std::min(kChunk, end - i);
            if (drops_all) {
                std::fill(kept + i, kept + i + count, uint8_t{0});
            } else {
                draw(state, i, count, static_cast<uint32_t>(threshold), kept + i);
            }
            scale_kept(output.dtype, output.Data<char>() + i * element, input.Data<char>() + i * element, kept + i,
                       scale, count);
        }
    });
}

void MaskScaleKernel(TensorRef output, ConstTensorRef input, ConstTensorRef mask, double scale) {
    const auto element = static_cast<int64_t>(SizeOf(output.dtype));
    const auto scale_kept = &HWY_DYNAMIC_DISPATCH(ScaleKeptOf);
    ParallelFor(0, output.num_elements, 4 * kGrain, [&](int64_t begin, int64_t end) {
        scale_kept(output.dtype, output.Data<char>() + begin * element, input.Data<char>() + begin * element,
                   mask.Data<uint8_t>() + begin, scale, end - begin);
    });
}

}  // namespace
}  // namespace infini_train::cpu

namespace infini_train::kernels {

void RegisterDropoutCpu() {
    RegisterKernel<DropoutForward>(DeviceType::kCPU, &cpu::DropoutForwardKernel);
    RegisterKernel<MaskScale>(DeviceType::kCPU, &cpu::MaskScaleKernel);
}

}  // namespace infini_train::kernels
#endif  // HWY_ONCE
