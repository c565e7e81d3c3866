// Convolutions as products of matrices: what the taps of the kernel see of an image becomes a matrix of its own
// (Chellapilla, Puri and Simard, 2006), for as many images at a time as a bounded scratch takes.

#include <algorithm>
#include <type_traits>
#include <vector>

#include "infini_train/src/kernels/conv.h"
#include "infini_train/src/kernels/cuda/copy.h"
#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/matmul_product.h"
#include "infini_train/src/kernels/cuda/reduction.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/cuda/types.cuh"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

using kernels::Conv2dShape;

constexpr int64_t kScratchBytes = int64_t{64} << 20;

int64_t InputSize(const Conv2dShape &s) {
    return s.in_channels * s.in_height * s.in_width;
}
int64_t Pixels(const Conv2dShape &s) {
    return s.out_height * s.out_width;
}
// Rows of an image's matrix: channels and taps. It has a column for each pixel of the output.
int64_t Taps(const Conv2dShape &s) {
    return s.in_channels * s.kernel_height * s.kernel_width;
}
// The image is its own matrix.
bool IsPointwise(const Conv2dShape &s) {
    return s.kernel_height == 1 && s.kernel_width == 1 && s.stride_height == 1 && s.stride_width == 1 &&
           s.padding_height == 0 && s.padding_width == 0;
}

// How many images go at a time, so much scratch each.
int64_t ImagesAtOnce(const Conv2dShape &s, int64_t bytes_each) {
    return std::clamp<int64_t>(kScratchBytes / std::max<int64_t>(bytes_each, 1), 1, s.batch);
}

template <typename T>
__global__ void __launch_bounds__(kBlock) UnfoldKernel(T *columns, const T *input, Conv2dShape s, int64_t count) {
    const int64_t pixels = s.out_height * s.out_width;
    for (int64_t i = GridIndex(); i < count; i += GridStep()) {
        const int64_t pixel = i % pixels, tap = i / pixels;  // of all images
        const int64_t b = tap % s.kernel_width, a = tap / s.kernel_width % s.kernel_height;
        const int64_t channel = tap / s.kernel_width / s.kernel_height;
        const int64_t row = pixel / s.out_width * s.stride_height - s.padding_height + a * s.dilation_height;
        const int64_t column = pixel % s.out_width * s.stride_width - s.padding_width + b * s.dilation_width;
        const bool is_inside = row >= 0 && row < s.in_height && column >= 0 && column < s.in_width;
        columns[i] = is_inside ? input[(channel * s.in_height + row) * s.in_width + column] : Store<T>(0);
    }
}

// The reverse: each element of an image adds up what the taps that see it have.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    FoldKernel(T *grad_input, const Accumulate<T> *columns, Conv2dShape s, int64_t count) {
    using C = Accumulate<T>;
    const int64_t pixels = s.out_height * s.out_width;
    for (int64_t i = GridIndex(); i < count; i += GridStep()) {
        const int64_t column = i % s.in_width, row = i / s.in_width % s.in_height,
                      channel = i / s.in_width / s.in_height;
        C sum = 0;
        for (int64_t a = 0; a < s.kernel_height; ++a) {
            const int64_t y = row + s.padding_height - a * s.dilation_height;
            if (y < 0 || y % s.stride_height != 0 || y / s.stride_height >= s.out_height) {
                continue;
            }
            for (int64_t b = 0; b < s.kernel_width; ++b) {
                const int64_t x = column + s.padding_width - b * s.dilation_width;
                if (x >= 0 && x % s.stride_width == 0 && x / s.stride_width < s.out_width) {
                    const int64_t tap = (channel * s.kernel_height + a) * s.kernel_width + b;
                    sum += columns[tap * pixels + y / s.stride_height * s.out_width + x / s.stride_width];
                }
            }
        }
        grad_input[i] = Store<T>(sum);
    }
}

kernels::MatrixLayout ByRows(int64_t columns, bool transposed = false) {
    return {transposed, std::max<int64_t>(columns, 1)};
}

// Calls `body(first image, images, columns)` with the matrices of `at_once` images at a time.
template <typename T, typename Body>
void WithColumns(const char *name, const ConstTensorRef &input, const Conv2dShape &s, int64_t at_once, Body &&body) {
    const bool is_pointwise = IsPointwise(s);
    const int64_t size = Taps(s) * Pixels(s);
    const Scratch scratch(is_pointwise ? 0 : static_cast<size_t>(at_once * size) * sizeof(T));
    for (int64_t first = 0; first < s.batch; first += at_once) {
        const int64_t images = std::min(at_once, s.batch - first);
        const T *const from = input.Data<T>() + first * InputSize(s);
        if (is_pointwise) {
            body(first, images, from);
            continue;
        }
        Launch(name, {GridFor(images * size)}, UnfoldKernel<T>, scratch.As<T>(), from, s, images * size);
        body(first, images, static_cast<const T *>(scratch.As<T>()));
    }
}

