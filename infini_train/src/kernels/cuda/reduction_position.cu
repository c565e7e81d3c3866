// Where the extremes are. The kernel numbers what is reduced, and of a tensor of several dims that are reduced only
// `dim` has several elements.

#include "infini_train/src/kernels/cuda/reduction.cuh"

namespace infini_train::cuda {
namespace {

template <bool kMax>
void RunPosition(const TensorRef &output, const ConstTensorRef &input) {
    VisitWide(input.dtype, [&]<typename C>(std::type_identity<C>) {
        RunReduction(kMax ? "ReduceArgmax" : "ReduceArgmin", output, input, PositionReduction<C, kMax>());
    });
}

}  // namespace

void RunArgmax(TensorRef output, ConstTensorRef input, int /*dim*/) {
    RunPosition<true>(output, input);
}

void RunArgmin(TensorRef output, ConstTensorRef input, int /*dim*/) {
    RunPosition<false>(output, input);
}

}  // namespace infini_train::cuda
