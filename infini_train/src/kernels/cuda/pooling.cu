// Pooling over windows. Each element of a result is made by one thread, so that none depends on chance.

#include <limits>
#include <type_traits>

#include "infini_train/src/kernels/cuda/copy.h"
#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/cuda/types.cuh"
#include "infini_train/src/kernels/pooling.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

using kernels::Pool2dShape;

// A window's place in its plane.
struct Window {
    int64_t plane, row, column;

    __device__ __forceinline__ Window(const Pool2dShape &s, int64_t i)
        : plane(i / s.out_width / s.out_height), row(i / s.out_width % s.out_height), column(i % s.out_width) {}
};

int64_t NumWindows(const Pool2dShape &s) {
    return s.planes * s.out_height * s.out_width;
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    MaxKernel(T *output, int32_t *indices, const T *input, Pool2dShape s, int64_t num_windows) {
    using C = Accumulate<T>;
    for (int64_t i = GridIndex(); i < num_windows; i += GridStep()) {
        const Window window(s, i);
        const T *const plane = input + window.plane * s.in_height * s.in_width;
        C best = -std::numeric_limits<C>::infinity();
        int32_t place = -1;
        for (int64_t a = 0; a < s.kernel_height; ++a) {
            const int64_t row = window.row * s.stride_height - s.padding_height + a * s.dilation_height;
            for (int64_t b = 0; row >= 0 && row < s.in_height && b < s.kernel_width; ++b) {
                const int64_t column = window.column * s.stride_width - s.padding_width + b * s.dilation_width;
                if (column < 0 || column >= s.in_width) {
                    continue;
                }
                const C value = Load(plane[row * s.in_width + column]);
                if (place < 0 || value > best || value != value) {
                    best = value;
                    place = static_cast<int32_t>(row * s.in_width + column);
                }
            }
        }
        output[i] = Store<T>(best);
        indices[i] = place;
    }
}

void RunMaxPool(TensorRef output, TensorRef indices, ConstTensorRef input, const Pool2dShape &s) {
    VisitFloating("MaxPool2d", output.dtype, [&]<typename T>(std::type_identity<T>) {
        Launch("MaxPool2d", {GridFor(NumWindows(s))}, MaxKernel<T>, output.Data<T>(), indices.Data<int32_t>(),
               input.Data<T>(), s, NumWindows(s));
    });
}

// A block takes a plane. Windows may overlap, so each thread goes through all of them and adds those whose place is
// one of its own: their order is that of the windows.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    MaxBackwardKernel(Accumulate<T> *grad_input, const T *grad_output, const int32_t *indices, int64_t planes,
                      int64_t in_size, int64_t out_size) {
    for (int64_t plane = blockIdx.x; plane < planes; plane += gridDim.x) {
        Accumulate<T> *const to = grad_input + plane * in_size;
        for (int64_t i = threadIdx.x; i < in_size; i += kBlock) {
            to[i] = 0;
        }
        for (int64_t i = plane * out_size; i < (plane + 1) * out_size; ++i) {
            const int32_t place = indices[i];
            if (place >= 0 && place % kBlock == static_cast<int>(threadIdx.x)) {
                to[place] += Load(grad_output[i]);
            }
        }
    }
}

void RunMaxPoolBackward(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef indices, int64_t planes) {
    const int64_t in_size = grad_input.num_elements / planes, out_size = grad_output.num_elements / planes;
    VisitFloating("MaxPool2dBackward", grad_input.dtype, [&]<typename T>(std::type_identity<T>) {
        using C = Accumulate<T>;
        constexpr bool kIsNarrow = !std::is_same_v<T, C>;
        // Sums of 16-bit gradients are rounded once.
        const Scratch scratch(kIsNarrow ? static_cast<size_t>(grad_input.num_elements) * sizeof(C) : 0);
        C *const sums = kIsNarrow ? scratch.As<C>() : grad_input.Data<C>();
        Launch("MaxPool2dBackward", {GridFor(planes, 1)}, MaxBackwardKernel<T>, sums, grad_output.Data<T>(),
               indices.Data<int32_t>(), planes, in_size, out_size);
        if (kIsNarrow) {
            CopyKernel(grad_input, {sums, grad_input.dims, grad_input.strides, grad_input.ndim, DataType::kFLOAT32,
                                    grad_input.num_elements, true});
        }
    });
}

template <typename T>
__global__ void __launch_bounds__(kBlock) MaxGatherKernel(T *output, const T *input, const int32_t *indices,
                                                          int64_t count, int64_t in_size, int64_t out_size) {
    for (int64_t i = GridIndex(); i < count; i += GridStep()) {
        const int32_t place = indices[i];
        output[i] = place >= 0 ? input[i / out_size * in_size + place] : Store<T>(0);
    }
}

void RunMaxPoolGather(TensorRef output, ConstTensorRef input, ConstTensorRef indices, int64_t planes) {
    VisitFloating("MaxPool2dGather", output.dtype, [&]<typename T>(std::type_identity<T>) {
        Launch("MaxPool2dGather", {GridFor(output.num_elements)}, MaxGatherKernel<T>, output.Data<T>(), input.Data<T>(),
               indices.Data<int32_t>(), output.num_elements, input.num_elements / planes, output.num_elements / planes);
    });
}

