#include "infini_train/src/kernels/swiglu.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"
#include "infini_train/src/kernels/float_math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/swiglu.cc"
#include <algorithm>
#include <array>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/independent_loop.h"
#include "infini_train/src/kernels/cpu/row_access.h"
#include "infini_train/src/kernels/cpu/rows.h"
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

// Elements worth a thread.
inline constexpr int64_t kGatedGrain = 8192;

/// Calls `body(offsets, count)` for at most kChunk elements of a row at a time; strides[k] is operand k's.
template <size_t N, class F>
void ForEachPiece(const ConstTensorRef &like, const std::array<const int64_t *, N> &strides, const F &body) {
    ParallelFor(0, like.num_elements, kGatedGrain, [&](int64_t begin, int64_t end) HWY_ATTR {
        ForEachRow<N>(like.Dims(), strides, begin, end,
                      [&](const std::array<int64_t, N> &start, int64_t count) HWY_ATTR {
                          for (int64_t done = 0; done < count; done += kChunk) {
                              std::array<int64_t, N> offsets = start;
                              for (size_t k = 0; k < N && like.ndim > 0; ++k) {
                                  offsets[k] += done * strides[k][like.ndim - 1];
                              }
                              body(offsets, std::min(kChunk, count - done));
                          }
                      });
    });
}

inline int64_t LastStride(const ConstTensorRef &x) {
    return x.ndim > 0 ? x.strides[x.ndim - 1] : 1;
}

template <typename C>
void SwiGluRow(int64_t n, const C *HWY_RESTRICT gate, const C *HWY_RESTRICT up, C *HWY_RESTRICT y) {
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
        y[i] = gate[i] * math::Gate(gate[i]) * up[i];
    }
}

// With s the sigmoid of the gate x: silu = x s, whose derivative is s (1 + x (1 - s)).
template <typename C>
void SwiGluBackwardRow(int64_t n, const C *HWY_RESTRICT grad, const C *HWY_RESTRICT gate, const C *HWY_RESTRICT up,
                       C *HWY_RESTRICT grad_gate, C *HWY_RESTRICT grad_up) {
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
        const C x = gate[i];
        const C s = math::Gate(x);
        const C g = grad[i];
        grad_gate[i] = g * up[i] * (s * (C{1} + x * (C{1} - s)));
        grad_up[i] = g * (x * s);
    }
}

template <typename C>
void ForwardOf(const TensorRef &y, const ConstTensorRef &gate, const ConstTensorRef &up) {
    const Reader<C> x(gate.data, gate.dtype), u(up.data, up.dtype);
    const Writer<C> out(y.data, y.dtype);
    ForEachPiece<3>(gate, {y.strides, gate.strides, up.strides}, [&](const auto &at, int64_t count) HWY_ATTR {
        HWY_ALIGN C a[kChunk], b[kChunk], c[kChunk];
        SwiGluRow(count, x.Read(at[1], LastStride(gate), count, a), u.Read(at[2], LastStride(up), count, b), c);
        out.Write(at[0], LastStride(y), count, c);
    });
}

template <typename C>
void BackwardOf(const TensorRef &grad_gate, const TensorRef &grad_up, const ConstTensorRef &grad_y,
                const ConstTensorRef &gate, const ConstTensorRef &up) {
    const Reader<C> g(grad_y.data, grad_y.dtype), x(gate.data, gate.dtype), u(up.data, up.dtype);
    const Writer<C> dx(grad_gate.data, grad_gate.dtype), du(grad_up.data, grad_up.dtype);
    ForEachPiece<5>(gate, {grad_gate.strides, grad_up.strides, grad_y.strides, gate.strides, up.strides},
                    [&](const auto &at, int64_t count) HWY_ATTR {
                        HWY_ALIGN C a[kChunk], b[kChunk], c[kChunk], d[kChunk], e[kChunk];
                        SwiGluBackwardRow(count, g.Read(at[2], LastStride(grad_y), count, a),
                                          x.Read(at[3], LastStride(gate), count, b),
                                          u.Read(at[4], LastStride(up), count, c), d, e);
                        dx.Write(at[0], LastStride(grad_gate), count, d);
                        du.Write(at[1], LastStride(grad_up), count, e);
                    });
}

void SwiGluForwardAny(const TensorRef &y, const ConstTensorRef &gate, const ConstTensorRef &up) {
    y.dtype == DataType::kFLOAT64 ? ForwardOf<double>(y, gate, up) : ForwardOf<float>(y, gate, up);
}

void SwiGluBackwardAny(const TensorRef &grad_gate, const TensorRef &grad_up, const ConstTensorRef &grad_y,
                       const ConstTensorRef &gate, const ConstTensorRef &up) {
    gate.dtype == DataType::kFLOAT64 ? BackwardOf<double>(grad_gate, grad_up, grad_y, gate, up)
                                     : BackwardOf<float>(grad_gate, grad_up, grad_y, gate, up);
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

HWY_EXPORT(SwiGluForwardAny);
HWY_EXPORT(SwiGluBackwardAny);

void SwiGluForwardKernel(TensorRef y, ConstTensorRef gate, ConstTensorRef up) {
    HWY_DYNAMIC_DISPATCH(SwiGluForwardAny)(y, gate, up);
}

void SwiGluBackwardKernel(TensorRef grad_gate, TensorRef grad_up, ConstTensorRef grad_y, ConstTensorRef gate,
                          ConstTensorRef up) {
    HWY_DYNAMIC_DISPATCH(SwiGluBackwardAny)(grad_gate, grad_up, grad_y, gate, up);
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterSwiGluCpu() {
    RegisterKernel<SwiGluForward>(DeviceType::kCPU, &cpu::SwiGluForwardKernel);
    RegisterKernel<SwiGluBackward>(DeviceType::kCPU, &cpu::SwiGluBackwardKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