void RunForward(TensorRef output, ConstTensorRef input, ConstTensorRef weight, ConstTensorRef bias,
                const Conv2dShape &s) {
    if (output.num_elements == 0) {
        return;
    }
    const bool adds = bias.data != nullptr;
    if (adds) {
        // The product is added to the bias, which was there before it.
        const int64_t dims[3] = {s.batch, s.out_channels, Pixels(s)}, strides[3] = {0, 1, 0};
        const int64_t to[3] = {s.out_channels * Pixels(s), Pixels(s), 1};
        CopyKernel({output.data, dims, to, 3, output.dtype, output.num_elements, true},
                   {bias.data, dims, strides, 3, bias.dtype, output.num_elements, false});
    }
    const int64_t pixels = Pixels(s), taps = Taps(s) / s.groups, channels = s.out_channels / s.groups;
    VisitFloating("Conv2dForward", output.dtype, [&]<typename T>(std::type_identity<T>) {
        const int64_t bytes = Taps(s) * pixels * static_cast<int64_t>(sizeof(T));
        const int64_t at_once = IsPointwise(s) ? s.batch : ImagesAtOnce(s, bytes);
        WithColumns<T>("Conv2dForward", input, s, at_once, [&](int64_t first, int64_t images, const T *columns) {
            for (int64_t g = 0; g < s.groups; ++g) {
                T *const to = output.Data<T>() + (first * s.out_channels + g * channels) * pixels;
                RunProduct({.m = channels,
                            .n = pixels,
                            .k = taps,
                            .a_layout = ByRows(taps),
                            .b_layout = ByRows(pixels),
                            .a = reinterpret_cast<const char *>(weight.Data<T>() + g * channels * taps),
                            .b = reinterpret_cast<const char *>(columns + g * taps * pixels),
                            .c = reinterpret_cast<char *>(to),
                            .batch = images,
                            .stride_a = 0,
                            .stride_b = Taps(s) * pixels,
                            .stride_c = s.out_channels * pixels,
                            .dtype = output.dtype,
                            .adds = adds});
            }
        });
    });
}

void RunBackwardInput(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef weight, const Conv2dShape &s) {
    if (grad_input.num_elements == 0) {
        return;
    }
    const int64_t pixels = Pixels(s), taps = Taps(s) / s.groups, channels = s.out_channels / s.groups;
    const int64_t size = Taps(s) * pixels;
    VisitFloating("Conv2dBackwardInput", grad_input.dtype, [&]<typename T>(std::type_identity<T>) {
        using C = Accumulate<T>;
        const int64_t at_once = ImagesAtOnce(s, size * static_cast<int64_t>(sizeof(C)));
        const Scratch columns(static_cast<size_t>(at_once * size) * sizeof(C));
        for (int64_t first = 0; first < s.batch; first += at_once) {
            const int64_t images = std::min(at_once, s.batch - first);
            for (int64_t g = 0; g < s.groups; ++g) {
                const T *const from = grad_output.Data<T>() + (first * s.out_channels + g * channels) * pixels;
                RunProduct({.m = taps,
                            .n = pixels,
                            .k = channels,
                            .a_layout = ByRows(taps, /*transposed=*/true),
                            .b_layout = ByRows(pixels),
                            .a = reinterpret_cast<const char *>(weight.Data<T>() + g * channels * taps),
                            .b = reinterpret_cast<const char *>(from),
                            .c = reinterpret_cast<char *>(columns.As<C>() + g * taps * pixels),
                            .batch = images,
                            .stride_a = 0,
                            .stride_b = s.out_channels * pixels,
                            .stride_c = size,
                            .dtype = grad_input.dtype,
                            .output_dtype = std::is_same_v<C, double> ? DataType::kFLOAT64 : DataType::kFLOAT32});
            }
            const int64_t count = images * InputSize(s);
            Launch("Conv2dBackwardInput", {GridFor(count)}, FoldKernel<T>, grad_input.Data<T>() + first * InputSize(s),
                   static_cast<const C *>(columns.As<C>()), s, count);
        }
    });
}

