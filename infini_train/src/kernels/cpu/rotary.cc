#include "infini_train/src/kernels/rotary.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/rotary.cc"
#include <algorithm>
#include <array>
#include <vector>

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

namespace hn = hwy::HWY_NAMESPACE;

template <typename C>
void TurnHalves(int64_t pairs, const C *HWY_RESTRICT x, const C *HWY_RESTRICT cos, const C *HWY_RESTRICT sin, C sign,
                C *HWY_RESTRICT y) {
    const C *HWY_RESTRICT other = x + pairs;
    C *HWY_RESTRICT other_y = y + pairs;
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < pairs; ++i) {
        const C s = sign * sin[i];
        y[i] = x[i] * cos[i] - other[i] * s;
        other_y[i] = x[i] * s + other[i] * cos[i];
    }
}

template <typename C>
void TurnInterleaved(int64_t pairs, const C *HWY_RESTRICT x, const C *HWY_RESTRICT cos, const C *HWY_RESTRICT sin,
                     C sign, C *HWY_RESTRICT y) {
    int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= pairs; i += lanes) {
        auto a = hn::Zero(d), b = hn::Zero(d);
        hn::LoadInterleaved2(d, x + 2 * i, a, b);
        const auto c = hn::LoadU(d, cos + i);
        const auto s = hn::Mul(hn::LoadU(d, sin + i), hn::Set(d, sign));
        hn::StoreInterleaved2(hn::MulSub(a, c, hn::Mul(b, s)), hn::MulAdd(a, s, hn::Mul(b, c)), d, y + 2 * i);
    }
#endif
    for (; i < pairs; ++i) {
        const C s = sign * sin[i];
        y[2 * i] = x[2 * i] * cos[i] - x[2 * i + 1] * s;
        y[2 * i + 1] = x[2 * i] * s + x[2 * i + 1] * cos[i];
    }
}

template <typename C>
void RotaryOf(const TensorRef &y, const ConstTensorRef &x, const ConstTensorRef &cos, const ConstTensorRef &sin,
              bool interleaved, bool inverse) {
    const int64_t n = x.dims[x.ndim - 1], pairs = n / 2, length = x.dims[x.ndim - 2];
    const int64_t x_stride = x.strides[x.ndim - 1], y_stride = y.strides[y.ndim - 1];
    const int64_t x_row = x.strides[x.ndim - 2], y_row = y.strides[y.ndim - 2];
    const auto outer = x.Dims().first(static_cast<size_t>(x.ndim - 1));
    const Reader<C> in(x.data, x.dtype), cos_in(cos.data, cos.dtype), sin_in(sin.data, sin.dtype);
    const Writer<C> out(y.data, y.dtype);
    const auto turn = interleaved ? &TurnInterleaved<C> : &TurnHalves<C>;
    ParallelFor(0, x.num_elements / n, std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) HWY_ATTR {
        std::vector<C> from(static_cast<size_t>(n)), to(from.size()), c(static_cast<size_t>(pairs)), s(c.size());
        int64_t position = begin;
        ForEachRow<2>(outer, {x.strides, y.strides}, begin, end,
                      [&](const std::array<int64_t, 2> &at, int64_t count) HWY_ATTR {
                          for (int64_t i = 0; i < count; ++i, ++position) {
                              const int64_t t = position % length;
                              turn(pairs, in.Read(at[0] + i * x_row, x_stride, n, from.data()),
                                   cos_in.Read(t * pairs, pairs, c.data()), sin_in.Read(t * pairs, pairs, s.data()),
                                   inverse ? C{-1} : C{1}, to.data());
                              out.Write(at[1] + i * y_row, y_stride, n, to.data());
                          }
                      });
    });
}

void RotaryAny(const TensorRef &y, const ConstTensorRef &x, const ConstTensorRef &cos, const ConstTensorRef &sin,
               bool interleaved, bool inverse) {
    x.dtype == DataType::kFLOAT64 ? RotaryOf<double>(y, x, cos, sin, interleaved, inverse)
                                  : RotaryOf<float>(y, x, cos, sin, interleaved, inverse);
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

HWY_EXPORT(RotaryAny);

void RotaryKernel(TensorRef y, ConstTensorRef x, ConstTensorRef cos, ConstTensorRef sin, bool interleaved,
                  bool inverse) {
    if (x.num_elements > 0) {
        HWY_DYNAMIC_DISPATCH(RotaryAny)(y, x, cos, sin, interleaved, inverse);
    }
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterRotaryCpu() {
    RegisterKernel<Rotary>(DeviceType::kCPU, &cpu::RotaryKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
