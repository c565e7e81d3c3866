// Norms, scaling and clamping of all gradients of a model.

#include "infini_train/src/kernels/clip_grad.h"
#include "infini_train/src/kernels/cuda/math.cuh"
#include "infini_train/src/kernels/cuda/multi_tensor.cuh"
#include "infini_train/src/kernels/cuda/reduce.cuh"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

using kernels::FlatGrad;
using kernels::GradNormKind;

__device__ __forceinline__ double Combine(double a, double b, GradNormKind kind) {
    return kind == GradNormKind::kMaxAbs ? MaxOp()(a, b) : a + b;
}

struct CombineOp {
    GradNormKind kind;
    __device__ __forceinline__ double operator()(double a, double b) const { return Combine(a, b, kind); }
};

template <typename C>
__device__ __forceinline__ double Part(const FlatGrad &grad, int64_t begin, int64_t end, GradNormKind kind) {
    double part = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += kBlock) {
        const double magnitude = Abs(static_cast<double>(LoadFloat<C>(grad.data, grad.dtype, i)));
        part = Combine(part, kind == GradNormKind::kSumOfSquares ? magnitude * magnitude : magnitude, kind);
    }
    return part;
}

// parts[block] of the block's piece.
__global__ void __launch_bounds__(kBlock) NormKernel(Chunk<FlatGrad> chunk, GradNormKind kind, double *parts) {
    double mine = 0;
    ForPiece(chunk, [&](const FlatGrad &grad, int64_t begin, int64_t end) {
        const double part = grad.dtype == DataType::kFLOAT64 ? Part<double>(grad, begin, end, kind)
                                                             : Part<float>(grad, begin, end, kind);
        mine = Combine(mine, part, kind);
    });
    mine = BlockReduce(mine, CombineOp{kind}, 0.0);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = mine;
    }
}

__global__ void __launch_bounds__(kBlock)
    CombineKernel(const double *parts, int64_t count, GradNormKind kind, double *result) {
    double mine = 0;
    for (int64_t i = threadIdx.x; i < count; i += kBlock) {
        mine = Combine(mine, parts[i], kind);
    }
    mine = BlockReduce(mine, CombineOp{kind}, 0.0);
    if (threadIdx.x == 0) {
        *result = mine;
    }
}

double GradNormKernel(std::span<const FlatGrad> grads, GradNormKind kind) {
    if (grads.empty()) {
        return 0;
    }
    int64_t count = 0;
    ForChunks(grads, [&](const Chunk<FlatGrad> &, unsigned pieces) { count += pieces; });
    const Scratch scratch((static_cast<size_t>(count) + 1) * sizeof(double));
    double *const result = scratch.As<double>();
    double *const parts = result + 1;
    int64_t done = 0;
    ForChunks(grads, [&](const Chunk<FlatGrad> &chunk, unsigned pieces) {
        Launch("GradNorm", {pieces}, NormKernel, chunk, kind, parts + done);
        done += pieces;
    });
    Launch("GradNorm", {1}, CombineKernel, parts, count, kind, result);
    return ReadBack(result);
}

struct Scale {
    double factor;
    template <typename C>
    __device__ __forceinline__ C operator()(C value) const {
        return value * static_cast<C>(factor);
    }
};
struct Clamp {
    double limit;
    template <typename C>
    __device__ __forceinline__ C operator()(C value) const {
        const C most = static_cast<C>(limit);
        const C below = value > most ? most : value;
        return below < -most ? -most : below;
    }
};

template <typename C, typename Change>
__device__ __forceinline__ void ChangeRange(const FlatGrad &grad, int64_t begin, int64_t end, Change change) {
    for (int64_t i = begin + threadIdx.x; i < end; i += kBlock) {
        StoreFloat<C>(grad.data, grad.dtype, i, change(LoadFloat<C>(grad.data, grad.dtype, i)));
    }
}

template <typename Change>
__global__ void __launch_bounds__(kBlock) ChangeKernel(Chunk<FlatGrad> chunk, Change change) {
    ForPiece(chunk, [&](const FlatGrad &grad, int64_t begin, int64_t end) {
        if (grad.dtype == DataType::kFLOAT64) {
            ChangeRange<double>(grad, begin, end, change);
        } else {
            ChangeRange<float>(grad, begin, end, change);
        }
    });
}

void ScaleGradsKernel(std::span<const FlatGrad> grads, double factor) {
    ForChunks(grads, [&](const Chunk<FlatGrad> &chunk, unsigned pieces) {
        Launch("ScaleGrads", {pieces}, ChangeKernel<Scale>, chunk, Scale{factor});
    });
}
void ClampGradsKernel(std::span<const FlatGrad> grads, double limit) {
    ForChunks(grads, [&](const Chunk<FlatGrad> &chunk, unsigned pieces) {
        Launch("ClampGrads", {pieces}, ChangeKernel<Clamp>, chunk, Clamp{limit});
    });
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterClipGradCuda() {
    RegisterKernel<GradNorm>(DeviceType::kCUDA, &cuda::GradNormKernel);
    RegisterKernel<ScaleGrads>(DeviceType::kCUDA, &cuda::ScaleGradsKernel);
    RegisterKernel<ClampGrads>(DeviceType::kCUDA, &cuda::ClampGradsKernel);
}

}  // namespace infini_train::kernels
