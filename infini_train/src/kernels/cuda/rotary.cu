// Rotary position embedding.

#include <vector>

#include "infini_train/src/kernels/cuda/floats.cuh"
#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/strides.cuh"
#include "infini_train/src/kernels/registry.h"
#include "infini_train/src/kernels/rotary.h"

namespace infini_train::cuda {
namespace {

struct Turn {
    const void *x, *cos, *sin;
    void *y;
    DataType dtype, angle_dtype;
    int64_t pairs, length;    // of a row, and of the dim before
    int64_t x_step, x_other;  // from pair to pair, and within one
    int64_t y_step, y_other;
    double sign;
};

// `places` counts pairs, row by row.
template <typename C, typename Places>
__global__ void __launch_bounds__(kBlock) RotaryKernel(Turn turn, Places places, int64_t num_pairs) {
    for (int64_t i = GridIndex(); i < num_pairs; i += GridStep()) {
        const int64_t pair = i % turn.pairs, position = i / turn.pairs % turn.length;
        const auto row = places.At(static_cast<typename Places::Index>(i / turn.pairs));
        const C c = LoadFloat<C>(turn.cos, turn.angle_dtype, position * turn.pairs + pair);
        const C s = static_cast<C>(turn.sign) * LoadFloat<C>(turn.sin, turn.angle_dtype, position * turn.pairs + pair);
        const int64_t from = row[0] + pair * turn.x_step, to = row[1] + pair * turn.y_step;
        const C a = LoadFloat<C>(turn.x, turn.dtype, from);
        const C b = LoadFloat<C>(turn.x, turn.dtype, from + turn.x_other);
        StoreFloat<C>(turn.y, turn.dtype, to, a * c - b * s);
        StoreFloat<C>(turn.y, turn.dtype, to + turn.y_other, a * s + b * c);
    }
}

void RunRotary(TensorRef y, ConstTensorRef x, ConstTensorRef cos, ConstTensorRef sin, bool interleaved, bool inverse) {
    if (x.num_elements == 0) {
        return;
    }
    const int last = x.ndim - 1;
    const int64_t n = x.dims[last], pairs = n / 2;
    const int64_t x_stride = x.strides[last], y_stride = y.strides[last];
    const Turn turn{.x = x.data,
                    .cos = cos.data,
                    .sin = sin.data,
                    .y = y.data,
                    .dtype = x.dtype,
                    .angle_dtype = cos.dtype,
                    .pairs = pairs,
                    .length = x.dims[last - 1],
                    .x_step = interleaved ? 2 * x_stride : x_stride,
                    .x_other = interleaved ? x_stride : pairs * x_stride,
                    .y_step = interleaved ? 2 * y_stride : y_stride,
                    .y_other = interleaved ? y_stride : pairs * y_stride,
                    .sign = inverse ? -1.0 : 1.0};
    const auto rows = x.Dims().first(static_cast<size_t>(last));
    const StridedLoop loop(rows, {{rows, x.strides}, {rows, y.strides}});
    const int64_t num_pairs = loop.num_elements * pairs;
    VisitOffsets<2>(loop, [&](const auto &places) {
        using Places = std::decay_t<decltype(places)>;
        const auto kernel =
            x.dtype == DataType::kFLOAT64 ? &RotaryKernel<double, Places> : &RotaryKernel<float, Places>;
        Launch("Rotary", {GridFor(num_pairs)}, kernel, turn, places, num_pairs);
    });
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterRotaryCuda() {
    RegisterKernel<Rotary>(DeviceType::kCUDA, &cuda::RunRotary);
}

}  // namespace infini_train::kernels
