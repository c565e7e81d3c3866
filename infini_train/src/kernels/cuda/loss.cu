// Cross-entropy from logits and labels, which never makes the probabilities.

#include <limits>
#include <type_traits>

#include "infini_train/src/cuda/random_shift.h"
#include "infini_train/src/kernels/cuda/convert.cuh"
#include "infini_train/src/kernels/cuda/copy.h"
#include "infini_train/src/kernels/cuda/math.cuh"
#include "infini_train/src/kernels/cuda/rows.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/loss.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

using kernels::CrossEntropyOptions;
using kernels::LabelSummary;

struct Labels {
    const void *data;
    DataType dtype;
    int64_t ignored;

    Labels(const ConstTensorRef &labels, int64_t ignore_index)
        : data(labels.data), dtype(labels.dtype), ignored(ignore_index) {}
    __device__ __forceinline__ int64_t operator[](int64_t row) const {
        int64_t label[1];
        LoadGroup(data, dtype, row, label);
        return label[0];
    }
};

// What the check finds, on the device.
struct Found {
    unsigned long long num_counted;
    unsigned long long first_bad;
};

__global__ void __launch_bounds__(kBlock) CheckKernel(Labels labels, int64_t count, int64_t num_classes, Found *found) {
    int counted = 0;
    auto first = std::numeric_limits<unsigned long long>::max();
    for (int64_t i = GridIndex(); i < count; i += GridStep()) {
        const int64_t label = labels[i];
        if (label != labels.ignored) {
            ++counted;
            if ((label < 0 || label >= num_classes) && static_cast<unsigned long long>(i) < first) {
                first = static_cast<unsigned long long>(i);
            }
        }
    }
    counted = BlockReduce(counted, SumOp(), 0);
    if (threadIdx.x == 0) {
        atomicAdd(&found->num_counted, static_cast<unsigned long long>(counted));
    }
    if (first != std::numeric_limits<unsigned long long>::max()) {
        atomicMin(&found->first_bad, first);
    }
}

int64_t LabelAt(const ConstTensorRef &labels, int64_t position) {
    const Scratch label(sizeof(int64_t));
    const int64_t one = 1;
    CopyKernel({label.data(), &one, &one, 1, DataType::kINT64, 1, true},
               {labels.Data<char>() + position * static_cast<int64_t>(SizeOf(labels.dtype)), &one, &one, 1,
                labels.dtype, 1, true});
    return ReadBack(label.As<int64_t>());
}

LabelSummary RunCheckLabels(ConstTensorRef labels, int64_t num_classes, int64_t ignore_index) {
    LabelSummary summary;
    // While a graph is recorded there is nothing to read back yet: labels are taken to be right, and none to be
    // ignored.
    if (labels.num_elements == 0 || CurrentRandomShift() != nullptr) {
        summary.num_counted = labels.num_elements;
        return summary;
    }
    const Scratch scratch(sizeof(Found));
    auto *const found = scratch.As<Found>();
    CheckCuda(cudaMemsetAsync(&found->num_counted, 0, sizeof(found->num_counted), CurrentStream()), "cudaMemsetAsync");
    CheckCuda(cudaMemsetAsync(&found->first_bad, 0xff, sizeof(found->first_bad), CurrentStream()), "cudaMemsetAsync");
    Launch("CheckLabels", {GridFor(labels.num_elements)}, CheckKernel, Labels(labels, ignore_index),
           labels.num_elements, num_classes, found);
    const Found result = ReadBack(found);
    summary.num_counted = static_cast<int64_t>(result.num_counted);
    summary.bad_position = static_cast<int64_t>(result.first_bad);
    if (summary.bad_position >= 0) {
        summary.bad_label = LabelAt(labels, summary.bad_position);
    }
    return summary;
}

// Each row's loss goes to `losses`, in double, or to `loss`.
template <typename T, typename Group>
__global__ void __launch_bounds__(kBlock)
    ForwardKernel(T *loss, double *losses, Accumulate<T> *lse, const T *logits, Labels labels, int64_t rows,
                  int64_t classes, double smoothing) {
    using C = Accumulate<T>;
    Group::ForRows(rows, [&](int64_t row) {
        const T *const x = logits + row * classes;
        const int64_t label = labels[row];
        double value = 0;
        C row_lse = 0;
        if (label != labels.ignored) {
            constexpr C kLowest = -std::numeric_limits<C>::infinity();
            C max = kLowest;
            double sum = 0;
            for (int64_t i = Group::Lane(); i < classes; i += Group::kLength) {
                max = MaxOp()(max, Load(x[i]));
                if (smoothing != 0) {
                    sum += static_cast<double>(Load(x[i]));
                }
            }
            max = Group::Reduce(max, MaxOp(), kLowest);
            // Elements that are all -inf add nothing, but -inf less -inf would be NaN.
            const C shift = max == kLowest ? C{0} : max;
            double exponentials = 0;
            for (int64_t i = Group::Lane(); i < classes; i += Group::kLength) {
                exponentials += static_cast<double>(Exp(Load(x[i]) - shift));
            }
            const double exact = Log(Group::Sum(exponentials)) + static_cast<double>(shift);
            value = exact - static_cast<double>(Load(x[label]));
            if (smoothing != 0) {
                const double average = Group::Sum(sum) / static_cast<double>(classes);
                value = (1 - smoothing) * value + smoothing * (exact - average);
            }
            row_lse = static_cast<C>(exact);
        }
        if (Group::Lane() == 0) {
            lse[row] = row_lse;
            if (losses != nullptr) {
                losses[row] = value;
            } else {
                loss[row] = Store<T>(static_cast<C>(value));
            }
        }
    });
}

