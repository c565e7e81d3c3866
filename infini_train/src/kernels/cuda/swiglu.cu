// The gated unit of LLaMA's blocks, silu(gate) * up.

#include "infini_train/src/kernels/cuda/elementwise.cuh"
#include "infini_train/src/kernels/float_math.h"
#include "infini_train/src/kernels/registry.h"
#include "infini_train/src/kernels/swiglu.h"

namespace infini_train::cuda {
namespace {

struct Forward {
    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[2][kLength], C (&out)[kLength]) const {
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            out[i] = in[0][i] * math::Gate(in[0][i]) * in[1][i];
        }
    }
};

// With s the sigmoid of the gate x: silu = x s, whose derivative is s (1 + x (1 - s)). Of gradient, gate and up.
struct GateBackward {
    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[3][kLength], C (&out)[kLength]) const {
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            const C x = in[1][i], s = math::Gate(x);
            out[i] = in[0][i] * in[2][i] * (s * (C{1} + x * (C{1} - s)));
        }
    }
};
// Of gradient and gate.
struct UpBackward {
    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[2][kLength], C (&out)[kLength]) const {
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            out[i] = in[0][i] * (in[1][i] * math::Gate(in[1][i]));
        }
    }
};

template <typename C>
void ForwardOf(const TensorRef &y, const ConstTensorRef &gate, const ConstTensorRef &up) {
    const ElementwiseInput<C> inputs[] = {gate, up};
    RunElementwise("SwiGluForward", y, inputs, Forward());
}

template <typename C>
void BackwardOf(const TensorRef &grad_gate, const TensorRef &grad_up, const ConstTensorRef &grad_y,
                const ConstTensorRef &gate, const ConstTensorRef &up) {
    const ElementwiseInput<C> of_gate[] = {grad_y, gate, up};
    RunElementwise("SwiGluBackward", grad_gate, of_gate, GateBackward());
    const ElementwiseInput<C> of_up[] = {grad_y, gate};
    RunElementwise("SwiGluBackward", grad_up, of_up, UpBackward());
}

void RunForward(TensorRef y, ConstTensorRef gate, ConstTensorRef up) {
    y.dtype == DataType::kFLOAT64 ? ForwardOf<double>(y, gate, up) : ForwardOf<float>(y, gate, up);
}
void RunBackward(TensorRef grad_gate, TensorRef grad_up, ConstTensorRef grad_y, ConstTensorRef gate,
                 ConstTensorRef up) {
    gate.dtype == DataType::kFLOAT64 ? BackwardOf<double>(grad_gate, grad_up, grad_y, gate, up)
                                     : BackwardOf<float>(grad_gate, grad_up, grad_y, gate, up);
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterSwiGluCuda() {
    RegisterKernel<SwiGluForward>(DeviceType::kCUDA, &cuda::RunForward);
    RegisterKernel<SwiGluBackward>(DeviceType::kCUDA, &cuda::RunBackward);
}

}  // namespace infini_train::kernels