// A window's part of the plane along one axis, [begin, end), and its length with padding.
struct Extent {
    int64_t begin, end, padded;

    __device__ __forceinline__ Extent(int64_t window, int64_t stride, int64_t padding, int64_t kernel, int64_t size) {
        const int64_t from = window * stride - padding;
        const int64_t to = from + kernel < size + padding ? from + kernel : size + padding;
        padded = to - from;
        begin = from > 0 ? from : 0;
        end = to < size ? to : size;
    }
};

__device__ __forceinline__ int64_t Divisor(const Pool2dShape &s, const Extent &rows, const Extent &columns) {
    return s.count_include_pad ? rows.padded * columns.padded : (rows.end - rows.begin) * (columns.end - columns.begin);
}

template <typename T>
__global__ void __launch_bounds__(kBlock) AvgKernel(T *output, const T *input, Pool2dShape s, int64_t num_windows) {
    using C = Accumulate<T>;
    for (int64_t i = GridIndex(); i < num_windows; i += GridStep()) {
        const Window window(s, i);
        const T *const plane = input + window.plane * s.in_height * s.in_width;
        const Extent rows(window.row, s.stride_height, s.padding_height, s.kernel_height, s.in_height);
        const Extent columns(window.column, s.stride_width, s.padding_width, s.kernel_width, s.in_width);
        C sum = 0;
        for (int64_t row = rows.begin; row < rows.end; ++row) {
            for (int64_t column = columns.begin; column < columns.end; ++column) {
                sum += Load(plane[row * s.in_width + column]);
            }
        }
        output[i] = Store<T>(sum / static_cast<C>(Divisor(s, rows, columns)));
    }
}

void RunAvgPool(TensorRef output, ConstTensorRef input, const Pool2dShape &s) {
    VisitFloating("AvgPool2d", output.dtype, [&]<typename T>(std::type_identity<T>) {
        Launch("AvgPool2d", {GridFor(NumWindows(s))}, AvgKernel<T>, output.Data<T>(), input.Data<T>(), s,
               NumWindows(s));
    });
}

// The windows along one axis that see a position: [begin, end).
__device__ __forceinline__ void Seeing(int64_t position, int64_t stride, int64_t padding, int64_t kernel,
                                       int64_t windows, int64_t *begin, int64_t *end) {
    const int64_t at = position + padding;
    *begin = at >= kernel ? (at - kernel) / stride + 1 : 0;
    *end = at / stride + 1 < windows ? at / stride + 1 : windows;
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    AvgBackwardKernel(T *grad_input, const T *grad_output, Pool2dShape s, int64_t num_elements) {
    using C = Accumulate<T>;
    for (int64_t i = GridIndex(); i < num_elements; i += GridStep()) {
        const int64_t plane = i / s.in_width / s.in_height, row = i / s.in_width % s.in_height, column = i % s.in_width;
        int64_t top = 0, bottom = 0, left = 0, right = 0;
        Seeing(row, s.stride_height, s.padding_height, s.kernel_height, s.out_height, &top, &bottom);
        Seeing(column, s.stride_width, s.padding_width, s.kernel_width, s.out_width, &left, &right);
        C sum = 0;
        for (int64_t a = top; a < bottom; ++a) {
            const Extent rows(a, s.stride_height, s.padding_height, s.kernel_height, s.in_height);
            for (int64_t b = left; b < right; ++b) {
                const Extent columns(b, s.stride_width, s.padding_width, s.kernel_width, s.in_width);
                sum += Load(grad_output[(plane * s.out_height + a) * s.out_width + b]) /
                       static_cast<C>(Divisor(s, rows, columns));
            }
        }
        grad_input[i] = Store<T>(sum);
    }
}

void RunAvgPoolBackward(TensorRef grad_input, ConstTensorRef grad_output, const Pool2dShape &s) {
    VisitFloating("AvgPool2dBackward", grad_input.dtype, [&]<typename T>(std::type_identity<T>) {
        Launch("AvgPool2dBackward", {GridFor(grad_input.num_elements)}, AvgBackwardKernel<T>, grad_input.Data<T>(),
               grad_output.Data<T>(), s, grad_input.num_elements);
    });
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterPoolingCuda() {
    RegisterKernel<MaxPool2d>(DeviceType::kCUDA, &cuda::RunMaxPool);
    RegisterKernel<MaxPool2dBackward>(DeviceType::kCUDA, &cuda::RunMaxPoolBackward);
    RegisterKernel<MaxPool2dGather>(DeviceType::kCUDA, &cuda::RunMaxPoolGather);
    RegisterKernel<AvgPool2d>(DeviceType::kCUDA, &cuda::RunAvgPool);
    RegisterKernel<AvgPool2dBackward>(DeviceType::kCUDA, &cuda::RunAvgPoolBackward);
}

}  // namespace infini_train::kernels
