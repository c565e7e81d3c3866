#include "infini_train/src/kernels/softmax.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/softmax.cc"
#include <algorithm>
#include <cmath>
#include <vector>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/row_access.h"
#include "infini_train/src/kernels/cpu/row_math.h"
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

// A tensor seen as (outer, n, inner), with the softmax along n.
struct SoftmaxShape {
    int64_t outer = 1, n = 1, inner = 1;

    SoftmaxShape(const ConstTensorRef &tensor, int dim) {
        for (int i = 0; i < tensor.ndim; ++i) {
            (i < dim ? outer : i == dim ? n : inner) *= tensor.dims[i];
        }
    }
    // So many rows are worth a thread: an exponential each element.
    int64_t RowGrain() const { return std::max<int64_t>(1, 8192 / n); }
};

// Columns are done this many at a time.
inline constexpr int64_t kTile = 256;

/// Calls row(scratch, offset of the row); `scratch` has room for `rows` rows where elements are converted.
template <typename C, class F>
void ForEachSoftmaxRow(const SoftmaxShape &shape, bool direct, int64_t rows, const F &row) {
    ParallelFor(0, shape.outer, shape.RowGrain(), [&](int64_t begin, int64_t end) HWY_ATTR {
        std::vector<C> scratch(direct ? 0 : static_cast<size_t>(rows * shape.n));
        for (int64_t i = begin; i < end; ++i) {
            row(scratch.data(), i * shape.n);
        }
    });
}

/// Calls tile(offset, width) for up to kTile columns that begin at the offset.
template <class F>
void ForEachSoftmaxTile(const SoftmaxShape &shape, const F &tile) {
    const int64_t tiles = (shape.inner + kTile - 1) / kTile;
    const int64_t work = shape.n * std::min(shape.inner, kTile);
    ParallelFor(0, shape.outer * tiles, std::max<int64_t>(1, 8192 / work), [&](int64_t begin, int64_t end) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i % tiles * kTile;
            tile(i / tiles * shape.n * shape.inner + first, std::min(kTile, shape.inner - first));
        }
    });
}

template <typename C, bool kLog>
HWY_INLINE void SoftmaxRow(const C *x, C *y, int64_t n) {
    const hn::ScalableTag<C> d;
    const C max = MaxOfRow(n, x);
    const auto vmax = hn::Set(d, max);
    if constexpr (kLog) {
        const double sum = SumRow(n, x, [&](auto v) HWY_ATTR { return Exp(d, hn::Sub(v, vmax)); });
        const auto log_sum = hn::Set(d, static_cast<C>(std::log(sum)));
        MapRow(n, x, y, [&](auto v) HWY_ATTR { return hn::Sub(hn::Sub(v, vmax), log_sum); });
    } else {
        const double sum = SumVectors<C>(
            n,
            [&](int64_t i) HWY_ATTR {
                const auto e = Exp(d, hn::Sub(hn::LoadU(d, x + i), vmax));
                hn::StoreU(e, d, y + i);
                return e;
            },
            [&](int64_t i, int64_t count) HWY_ATTR {
                const auto e = Exp(d, hn::Sub(LoadFirst(d, x + i, count, C{0}), vmax));
                StoreFirst(d, e, y + i, count);
                return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), e);
            });
        const auto scale = hn::Set(d, static_cast<C>(1.0 / sum));
        MapRow(n, y, y, [&](auto v) HWY_ATTR { return hn::Mul(v, scale); });
    }
}

