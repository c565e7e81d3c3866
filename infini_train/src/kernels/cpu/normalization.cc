#include "infini_train/src/kernels/normalization.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/normalization.cc"
#include <algorithm>
#include <cmath>
#include <vector>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/row_access.h"
#include "infini_train/src/kernels/cpu/row_math.h"
#include "infini_train/src/kernels/cpu/scratch.h"
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

// Elements worth a thread.
inline constexpr int64_t kGrain = 16384;
// Gradients of weight and bias add up in C for this many rows, in double over more.
inline constexpr int64_t kBlockRows = 64;
// Rows are dealt out in at most this many groups of at least that many rows, whatever the number of threads.
inline constexpr int64_t kMaxGroups = 16;
inline constexpr int64_t kMinGroup = 16;

/// All n elements of an optional tensor, as C; null if it is absent. `storage` holds converted ones.
template <typename C>
const C *ReadAll(const ConstTensorRef &tensor, std::vector<C> *storage) {
    if (tensor.data == nullptr) {
        return nullptr;
    }
    const Reader<C> reader(tensor.data, tensor.dtype);
    storage->resize(reader.direct() ? 0 : static_cast<size_t>(tensor.num_elements));
    return reader.Read(0, tensor.num_elements, storage->data());
}

template <typename C>
HWY_INLINE void NormalizeRow(int64_t n, const C *x, C mean, C rstd, const C *weight, const C *bias, C *y) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto vmean = hn::Set(d, mean);
    const auto vrstd = hn::Set(d, rstd);
    const auto one = hn::Set(d, C{1});
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        const auto xhat = hn::Mul(hn::Sub(hn::LoadU(d, x + i), vmean), vrstd);
        const auto w = weight != nullptr ? hn::LoadU(d, weight + i) : one;
        const auto b = bias != nullptr ? hn::LoadU(d, bias + i) : hn::Zero(d);
        hn::StoreU(hn::MulAdd(xhat, w, b), d, y + i);
    }
    for (; i < n; ++i) {
        const C xhat = (x[i] - mean) * rstd;
        y[i] = xhat * (weight != nullptr ? weight[i] : C{1}) + (bias != nullptr ? bias[i] : C{0});
    }
}

template <typename C>
void Forward(const TensorRef &y, const TensorRef &mean, const TensorRef &rstd, const ConstTensorRef &x,
             const ConstTensorRef &weight, const ConstTensorRef &bias, double eps) {
    const hn::ScalableTag<C> d;
    const int64_t rows = rstd.num_elements;
    const int64_t n = x.num_elements / rows;
    std::vector<C> weight_storage, bias_storage;
    const C *w = ReadAll(weight, &weight_storage);
    const C *b = ReadAll(bias, &bias_storage);
    const Reader<C> in(x.data, x.dtype);
    const Writer<C> out(y.data, y.dtype);
    ParallelFor(0, rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) HWY_ATTR {
        std::vector<C> scratch(in.direct() ? 0 : static_cast<size_t>(n));
        for (int64_t r = begin; r < end; ++r) {
            const C *from = in.Read(r * n, n, scratch.data());
            C *to = out.Begin(r * n, scratch.data());
            C m{0};
            if (mean.data != nullptr) {
                const double sum = SumRow(n, from, [](auto v) HWY_ATTR { return v; });
                m = static_cast<C>(sum / static_cast<double>(n));
                mean.Data<C>()[r] = m;
            }
            const auto vm = hn::Set(d, m);
            const double squares = SumRow(n, from, [&](auto v) HWY_ATTR {
                const auto difference = hn::Sub(v, vm);
                return hn::Mul(difference, difference);
            });
            const auto s = static_cast<C>(1.0 / std::sqrt(squares / static_cast<double>(n) + eps));
            NormalizeRow(n, from, m, s, w, b, to);
            out.Commit(r * n, n, to);
            rstd.Data<C>()[r] = s;
        }
    });
}

/// Averages over a row of g = dy * weight and of g * xhat, all that dx needs to know of the other elements.
struct RowAverages {
    double g = 0, g_xhat = 0;
};

/// What the backward pass reads and writes; null where something is absent.
template <typename C>
struct BackwardTask {
    int64_t n;
    Reader<C> dy, x;
    Writer<C> dx;
    const C *weight, *mean, *rstd;

    HWY_INLINE C Mean(int64_t r) const { return mean != nullptr ? mean[r] : C{0}; }

