#include "infini_train/src/kernels/loss.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/loss.cc"
#include <algorithm>
#include <cmath>
#include <limits>
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

using kernels::CrossEntropyOptions;
using kernels::LabelSummary;

// Elements worth a thread: an exponential each.
inline constexpr int64_t kGrain = 8192;

struct RowStatistics {
    double lse = 0;  // log(sum(exp(x)))
    double sum = 0;  // of x, if wanted
};

/// In one pass over memory: what has been added up is rescaled whenever a larger element turns up.
template <typename C>
HWY_INLINE RowStatistics Summarize(const Reader<C> &in, int64_t offset, int64_t n, bool want_sum) {
    const hn::ScalableTag<C> d;
    constexpr C kLowest = -std::numeric_limits<C>::infinity();
    C buffer[kChunk];
    C max = kLowest;
    double exponentials = 0;
    RowStatistics result;
    for (int64_t i = 0; i < n; i += kChunk) {
        const int64_t count = std::min(kChunk, n - i);
        const C *x = in.Read(offset + i, count, buffer);
        const C larger = std::max(max, MaxOfRow(count, x));
        if (larger > max && max != kLowest) {
            exponentials *= std::exp(static_cast<double>(max) - static_cast<double>(larger));
        }
        max = larger;
        // Elements that are all -inf add nothing, but -inf less -inf would be NaN.
        const auto shift = hn::Set(d, max == kLowest ? C{0} : max);
        exponentials += SumRow(count, x, [&](auto v) HWY_ATTR { return Exp(d, hn::Sub(v, shift)); });
        if (want_sum) {
            result.sum += SumRow(count, x, [](auto v) HWY_ATTR { return v; });
        }
    }
    result.lse = std::log(exponentials) + (max == kLowest ? 0.0 : static_cast<double>(max));
    return result;
}

template <typename C>
void Forward(const TensorRef &loss, const TensorRef &lse, const ConstTensorRef &logits, const ConstTensorRef &labels,
             const CrossEntropyOptions &options) {
    const int64_t rows = logits.dims[0];
    const int64_t classes = logits.dims[1];
    const bool reduced = loss.ndim == 0;
    const double smoothing = options.label_smoothing;
    const Reader<C> in(logits.data, logits.dtype);
    const Reader<int64_t> label_reader(labels.data, labels.dtype);
    const Writer<C> out(loss.data, loss.dtype);
    std::vector<double> row_losses(reduced ? static_cast<size_t>(rows) : 0);
    ParallelFor(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(classes, 1)),
                [&](int64_t begin, int64_t end) HWY_ATTR {
                    for (int64_t r = begin; r < end; ++r) {
                        int64_t label_buffer;
                        const int64_t label = *label_reader.Read(r, 1, &label_buffer);
                        double value = 0;
                        if (label == options.ignore_index) {
                            lse.Data<C>()[r] = 0;
                        } else {
                            const auto statistics = Summarize(in, r * classes, classes, smoothing != 0);
                            C buffer;
                            const auto chosen = static_cast<double>(*in.Read(r * classes + label, 1, &buffer));
                            value = statistics.lse - chosen;
                            if (smoothing != 0) {
                                const double average = statistics.sum / static_cast<double>(classes);
                                value = (1 - smoothing) * value + smoothing * (statistics.lse - average);
                            }
                            lse.Data<C>()[r] = static_cast<C>(statistics.lse);
                        }
                        if (reduced) {
                            row_losses[static_cast<size_t>(r)] = value;
                        } else {
                            const auto narrow = static_cast<C>(value);
                            out.Write(r, 1, 1, &narrow);
                        }
                    }
                });
    if (reduced) {
        double total = 0;
        for (const double value : row_losses) {
            total += value;
        }
        const auto narrow = static_cast<C>(total / options.divisor);
        out.Write(0, 1, 1, &narrow);
    }
}