template <typename C, bool kLog>
void SoftmaxTile(const Reader<C> &in, const Writer<C> &out, const SoftmaxShape &shape, int64_t offset, int64_t width) {
    const hn::ScalableTag<C> d;
    const int64_t n = shape.n;
    C max[kTile], sum[kTile], shifted[kTile], buffer[kTile];
    std::fill(max, max + width, -std::numeric_limits<C>::infinity());
    std::fill(sum, sum + width, C{0});
    for (int64_t r = 0; r < n; ++r) {
        const C *x = in.Read(offset + r * shape.inner, width, buffer);
        MapRows(width, max, x, max, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
    }
    for (int64_t r = 0; r < n; ++r) {
        const C *x = in.Read(offset + r * shape.inner, width, buffer);
        MapRows(width, x, max, shifted, [&](auto a, auto b) HWY_ATTR { return Exp(d, hn::Sub(a, b)); });
        MapRows(width, shifted, sum, sum, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    }
    for (int64_t i = 0; i < width; ++i) {
        sum[i] = kLog ? std::log(sum[i]) : 1 / sum[i];
    }
    for (int64_t r = 0; r < n; ++r) {
        const int64_t at = offset + r * shape.inner;
        const C *x = in.Read(at, width, buffer);
        C *y = out.Begin(at, buffer);
        MapRows(width, x, max, shifted, [](auto a, auto b) HWY_ATTR { return hn::Sub(a, b); });
        MapRows(width, shifted, sum, y, [&](auto a, auto b) HWY_ATTR {
            if constexpr (kLog) {
                return hn::Sub(a, b);
            } else {
                return hn::Mul(Exp(d, a), b);
            }
        });
        out.Commit(at, width, y);
    }
}

template <typename C, bool kLog>
void Forward(const TensorRef &output, const ConstTensorRef &input, int dim) {
    const SoftmaxShape shape(input, dim);
    const Reader<C> in(input.data, input.dtype);
    const Writer<C> out(output.data, output.dtype);
    if (shape.inner == 1) {
        ForEachSoftmaxRow<C>(shape, in.direct(), 1, [&](C *scratch, int64_t offset) HWY_ATTR {
            const C *x = in.Read(offset, shape.n, scratch);
            C *y = out.Begin(offset, scratch);
            SoftmaxRow<C, kLog>(x, y, shape.n);
            out.Commit(offset, shape.n, y);
        });
    } else {
        ForEachSoftmaxTile(shape, [&](int64_t offset, int64_t width)
                                      HWY_ATTR { SoftmaxTile<C, kLog>(in, out, shape, offset, width); });
    }
}

template <typename C, bool kLog>
HWY_INLINE void BackwardRow(const C *dy, const C *y, C *dx, int64_t n) {
    const hn::ScalableTag<C> d;
    if constexpr (kLog) {
        const auto sum = hn::Set(d, static_cast<C>(SumRow(n, dy, [](auto g) HWY_ATTR { return g; })));
        MapRows(n, dy, y, dx, [&](auto g, auto v) HWY_ATTR { return hn::NegMulAdd(Exp(d, v), sum, g); });
    } else {
        const auto dot =
            hn::Set(d, static_cast<C>(SumRows(n, dy, y, [](auto g, auto v) HWY_ATTR { return hn::Mul(g, v); })));
        MapRows(n, dy, y, dx, [&](auto g, auto v) HWY_ATTR { return hn::Mul(v, hn::Sub(g, dot)); });
    }
}

template <typename C, bool kLog>
void BackwardTile(const Reader<C> &dy, const Reader<C> &y, const Writer<C> &dx, const SoftmaxShape &shape,
                  int64_t offset, int64_t width) {
    const hn::ScalableTag<C> d;
    C sum[kTile], term[kTile], buffers[2][kTile];
    std::fill(sum, sum + width, C{0});
    for (int64_t r = 0; r < shape.n; ++r) {
        const int64_t at = offset + r * shape.inner;
        const C *g = dy.Read(at, width, buffers[0]);
        if constexpr (!kLog) {
            MapRows(width, g, y.Read(at, width, buffers[1]), term,
                    [](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); });
            g = term;
        }
        MapRows(width, g, sum, sum, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    }
    for (int64_t r = 0; r < shape.n; ++r) {
        const int64_t at = offset + r * shape.inner;
        const C *g = dy.Read(at, width, buffers[0]);
        const C *v = y.Read(at, width, buffers[1]);
        C *to = dx.Begin(at, buffers[0]);
        if constexpr (kLog) {
            MapRows(width, v, sum, term, [&](auto a, auto b) HWY_ATTR { return hn::Mul(Exp(d, a), b); });
            MapRows(width, g, term, to, [](auto a, auto b) HWY_ATTR { return hn::Sub(a, b); });
        } else {
            MapRows(width, g, sum, term, [](auto a, auto b) HWY_ATTR { return hn::Sub(a, b); });
            MapRows(width, v, term, to, [](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); });
        }
        dx.Commit(at, width, to);
    }
}

template <typename C, bool kLog>
void Backward(const TensorRef &grad_input, const ConstTensorRef &grad_output, const ConstTensorRef &output, int dim) {
    const SoftmaxShape shape(output, dim);
    const Reader<C> dy(grad_output.data, grad_output.dtype);
    const Reader<C> y(output.data, output.dtype);
    const Writer<C> dx(grad_input.data, grad_input.dtype);
    if (shape.inner == 1) {
        ForEachSoftmaxRow<C>(shape, y.direct(), 2, [&](C *scratch, int64_t offset) HWY_ATTR {
            const C *g = dy.Read(offset, shape.n, scratch);
            const C *v = y.Read(offset, shape.n, scratch + shape.n);
            C *to = dx.Begin(offset, scratch);
            BackwardRow<C, kLog>(g, v, to, shape.n);
            dx.Commit(offset, shape.n, to);
        });
    } else {
        ForEachSoftmaxTile(shape, [&](int64_t offset, int64_t width)
                                      HWY_ATTR { BackwardTile<C, kLog>(dy, y, dx, shape, offset, width); });
    }
}

void SoftmaxForwardAny(bool log, const TensorRef &output, const ConstTensorRef &input, int dim) {
    if (input.dtype == DataType::kFLOAT64) {
        log ? Forward<double, true>(output, input, dim) : Forward<double, false>(output, input, dim);
    } else {
        log ? Forward<float, true>(output, input, dim) : Forward<float, false>(output, input, dim);
    }
}

void SoftmaxBackwardAny(bool log, const TensorRef &dx, const ConstTensorRef &dy, const ConstTensorRef &y, int dim) {
    if (y.dtype == DataType::kFLOAT64) {
        log ? Backward<double, true>(dx, dy, y, dim) : Backward<double, false>(dx, dy, y, dim);
    } else {
        log ? Backward<float, true>(dx, dy, y, dim) : Backward<float, false>(dx, dy, y, dim);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

HWY_EXPORT(SoftmaxForwardAny);
HWY_EXPORT(SoftmaxBackwardAny);

template <bool kLog>
void ForwardKernel(TensorRef output, ConstTensorRef input, int dim) {
    if (output.num_elements > 0) {
        HWY_DYNAMIC_DISPATCH(SoftmaxForwardAny)(kLog, output, input, dim);
    }
}

template <bool kLog>
void BackwardKernel(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef output, int dim) {
    if (output.num_elements > 0) {
        HWY_DYNAMIC_DISPATCH(SoftmaxBackwardAny)(kLog, grad_input, grad_output, output, dim);
    }
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterSoftmaxCpu() {
    RegisterKernel<SoftmaxForward>(DeviceType::kCPU, &cpu::ForwardKernel<false>);
    RegisterKernel<SoftmaxBackward>(DeviceType::kCPU, &cpu::BackwardKernel<false>);
    RegisterKernel<LogSoftmaxForward>(DeviceType::kCPU, &cpu::ForwardKernel<true>);
    RegisterKernel<LogSoftmaxBackward>(DeviceType::kCPU, &cpu::BackwardKernel<true>);
}

}  // namespace kernels
}  // namespace infini_train
#endif