// One block.
template <typename T>
__global__ void __launch_bounds__(kBlock) SumKernel(T *loss, const double *losses, int64_t rows, double divisor) {
    double sum = 0;
    for (int64_t row = threadIdx.x; row < rows; row += kBlock) {
        sum += losses[row];
    }
    sum = BlockReduce(sum, SumOp(), 0.0);
    if (threadIdx.x == 0) {
        *loss = Store<T>(static_cast<Accumulate<T>>(sum / divisor));
    }
}

void RunForward(TensorRef loss, TensorRef lse, ConstTensorRef logits, ConstTensorRef labels,
                const CrossEntropyOptions &options) {
    const char *const name = "CrossEntropyForward";
    const int64_t rows = logits.dims[0], classes = logits.dims[1];
    const bool is_reduced = loss.ndim == 0;
    const Scratch scratch(is_reduced ? static_cast<size_t>(rows) * sizeof(double) : 0);
    double *const losses = is_reduced ? scratch.As<double>() : nullptr;
    VisitFloating(name, logits.dtype, [&]<typename T>(std::type_identity<T>) {
        VisitRowGroup(classes, [&]<typename Group>(Group) {
            Launch(name, {GridFor(rows, Group::kRowsPerBlock)}, ForwardKernel<T, Group>, loss.Data<T>(), losses,
                   lse.Data<Accumulate<T>>(), logits.Data<T>(), Labels(labels, options.ignore_index), rows, classes,
                   options.label_smoothing);
        });
        if (is_reduced) {
            Launch(name, {1}, SumKernel<T>, loss.Data<T>(), losses, rows, options.divisor);
        }
    });
}

// grad_logits may be the memory of logits: each thread reads an element before it writes it.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    BackwardKernel(T *grad_logits, const T *grad_loss, bool is_reduced, const T *logits, const Accumulate<T> *lse,
                   Labels labels, int64_t rows, int64_t classes, double smoothing, double divisor) {
    using C = Accumulate<T>;
    const double share = smoothing / static_cast<double>(classes);
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const int64_t label = labels[row];
        const bool is_ignored = label == labels.ignored;
        const C scale = static_cast<C>(static_cast<double>(Load(grad_loss[is_reduced ? 0 : row])) / divisor);
        const C row_lse = lse[row];
        for (int64_t i = threadIdx.x; i < classes; i += kBlock) {
            C grad = 0;
            if (!is_ignored) {
                const C x = Load(logits[row * classes + i]) - row_lse;
                grad = i == label ? (Expm1(x) + static_cast<C>(smoothing - share)) * scale
                                  : (Exp(x) - static_cast<C>(share)) * scale;
            }
            grad_logits[row * classes + i] = Store<T>(grad);
        }
    }
}

void RunBackward(TensorRef grad_logits, ConstTensorRef grad_loss, ConstTensorRef logits, ConstTensorRef lse,
                 ConstTensorRef labels, const CrossEntropyOptions &options) {
    const int64_t rows = logits.dims[0], classes = logits.dims[1];
    if (logits.num_elements == 0) {
        return;
    }
    VisitFloating("CrossEntropyBackward", logits.dtype, [&]<typename T>(std::type_identity<T>) {
        Launch("CrossEntropyBackward", {GridFor(rows, 1)}, BackwardKernel<T>, grad_logits.Data<T>(),
               grad_loss.Data<T>(), grad_loss.num_elements == 1, logits.Data<T>(), lse.Data<Accumulate<T>>(),
               Labels(labels, options.ignore_index), rows, classes, options.label_smoothing, options.divisor);
    });
}

template <typename T>
__global__ void __launch_bounds__(kBlock) DistributeKernel(T *targets, T *weight, Labels labels, int64_t rows,
                                                           int64_t classes, double smoothing, double divisor) {
    using C = Accumulate<T>;
    const double share = smoothing / static_cast<double>(classes);
    for (int64_t i = GridIndex(); i < rows * classes; i += GridStep()) {
        const int64_t row = i / classes, column = i % classes;
        const int64_t label = labels[row];
        const bool is_ignored = label == labels.ignored;
        const double value = is_ignored ? 0 : column == label ? 1 - smoothing + share : share;
        targets[i] = Store<T>(static_cast<C>(value));
        if (column == 0) {
            weight[row] = Store<T>(static_cast<C>(is_ignored ? 0 : 1 / divisor));
        }
    }
}

void RunLabelDistributions(TensorRef targets, TensorRef weight, ConstTensorRef labels,
                           const CrossEntropyOptions &options) {
    VisitFloating("LabelDistributions", targets.dtype, [&]<typename T>(std::type_identity<T>) {
        Launch("LabelDistributions", {GridFor(targets.num_elements)}, DistributeKernel<T>, targets.Data<T>(),
               weight.Data<T>(), Labels(labels, options.ignore_index), targets.dims[0], targets.dims[1],
               options.label_smoothing, options.divisor);
    });
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterLossCuda() {
    RegisterKernel<CheckLabels>(DeviceType::kCUDA, &cuda::RunCheckLabels);
    RegisterKernel<CrossEntropyForward>(DeviceType::kCUDA, &cuda::RunForward);
    RegisterKernel<CrossEntropyBackward>(DeviceType::kCUDA, &cuda::RunBackward);
    RegisterKernel<LabelDistributions>(DeviceType::kCUDA, &cuda::RunLabelDistributions);
}

}  // namespace infini_train::kernels
