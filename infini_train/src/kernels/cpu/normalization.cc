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
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

// Elements worth a thread.
inline constexpr int64_t kGrain = 16384;
// Gradients of weight and bias add up in C for this many rows, in double over more.
inline constexpr int64_t kBlockRows = 64;
// Rows are dealt out in at most this many groups of at least that many rows, whatever the number of threads.
inline constexpr int64_t kMaxGroups = 32;
inline constexpr int64_t kMinGroup = 8;

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
    const int64_t rows = mean.num_elements;
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
            const double sum = SumRow(n, from, [](auto v) HWY_ATTR { return v; });
            const auto m = static_cast<C>(sum / static_cast<double>(n));
            const auto vm = hn::Set(d, m);
            const double squares = SumRow(n, from, [&](auto v) HWY_ATTR {
                const auto difference = hn::Sub(v, vm);
                return hn::Mul(difference, difference);
            });
            const auto s = static_cast<C>(1.0 / std::sqrt(squares / static_cast<double>(n) + eps));
            NormalizeRow(n, from, m, s, w, b, to);
            out.Commit(r * n, n, to);
            mean.Data<C>()[r] = m;
            rstd.Data<C>()[r] = s;
        }
    });
}

/// What the backward pass reads and writes; null where something is absent.
template <typename C>
struct BackwardTask {
    int64_t n;
    Reader<C> dy, x;
    Writer<C> dx;
    const C *weight, *mean, *rstd;

    /// dx of one row: rstd * (g - average(g) - xhat * average(g * xhat)) with g = dy * weight.
    HWY_INLINE void InputRow(const C *g, const C *v, C m, C s, C *to) const {
        const hn::ScalableTag<C> d;
        const auto vm = hn::Set(d, m);
        const auto vs = hn::Set(d, s);
        const auto one = hn::Set(d, C{1});
        const auto mask = [&](int64_t count) HWY_ATTR { return hn::FirstN(d, static_cast<size_t>(count)); };
        const auto scaled = [&](int64_t i) HWY_ATTR {
            return hn::Mul(hn::LoadU(d, g + i), weight != nullptr ? hn::LoadU(d, weight + i) : one);
        };
        const auto scaled_first = [&](int64_t i, int64_t count) HWY_ATTR {
            const auto w = weight != nullptr ? LoadFirst(d, weight + i, count, C{0}) : one;
            return hn::Mul(LoadFirst(d, g + i, count, C{0}), w);
        };
        const auto normal = [&](auto value) HWY_ATTR { return hn::Mul(hn::Sub(value, vm), vs); };
        const double sum = SumVectors<C>(n, scaled, [&](int64_t i, int64_t count) HWY_ATTR {
            return hn::IfThenElseZero(mask(count), scaled_first(i, count));
        });
        const double dot = SumVectors<C>(
            n, [&](int64_t i) HWY_ATTR { return hn::Mul(scaled(i), normal(hn::LoadU(d, v + i))); },
            [&](int64_t i, int64_t count) HWY_ATTR {
                const auto xhat = normal(LoadFirst(d, v + i, count, C{0}));
                return hn::IfThenElseZero(mask(count), hn::Mul(scaled_first(i, count), xhat));
            });
        const auto mean_g = hn::Set(d, static_cast<C>(sum / static_cast<double>(n)));
        const auto mean_dot = hn::Set(d, static_cast<C>(dot / static_cast<double>(n)));
        const auto result = [&](auto gw, auto xhat)
                                HWY_ATTR { return hn::Mul(vs, hn::NegMulAdd(xhat, mean_dot, hn::Sub(gw, mean_g))); };
        const auto lanes = static_cast<int64_t>(hn::Lanes(d));
        int64_t i = 0;
        for (; i + lanes <= n; i += lanes) {
            hn::StoreU(result(scaled(i), normal(hn::LoadU(d, v + i))), d, to + i);
        }
        if (i < n) {
            const auto xhat = normal(LoadFirst(d, v + i, n - i, C{0}));
            StoreFirst(d, result(scaled_first(i, n - i), xhat), to + i, n - i);
        }
    }

    /// Adds one row's part of the gradients of weight and bias.
    HWY_INLINE void AddWeightRow(const C *HWY_RESTRICT g, const C *HWY_RESTRICT v, C m, C s, C *HWY_RESTRICT dw,
                                 C *HWY_RESTRICT db) const {
        for (int64_t i = 0; i < n; ++i) {
            dw[i] += g[i] * ((v[i] - m) * s);
            db[i] += g[i];
        }
    }

    /// Rows begin..end; adds the gradients of weight and bias to total (2 * n) unless that is null.
    void Run(int64_t begin, int64_t end, double *HWY_RESTRICT total) const {
        std::vector<C> scratch(x.direct() ? 0 : static_cast<size_t>(3 * n));
        std::vector<C> block(total != nullptr ? static_cast<size_t>(2 * n) : 0, C{0});
        for (int64_t r = begin; r < end; ++r) {
            const C *g = dy.Read(r * n, n, scratch.data());
            const C *v = x.Read(r * n, n, scratch.data() + (x.direct() ? 0 : n));
            if (total != nullptr) {
                AddWeightRow(g, v, mean[r], rstd[r], block.data(), block.data() + n);
                if ((r - begin) % kBlockRows == kBlockRows - 1 || r == end - 1) {
                    for (size_t i = 0; i < block.size(); ++i) {
                        total[i] += static_cast<double>(block[i]);
                        block[i] = C{0};
                    }
                }
            }
            if (!dx.is_null()) {
                C *to = dx.Begin(r * n, scratch.data() + (x.direct() ? 0 : 2 * n));
                InputRow(g, v, mean[r], rstd[r], to);
                dx.Commit(r * n, n, to);
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
    const int64_t rows = mean.num_elements;
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
    std::vector<double> totals(static_cast<size_t>(groups * 2 * n), 0.0);
    ParallelFor(0, groups, std::max<int64_t>(1, kGrain / (group * n)), [&](int64_t begin, int64_t end) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i) {
            task.Run(i * group, std::min(rows, (i + 1) * group), totals.data() + i * 2 * n);
        }
    });
    for (int64_t i = 1; i < groups; ++i) {
        for (int64_t j = 0; j < 2 * n; ++j) {
            totals[static_cast<size_t>(j)] += totals[static_cast<size_t>(i * 2 * n + j)];
        }
    }
    WriteTotal<C>(grad_weight, totals.data());
    WriteTotal<C>(grad_bias, totals.data() + n);
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
