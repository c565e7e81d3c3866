// Triangles, masks and joins. They only move bytes, so they work on unsigned integers of the element's size.

#include <vector>

#include "infini_train/src/kernels/cuda/copy.h"
#include "infini_train/src/kernels/cuda/strides.cuh"
#include "infini_train/src/kernels/element_size.h"
#include "infini_train/src/kernels/registry.h"
#include "infini_train/src/kernels/transform.h"

namespace infini_train::cuda {
namespace {

template <typename T, typename Places>
__global__ void __launch_bounds__(kBlock)
    MaskedFillKernel(T *output, const T *input, const uint8_t *mask, Places places, int64_t num_elements, T value) {
    for (int64_t i = GridIndex(); i < num_elements; i += GridStep()) {
        const auto at = places.At(static_cast<typename Places::Index>(i));
        output[i] = mask[at[1]] != 0 ? value : input[at[0]];
    }
}

void RunMaskedFill(TensorRef output, ConstTensorRef input, ConstTensorRef mask, Scalar value) {
    if (output.num_elements == 0) {
        return;
    }
    const StridedLoop loop(output.Dims(), {{output.Dims(), input.strides}, {output.Dims(), mask.strides}});
    kernels::DispatchElementSize(SizeOf(output.dtype), [&]<typename T>() {
        VisitOffsets<2>(loop, [&](const auto &places) {
            using Places = std::decay_t<decltype(places)>;
            Launch("MaskedFill", {GridFor(output.num_elements)}, MaskedFillKernel<T, Places>, output.Data<T>(),
                   input.Data<T>(), mask.Data<uint8_t>(), places, output.num_elements,
                   kernels::BitsOf<T>(value, output.dtype));
        });
    });
}

template <typename Index>
struct TriangleShape {
    FastDivider<Index> rows, columns;
    int64_t diagonal;
    bool lower;
};

template <typename T, typename Places, typename Index = typename Places::Index>
__global__ void __launch_bounds__(kBlock)
    TriangleKernel(T *output, const T *input, Places places, int64_t num_elements, TriangleShape<Index> shape) {
    for (int64_t i = GridIndex(); i < num_elements; i += GridStep()) {
        const auto index = static_cast<Index>(i);
        const Index line = shape.columns.Divide(index);
        const auto column = static_cast<int64_t>(index - line * shape.columns.divisor);
        const auto row = static_cast<int64_t>(line - shape.rows.Divide(line) * shape.rows.divisor);
        const bool is_kept = shape.lower ? column <= row + shape.diagonal : column >= row + shape.diagonal;
        output[i] = is_kept ? input[places.At(index)[0]] : T{0};
    }
}

void RunTriangle(TensorRef output, ConstTensorRef input, int64_t diagonal, bool lower) {
    if (output.num_elements == 0) {
        return;
    }
    const int64_t rows = output.dims[output.ndim - 2], columns = output.dims[output.ndim - 1];
    const StridedLoop loop(output.Dims(), {{output.Dims(), input.strides}});
    kernels::DispatchElementSize(SizeOf(output.dtype), [&]<typename T>() {
        VisitOffsets<1>(loop, [&](const auto &places) {
            using Places = std::decay_t<decltype(places)>;
            using Index = typename Places::Index;
            const TriangleShape<Index> shape{FastDivider<Index>(rows), FastDivider<Index>(columns), diagonal, lower};
            Launch("Triangle", {GridFor(output.num_elements)}, TriangleKernel<T, Places>, output.Data<T>(),
                   input.Data<T>(), places, output.num_elements, shape);
        });
    });
}

// Each input is a strided copy into its part of the output.
void RunConcat(TensorRef output, std::span<const ConstTensorRef> inputs, int dim) {
    int64_t start = 0;
    std::vector<int64_t> strides(output.strides, output.strides + output.ndim);
    for (const ConstTensorRef &input : inputs) {
        TensorRef part{output.Data<char>() + start * output.strides[dim] * static_cast<int64_t>(SizeOf(output.dtype)),
                       input.dims,
                       strides.data(),
                       input.ndim,
                       output.dtype,
                       input.num_elements,
                       /*is_contiguous=*/false};
        start += input.dims[dim];
        if (input.num_elements > 0) {
            CopyKernel(part, input);
        }
    }
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterTransformCuda() {
    RegisterKernel<MaskedFill>(DeviceType::kCUDA, &cuda::RunMaskedFill);
    RegisterKernel<Triangle>(DeviceType::kCUDA, &cuda::RunTriangle);
    RegisterKernel<Concat>(DeviceType::kCUDA, &cuda::RunConcat);
}

}  // namespace infini_train::kernels