template <typename C>
void Backward(const TensorRef &grad_logits, const ConstTensorRef &grad_loss, const ConstTensorRef &logits,
              const ConstTensorRef &lse, const ConstTensorRef &labels, const CrossEntropyOptions &options) {
    const hn::ScalableTag<C> d;
    const int64_t rows = logits.dims[0];
    const int64_t classes = logits.dims[1];
    const double share = options.label_smoothing / static_cast<double>(classes);
    const auto vshare = hn::Set(d, static_cast<C>(share));
    const Reader<C> grad(grad_loss.data, grad_loss.dtype);
    const Reader<C> in(logits.data, logits.dtype);
    const Reader<int64_t> label_reader(labels.data, labels.dtype);
    const Writer<C> out(grad_logits.data, grad_logits.dtype);
    ParallelFor(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(classes, 1)),
                [&](int64_t begin, int64_t end) HWY_ATTR {
                    C buffer[kChunk];
                    for (int64_t r = begin; r < end; ++r) {
                        int64_t label_buffer;
                        const int64_t label = *label_reader.Read(r, 1, &label_buffer);
                        const bool ignored = label == options.ignore_index;
                        const auto g = static_cast<double>(*grad.Read(grad_loss.num_elements == 1 ? 0 : r, 1, buffer));
                        const auto scale = static_cast<C>(g / options.divisor);
                        const auto vscale = hn::Set(d, scale);
                        const C row_lse = lse.Data<C>()[r];
                        const auto vlse = hn::Set(d, row_lse);
                        for (int64_t i = 0; i < classes; i += kChunk) {
                            const int64_t at = r * classes + i;
                            const int64_t count = std::min(kChunk, classes - i);
                            C *to = out.Begin(at, buffer);
                            if (ignored) {
                                std::fill(to, to + count, C{0});
                            } else {
                                const C *x = in.Read(at, count, buffer);
                                const bool here = label >= i && label < i + count;
                                const C chosen = here ? x[label - i] : C{0};
                                MapRow(count, x, to, [&](auto v) HWY_ATTR {
                                    return hn::Mul(hn::Sub(Exp(d, hn::Sub(v, vlse)), vshare), vscale);
                                });
                                if (here) {
                                    const auto wanted = static_cast<C>(options.label_smoothing - share);
                                    to[label - i] = (std::expm1(chosen - row_lse) + wanted) * scale;
                                }
                            }
                            out.Commit(at, count, to);
                        }
                    }
                });
}

void CrossEntropyForwardAny(const TensorRef &loss, const TensorRef &lse, const ConstTensorRef &logits,
                            const ConstTensorRef &labels, const CrossEntropyOptions &options) {
    if (logits.dtype == DataType::kFLOAT64) {
        Forward<double>(loss, lse, logits, labels, options);
    } else {
        Forward<float>(loss, lse, logits, labels, options);
    }
}

void CrossEntropyBackwardAny(const TensorRef &grad_logits, const ConstTensorRef &grad_loss,
                             const ConstTensorRef &logits, const ConstTensorRef &lse, const ConstTensorRef &labels,
                             const CrossEntropyOptions &options) {
    if (logits.dtype == DataType::kFLOAT64) {
        Backward<double>(grad_logits, grad_loss, logits, lse, labels, options);
    } else {
        Backward<float>(grad_logits, grad_loss, logits, lse, labels, options);
    }
}

