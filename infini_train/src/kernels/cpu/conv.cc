#include "infini_train/src/kernels/cpu/conv.h"

#include <algorithm>
#include <functional>
#include <type_traits>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/dtype_dispatch.h"

#include "infini_train/src/kernels/cpu/scratch.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cpu {
namespace {

// 16-bit images are converted so many at a time.
constexpr int64_t kConvertedImages = 16;
constexpr int64_t kConvertGrain = 32768;

// A kernel of one pixel that moves by one: the image's shape doesn't matter, so it becomes one long row.
kernels::Conv2dShape Simplified(const kernels::Conv2dShape &shape) {
    kernels::Conv2dShape s = shape;
    if (s.kernel_height == 1 && s.kernel_width == 1 && s.stride_height == 1 && s.stride_width == 1 &&
        s.padding_height == 0 && s.padding_width == 0) {
        s.in_width = s.out_width = s.in_height * s.in_width;
        s.in_height = s.out_height = 1;
    }
    return s;
}

template <typename From, typename To>
void Convert(const From *from, int64_t n, To *to) {
    ParallelFor(0, n, kConvertGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            to[i] = static_cast<To>(static_cast<float>(from[i]));
        }
    });
}

// Calls `run(shape, first image)` for groups of images.
template <typename Run>
void InGroups(const kernels::Conv2dShape &shape, Run run) {
    kernels::Conv2dShape s = shape;
    for (int64_t n = 0; n < shape.batch; n += kConvertedImages) {
        s.batch = std::min(kConvertedImages, shape.batch - n);
        run(s, n);
    }
}

// A tensor in float.
template <typename T>
class InFloat {
public:
    InFloat(const T *data, int64_t elements) : scratch_(elements) { Convert(data, elements, scratch_.data()); }
    const float *data() const { return scratch_.data(); }

private:
    const Scratch<float> scratch_;
};

int64_t InputSize(const kernels::Conv2dShape &s) {
    return s.in_channels * s.in_height * s.in_width;
}
int64_t OutputSize(const kernels::Conv2dShape &s) {
    return s.out_channels * s.out_height * s.out_width;
}

template <typename T>
void Forward(const kernels::Conv2dShape &shape, const T *input, const T *weight, int64_t weight_size, const T *bias,
             T *output) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        Conv2dForward(shape, input, weight, bias, output);
    } else {
        const InFloat<T> w(weight, weight_size), b(bias, bias == nullptr ? 0 : shape.out_channels);
        const Scratch<float> y(std::min(kConvertedImages, shape.batch) * OutputSize(shape));
        InGroups(shape, [&](const kernels::Conv2dShape &s, int64_t n) {
            const InFloat<T> x(input + n * InputSize(s), s.batch * InputSize(s));
            Conv2dForward(s, x.data(), w.data(), bias == nullptr ? nullptr : b.data(), y.data());
            Convert(y.data(), s.batch * OutputSize(s), output + n * OutputSize(s));
        });
    }
}

template <typename T>
void BackwardInput(const kernels::Conv2dShape &shape, const T *grad_output, const T *weight, int64_t weight_size,
                   T *grad_input) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        Conv2dBackwardInput(shape, grad_output, weight, grad_input);
    } else {
        const InFloat<T> w(weight, weight_size);
        const Scratch<float> x(std::min(kConvertedImages, shape.batch) * InputSize(shape));
        InGroups(shape, [&](const kernels::Conv2dShape &s, int64_t n) {
            const InFloat<T> y(grad_output + n * OutputSize(s), s.batch * OutputSize(s));
            Conv2dBackwardInput(s, y.data(), w.data(), x.data());
            Convert(x.data(), s.batch * InputSize(s), grad_input + n * InputSize(s));
        });
    }
}

template <typename T>
void BackwardWeight(const kernels::Conv2dShape &shape, const T *grad_output, const T *input, T *grad_weight,
                    int64_t weight_size) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        Conv2dBackwardWeight(shape, grad_output, input, grad_weight);
    } else {
        const Scratch<float> sum(weight_size), part(weight_size);
        std::fill_n(sum.data(), weight_size, 0.0F);
        InGroups(shape, [&](const kernels::Conv2dShape &s, int64_t n) {
            const InFloat<T> x(input + n * InputSize(s), s.batch * InputSize(s));
            const InFloat<T> y(grad_output + n * OutputSize(s), s.batch * OutputSize(s));
            Conv2dBackwardWeight(s, y.data(), x.data(), part.data());
            std::transform(sum.data(), sum.data() + weight_size, part.data(), sum.data(), std::plus<>());
        });
        Convert(sum.data(), weight_size, grad_weight);
    }
}

void ForwardKernel(TensorRef output, ConstTensorRef input, ConstTensorRef weight, ConstTensorRef bias,
                   const kernels::Conv2dShape &shape) {
    DispatchFloatingDtype(output.dtype, kernels::Conv2dForward::kName, [&]<typename T>() {
        Forward(Simplified(shape), input.Data<T>(), weight.Data<T>(), weight.num_elements, bias.Data<T>(),
                output.Data<T>());
    });
}

void BackwardInputKernel(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef weight,
                         const kernels::Conv2dShape &shape) {
    DispatchFloatingDtype(grad_input.dtype, kernels::Conv2dBackwardInput::kName, [&]<typename T>() {
        BackwardInput(Simplified(shape), grad_output.Data<T>(), weight.Data<T>(), weight.num_elements,
                      grad_input.Data<T>());
    });
}

void BackwardWeightKernel(TensorRef grad_weight, ConstTensorRef grad_output, ConstTensorRef input,
                          const kernels::Conv2dShape &shape) {
    DispatchFloatingDtype(grad_weight.dtype, kernels::Conv2dBackwardWeight::kName, [&]<typename T>() {
        BackwardWeight(Simplified(shape), grad_output.Data<T>(), input.Data<T>(), grad_weight.Data<T>(),
                       grad_weight.num_elements);
    });
}

}  // namespace
}  // namespace infini_train::cpu

namespace infini_train::kernels {

void RegisterConvCpu() {
    RegisterKernel<Conv2dForward>(DeviceType::kCPU, &cpu::ForwardKernel);
    RegisterKernel<Conv2dBackwardInput>(DeviceType::kCPU, &cpu::BackwardInputKernel);
    RegisterKernel<Conv2dBackwardWeight>(DeviceType::kCPU, &cpu::BackwardWeightKernel);
}

}  // namespace infini_train::kernels