    /// One pass for the averages of row r and, if wanted, its part of the gradients of weight and bias.
    template <bool kWeightGrads>
    HWY_INLINE RowAverages Collect(const C *HWY_RESTRICT g, const C *HWY_RESTRICT v, int64_t r, C *HWY_RESTRICT dw,
                                   C *HWY_RESTRICT db) const {
        const hn::ScalableTag<C> d;
        const auto lanes = static_cast<int64_t>(hn::Lanes(d));
        const C m = Mean(r);
        const auto vm = hn::Set(d, m);
        const auto vs = hn::Set(d, rstd[r]);
        const auto one = hn::Set(d, C{1});
        RowAverages sums;
        int64_t i = 0;
        while (i + lanes <= n) {
            const int64_t end = std::min(n, i + kChunk);
            auto sum = hn::Zero(d);
            auto dot = hn::Zero(d);
            for (; i + lanes <= end; i += lanes) {
                const auto vg = hn::LoadU(d, g + i);
                const auto xhat = hn::Mul(hn::Sub(hn::LoadU(d, v + i), vm), vs);
                const auto scaled = hn::Mul(vg, weight != nullptr ? hn::LoadU(d, weight + i) : one);
                sum = hn::Add(sum, scaled);
                dot = hn::MulAdd(scaled, xhat, dot);
                if constexpr (kWeightGrads) {
                    hn::StoreU(hn::MulAdd(vg, xhat, hn::LoadU(d, dw + i)), d, dw + i);
                    hn::StoreU(hn::Add(vg, hn::LoadU(d, db + i)), d, db + i);
                }
            }
            sums.g += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
            sums.g_xhat += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, dot)));
        }
        for (; i < n; ++i) {
            const C xhat = (v[i] - m) * rstd[r];
            const C scaled = g[i] * (weight != nullptr ? weight[i] : C{1});
            sums.g += static_cast<double>(scaled);
            sums.g_xhat += static_cast<double>(scaled * xhat);
            if constexpr (kWeightGrads) {
                dw[i] += g[i] * xhat;
                db[i] += g[i];
            }
        }
        return {sums.g / static_cast<double>(n), sums.g_xhat / static_cast<double>(n)};
    }

    /// dx = rstd * (g - average(g) - xhat * average(g * xhat)), without average(g) where there is no mean; `to` may be
    /// where g or x are.
    HWY_INLINE void InputRow(const C *g, const C *v, int64_t r, const RowAverages &averages, C *to) const {
        const hn::ScalableTag<C> d;
        const auto lanes = static_cast<int64_t>(hn::Lanes(d));
        const C m = Mean(r), s = rstd[r];
        const auto along = static_cast<C>(averages.g_xhat);
        const auto average = static_cast<C>(mean != nullptr ? averages.g : 0);
        const auto vm = hn::Set(d, m);
        const auto vs = hn::Set(d, s);
        const auto valong = hn::Set(d, along);
        const auto vaverage = hn::Set(d, average);
        const auto one = hn::Set(d, C{1});
        int64_t i = 0;
        for (; i + lanes <= n; i += lanes) {
            const auto xhat = hn::Mul(hn::Sub(hn::LoadU(d, v + i), vm), vs);
            const auto scaled = hn::Mul(hn::LoadU(d, g + i), weight != nullptr ? hn::LoadU(d, weight + i) : one);
            hn::StoreU(hn::Mul(vs, hn::NegMulAdd(xhat, valong, hn::Sub(scaled, vaverage))), d, to + i);
        }
        for (; i < n; ++i) {
            const C xhat = (v[i] - m) * s;
            const C scaled = g[i] * (weight != nullptr ? weight[i] : C{1});
            to[i] = s * (scaled - average - xhat * along);
        }
    }

    /// Rows begin..end; puts the gradients of weight and bias into total (2 * n) unless that is null.
    void Run(int64_t begin, int64_t end, double *HWY_RESTRICT total) const {
        std::vector<C> scratch(x.direct() ? 0 : static_cast<size_t>(2 * n));
        std::vector<C> block(total != nullptr ? static_cast<size_t>(2 * n) : 0, C{0});
        for (int64_t r = begin; r < end; ++r) {
            const C *g = dy.Read(r * n, n, scratch.data());
            const C *v = x.Read(r * n, n, scratch.data() + (x.direct() ? 0 : n));
            const RowAverages averages = total != nullptr ? Collect<true>(g, v, r, block.data(), block.data() + n)
                                                          : Collect<false>(g, v, r, nullptr, nullptr);
            if (!dx.is_null()) {
                C *to = dx.Begin(r * n, scratch.data());
                InputRow(g, v, r, averages, to);
                dx.Commit(r * n, n, to);
            }
            if (total != nullptr && ((r - begin) % kBlockRows == kBlockRows - 1 || r == end - 1)) {
                const bool first = r - begin < kBlockRows;
                for (size_t i = 0; i < block.size(); ++i) {
                    total[i] = static_cast<double>(block[i]) + (first ? 0.0 : total[i]);
                    block[i] = C{0};
                }
            }
        }
    }
};