// Adds up `count` gradients of all weights, in order.
template <typename C>
void AddParts(void *sum, DataType sum_dtype, const C *parts, DataType dtype, int64_t count, int64_t weights) {
    const int64_t dims[2] = {count, weights}, strides[2] = {weights, 1}, sum_dims[2] = {1, weights};
    RunReduction("Conv2dBackwardWeight", {sum, sum_dims, strides, 2, sum_dtype, weights, true},
                 {parts, dims, strides, 2, dtype, count * weights, true}, SumReduction<C>{});
}

// Each image's part on its own, then their sum, in the order of the images: those of earlier rounds come first.
template <typename T>
void BackwardWeight(const TensorRef &grad_weight, const ConstTensorRef &grad_output, const ConstTensorRef &input,
                    const Conv2dShape &s) {
    using C = Accumulate<T>;
    const char *const name = "Conv2dBackwardWeight";
    const DataType dtype = std::is_same_v<C, double> ? DataType::kFLOAT64 : DataType::kFLOAT32;
    const int64_t pixels = Pixels(s), taps = Taps(s) / s.groups, channels = s.out_channels / s.groups;
    const int64_t weights = grad_weight.num_elements;
    const int64_t size = IsPointwise(s) ? 0 : Taps(s) * pixels * static_cast<int64_t>(sizeof(T));
    const int64_t at_once = ImagesAtOnce(s, size + weights * static_cast<int64_t>(sizeof(C)));
    // The sum so far, and behind it a part for each image of a round.
    const size_t part_bytes = static_cast<size_t>(weights) * sizeof(C);
    const Scratch parts(static_cast<size_t>(at_once + 1) * part_bytes), sum(at_once < s.batch ? part_bytes : 0);
    WithColumns<T>(name, input, s, at_once, [&](int64_t first, int64_t images, const T *columns) {
        for (int64_t g = 0; g < s.groups; ++g) {
            const T *const from = grad_output.Data<T>() + (first * s.out_channels + g * channels) * pixels;
            RunProduct({.m = channels,
                        .n = taps,
                        .k = pixels,
                        .a_layout = ByRows(pixels),
                        .b_layout = ByRows(pixels, /*transposed=*/true),
                        .a = reinterpret_cast<const char *>(from),
                        .b = reinterpret_cast<const char *>(columns + g * taps * pixels),
                        .c = reinterpret_cast<char *>(parts.As<C>() + weights + g * channels * taps),
                        .batch = images,
                        .stride_a = s.out_channels * pixels,
                        .stride_b = Taps(s) * pixels,
                        .stride_c = weights,
                        .dtype = grad_output.dtype,
                        .output_dtype = dtype});
        }
        const bool is_first = first == 0, is_last = first + images == s.batch;
        const C *const from = is_first ? parts.As<C>() + weights : parts.As<C>();
        const int64_t count = is_first ? images : images + 1;
        if (is_last) {
            AddParts(grad_weight.data, grad_weight.dtype, from, dtype, count, weights);
            return;
        }
        AddParts(sum.data(), dtype, from, dtype, count, weights);
        CheckCuda(cudaMemcpyAsync(parts.data(), sum.data(), part_bytes, cudaMemcpyDeviceToDevice, CurrentStream()),
                  "Conv2dBackwardWeight: cudaMemcpyAsync");
    });
}

void RunBackwardWeight(TensorRef grad_weight, ConstTensorRef grad_output, ConstTensorRef input, const Conv2dShape &s) {
    if (grad_weight.num_elements == 0) {
        return;
    }
    if (s.batch == 0 || grad_output.num_elements == 0) {
        const size_t bytes = static_cast<size_t>(grad_weight.num_elements) * SizeOf(grad_weight.dtype);
        CheckCuda(cudaMemsetAsync(grad_weight.data, 0, bytes, CurrentStream()),
                  "Conv2dBackwardWeight: cudaMemsetAsync");
        return;
    }
    VisitFloating("Conv2dBackwardWeight", grad_weight.dtype,
                  [&]<typename T>(std::type_identity<T>) { BackwardWeight<T>(grad_weight, grad_output, input, s); });
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterConvCuda() {
    RegisterKernel<Conv2dForward>(DeviceType::kCUDA, &cuda::RunForward);
    RegisterKernel<Conv2dBackwardInput>(DeviceType::kCUDA, &cuda::RunBackwardInput);
    RegisterKernel<Conv2dBackwardWeight>(DeviceType::kCUDA, &cuda::RunBackwardWeight);
}

}  // namespace infini_train::kernels
