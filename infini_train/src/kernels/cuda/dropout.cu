// Dropout and its reverse.

#include <cmath>
#include <type_traits>

#include "infini_train/include/core/philox.h"

#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/random_shift.cuh"
#include "infini_train/src/kernels/cuda/types.cuh"
#include "infini_train/src/kernels/cuda/vector.cuh"
#include "infini_train/src/kernels/dropout.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

// A block of random numbers is four elements.
constexpr int kFour = 4;

template <typename T>
struct DropoutArguments {
    T *output;
    uint8_t *mask;
    const T *input;
    int64_t num_elements;
    Accumulate<T> scale;
    uint32_t threshold;
    bool drops_all;
    bool is_aligned;
};

template <typename T>
__device__ __forceinline__ T Scaled(T value, bool kept, Accumulate<T> scale) {
    return kept ? Store<T>(Load(value) * scale) : Store<T>(Accumulate<T>{0});
}

template <typename T>
__global__ void __launch_bounds__(kBlock) DropoutKernel(DropoutArguments<T> arguments, RandomState random) {
    const Generator::State state = random.Get();
    const int64_t num_blocks = (arguments.num_elements + kFour - 1) / kFour;
    for (int64_t block = GridIndex(); block < num_blocks; block += GridStep()) {
        const auto words = PhiloxBlock(state.seed, state.stream, state.offset + static_cast<uint64_t>(block));
        const int64_t first = block * kFour;
        if (arguments.is_aligned && first + kFour <= arguments.num_elements) {
            const auto in = Vec<T, kFour>::Load(arguments.input + first);
            Vec<T, kFour> out;
            Vec<uint8_t, kFour> mask;
#pragma unroll
            for (int i = 0; i < kFour; ++i) {
                const bool kept = words[i] >= arguments.threshold && !arguments.drops_all;
                mask[i] = kept ? 1 : 0;
                out[i] = Scaled(in[i], kept, arguments.scale);
            }
            mask.Store(arguments.mask + first);
            out.Store(arguments.output + first);
        } else {
#pragma unroll
            for (int i = 0; i < kFour; ++i) {
                if (first + i < arguments.num_elements) {
                    const bool kept = words[i] >= arguments.threshold && !arguments.drops_all;
                    arguments.mask[first + i] = kept ? 1 : 0;
                    arguments.output[first + i] = Scaled(arguments.input[first + i], kept, arguments.scale);
                }
            }
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kBlock) MaskScaleKernel(T *output, const T *input, const uint8_t *mask,
                                                          int64_t num_elements, Accumulate<T> scale, bool is_aligned) {
    const int64_t num_blocks = (num_elements + kFour - 1) / kFour;
    for (int64_t block = GridIndex(); block < num_blocks; block += GridStep()) {
        const int64_t first = block * kFour;
        if (is_aligned && first + kFour <= num_elements) {
            const auto in = Vec<T, kFour>::Load(input + first);
            const auto kept = Vec<uint8_t, kFour>::Load(mask + first);
            Vec<T, kFour> out;
#pragma unroll
            for (int i = 0; i < kFour; ++i) {
                out[i] = Scaled(in[i], kept[i] != 0, scale);
            }
            out.Store(output + first);
        } else {
            for (int64_t i = first; i < first + kFour && i < num_elements; ++i) {
                output[i] = Scaled(input[i], mask[i] != 0, scale);
            }
        }
    }
}

void DropoutForwardKernel(TensorRef output, TensorRef mask, ConstTensorRef input, double drop, double scale,
                          Generator::State state) {
    const double threshold = std::nearbyint(drop * 0x1p32);
    const bool drops_all = threshold >= 0x1p32;
    VisitFloating("DropoutForward", output.dtype, [&]<typename T>(std::type_identity<T>) {
        const DropoutArguments<T> arguments{
            output.Data<T>(),
            mask.Data<uint8_t>(),
            input.Data<T>(),
            output.num_elements,
            static_cast<Accumulate<T>>(scale),
            drops_all ? 0 : static_cast<uint32_t>(threshold),
            drops_all,
            IsAligned(output.data) && IsAligned(input.data) && IsAligned(mask.data, kFour)};
        Launch("DropoutForward", {GridFor((output.num_elements + kFour - 1) / kFour)}, DropoutKernel<T>, arguments,
               RandomState(state));
    });
}

void MaskScaleRun(TensorRef output, ConstTensorRef input, ConstTensorRef mask, double scale) {
    VisitFloating("MaskScale", output.dtype, [&]<typename T>(std::type_identity<T>) {
        const bool is_aligned = IsAligned(output.data) && IsAligned(input.data) && IsAligned(mask.data, kFour);
        Launch("MaskScale", {GridFor((output.num_elements + kFour - 1) / kFour)}, MaskScaleKernel<T>, output.Data<T>(),
               input.Data<T>(), mask.Data<uint8_t>(), output.num_elements, static_cast<Accumulate<T>>(scale),
               is_aligned);
    });
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterDropoutCuda() {
    RegisterKernel<DropoutForward>(DeviceType::kCUDA, &cuda::DropoutForwardKernel);
    RegisterKernel<MaskScale>(DeviceType::kCUDA, &cuda::MaskScaleRun);
}

}  // namespace infini_train::kernels