template <typename C>
void WriteTotal(const TensorRef &grad, const double *total) {
    if (grad.data == nullptr) {
        return;
    }
    const Writer<C> out(grad.data, grad.dtype);
    C buffer[kChunk];
    for (int64_t i = 0; i < grad.num_elements; i += kChunk) {
        const int64_t count = std::min(kChunk, grad.num_elements - i);
        std::transform(total + i, total + i + count, buffer, [](double value) { return static_cast<C>(value); });
        out.Write(i, 1, count, buffer);
    }
}

template <typename C>
void Backward(const TensorRef &grad_x, const TensorRef &grad_weight, const TensorRef &grad_bias,
              const ConstTensorRef &grad_y, const ConstTensorRef &x, const ConstTensorRef &weight,
              const ConstTensorRef &mean, const ConstTensorRef &rstd) {
    const int64_t rows = rstd.num_elements;
    const int64_t n = x.num_elements / rows;
    std::vector<C> weight_storage;
    const BackwardTask<C> task{n,
                               Reader<C>(grad_y.data, grad_y.dtype),
                               Reader<C>(x.data, x.dtype),
                               Writer<C>(grad_x.data, x.dtype),
                               ReadAll(weight, &weight_storage),
                               mean.Data<C>(),
                               rstd.Data<C>()};
    if (grad_weight.data == nullptr && grad_bias.data == nullptr) {
        ParallelFor(0, rows, std::max<int64_t>(1, kGrain / n),
                    [&](int64_t begin, int64_t end) HWY_ATTR { task.Run(begin, end, nullptr); });
        return;
    }
    const int64_t group = std::max(kMinGroup, (rows + kMaxGroups - 1) / kMaxGroups);
    const int64_t groups = (rows + group - 1) / group;
    const Scratch<double> scratch(groups * 2 * n);
    double *totals = scratch.data();
    ParallelFor(0, groups, std::max<int64_t>(1, kGrain / (group * n)), [&](int64_t begin, int64_t end) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i) {
            task.Run(i * group, std::min(rows, (i + 1) * group), totals + i * 2 * n);
        }
    });
    for (int64_t i = 1; i < groups; ++i) {
        for (int64_t j = 0; j < 2 * n; ++j) {
            totals[j] += totals[i * 2 * n + j];
        }
    }
    WriteTotal<C>(grad_weight, totals);
    WriteTotal<C>(grad_bias, totals + n);
}

void LayerNormForwardAny(const TensorRef &y, const TensorRef &mean, const TensorRef &rstd, const ConstTensorRef &x,
                         const ConstTensorRef &weight, const ConstTensorRef &bias, double eps) {
    if (x.dtype == DataType::kFLOAT64) {
        Forward<double>(y, mean, rstd, x, weight, bias, eps);
    } else {
        Forward<float>(y, mean, rstd, x, weight, bias, eps);
    }
}

void LayerNormBackwardAny(const TensorRef &grad_x, const TensorRef &grad_weight, const TensorRef &grad_bias,
                          const ConstTensorRef &grad_y, const ConstTensorRef &x, const ConstTensorRef &weight,
                          const ConstTensorRef &mean, const ConstTensorRef &rstd) {
    if (x.dtype == DataType::kFLOAT64) {
        Backward<double>(grad_x, grad_weight, grad_bias, grad_y, x, weight, mean, rstd);
    } else {
        Backward<float>(grad_x, grad_weight, grad_bias, grad_y, x, weight, mean, rstd);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

HWY_EXPORT(LayerNormForwardAny);
HWY_EXPORT(LayerNormBackwardAny);

void LayerNormForwardKernel(TensorRef y, TensorRef mean, TensorRef rstd, ConstTensorRef x, ConstTensorRef weight,
                            ConstTensorRef bias, double eps) {
    if (x.num_elements > 0) {
        HWY_DYNAMIC_DISPATCH(LayerNormForwardAny)(y, mean, rstd, x, weight, bias, eps);
    }
}

void LayerNormBackwardKernel(TensorRef grad_x, TensorRef grad_weight, TensorRef grad_bias, ConstTensorRef grad_y,
                             ConstTensorRef x, ConstTensorRef weight, ConstTensorRef mean, ConstTensorRef rstd) {
    if (x.num_elements > 0) {
        HWY_DYNAMIC_DISPATCH(LayerNormBackwardAny)(grad_x, grad_weight, grad_bias, grad_y, x, weight, mean, rstd);
    }
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterNormalizationCpu() {
    RegisterKernel<LayerNormForward>(DeviceType::kCPU, &cpu::LayerNormForwardKernel);
    RegisterKernel<LayerNormBackward>(DeviceType::kCPU, &cpu::LayerNormBackwardKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