template <typename C>
void Distribute(const TensorRef &targets, const TensorRef &weight, const ConstTensorRef &labels,
                const CrossEntropyOptions &options) {
    const int64_t classes = targets.dims[1];
    const Reader<int64_t> label_reader(labels.data, labels.dtype);
    const Writer<C> out(targets.data, targets.dtype);
    const Writer<C> weight_out(weight.data, weight.dtype);
    std::vector<C> row(static_cast<size_t>(classes));
    for (int64_t r = 0; r < labels.num_elements; ++r) {
        int64_t label_buffer;
        const int64_t label = *label_reader.Read(r, 1, &label_buffer);
        const bool ignored = label == options.ignore_index;
        const double share = options.label_smoothing / static_cast<double>(classes);
        std::fill(row.begin(), row.end(), static_cast<C>(ignored ? 0 : share));
        if (!ignored) {
            row[static_cast<size_t>(label)] = static_cast<C>(1 - options.label_smoothing + share);
        }
        out.Write(r * classes, 1, classes, row.data());
        const auto factor = static_cast<C>(ignored ? 0 : 1 / options.divisor);
        weight_out.Write(r, 1, 1, &factor);
    }
}

void LabelDistributionsAny(const TensorRef &targets, const TensorRef &weight, const ConstTensorRef &labels,
                           const CrossEntropyOptions &options) {
    if (targets.dtype == DataType::kFLOAT64) {
        Distribute<double>(targets, weight, labels, options);
    } else {
        Distribute<float>(targets, weight, labels, options);
    }
}

LabelSummary CheckLabelsAny(const ConstTensorRef &labels, int64_t num_classes, int64_t ignore_index) {
    const Reader<int64_t> reader(labels.data, labels.dtype);
    LabelSummary summary;
    int64_t buffer[kChunk];
    for (int64_t i = 0; i < labels.num_elements; i += kChunk) {
        const int64_t count = std::min(kChunk, labels.num_elements - i);
        const int64_t *x = reader.Read(i, count, buffer);
        for (int64_t j = 0; j < count; ++j) {
            const bool counted = x[j] != ignore_index;
            summary.num_counted += counted ? 1 : 0;
            if (counted && (x[j] < 0 || x[j] >= num_classes)) {
                summary.bad_position = i + j;
                summary.bad_label = x[j];
                return summary;
            }
        }
    }
    return summary;
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

using kernels::CrossEntropyOptions;
using kernels::LabelSummary;

HWY_EXPORT(CheckLabelsAny);
HWY_EXPORT(CrossEntropyForwardAny);
HWY_EXPORT(CrossEntropyBackwardAny);
HWY_EXPORT(LabelDistributionsAny);

LabelSummary CheckLabelsKernel(ConstTensorRef labels, int64_t num_classes, int64_t ignore_index) {
    return HWY_DYNAMIC_DISPATCH(CheckLabelsAny)(labels, num_classes, ignore_index);
}

void CrossEntropyForwardKernel(TensorRef loss, TensorRef lse, ConstTensorRef logits, ConstTensorRef labels,
                               const CrossEntropyOptions &options) {
    HWY_DYNAMIC_DISPATCH(CrossEntropyForwardAny)(loss, lse, logits, labels, options);
}

void CrossEntropyBackwardKernel(TensorRef grad_logits, ConstTensorRef grad_loss, ConstTensorRef logits,
                                ConstTensorRef lse, ConstTensorRef labels, const CrossEntropyOptions &options) {
    if (logits.num_elements > 0) {
        HWY_DYNAMIC_DISPATCH(CrossEntropyBackwardAny)(grad_logits, grad_loss, logits, lse, labels, options);
    }
}

void LabelDistributionsKernel(TensorRef targets, TensorRef weight, ConstTensorRef labels,
                              const CrossEntropyOptions &options) {
    HWY_DYNAMIC_DISPATCH(LabelDistributionsAny)(targets, weight, labels, options);
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterLossCpu() {
    RegisterKernel<CheckLabels>(DeviceType::kCPU, &cpu::CheckLabelsKernel);
    RegisterKernel<CrossEntropyForward>(DeviceType::kCPU, &cpu::CrossEntropyForwardKernel);
    RegisterKernel<CrossEntropyBackward>(DeviceType::kCPU, &cpu::CrossEntropyBackwardKernel);
    RegisterKernel<LabelDistributions>(DeviceType::kCPU, &cpu::LabelDistributionsKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
