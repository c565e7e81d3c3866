#include "infini_train/include/autograd/rotary.h"

#include <algorithm>
#include <numeric>

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/sum_to.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/rotary.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

void Check(const char *name, const Tensor &x, const Tensor &cos, const Tensor &sin) {
    const DataType dtype = x.Dtype();
    if (!IsFloatingPoint(dtype)) {
        Throw<DtypeError>("{}: expected a floating-point tensor, got {}", name, ToString(dtype));
    }
    if (x.NumDims() < 2 || x.Dim(-1) % 2 != 0) {
        Throw<ShapeError>("{}: expected x (..., T, D) with an even D, got {}", name, FormatDims(x.Dims()));
    }
    const std::vector<int64_t> wanted{x.Dim(-2), x.Dim(-1) / 2};
    for (const Tensor *table : {&cos, &sin}) {
        if (table->Dims() != wanted) {
            Throw<ShapeError>("{}: expected cos and sin (T, D / 2) = {}, got {} and {}", name, FormatDims(wanted),
                              FormatDims(cos.Dims()), FormatDims(sin.Dims()));
        }
        const bool wide = table->Dtype() == DataType::kFLOAT32 && SizeOf(dtype) == 2;
        if (cos.Dtype() != sin.Dtype() || (table->Dtype() != dtype && !wide)) {
            Throw<DtypeError>("{}: expected cos and sin of {}{}, got {} and {}", name, ToString(dtype),
                              SizeOf(dtype) == 2 ? " or float32" : "", ToString(cos.Dtype()), ToString(sin.Dtype()));
        }
    }
}

// Dense, with the dimensions in memory in the order of x's.
TensorPtr EmptyInOrderOf(const Tensor &x) {
    std::vector<size_t> order(x.Dims().size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x.Strides()[a] > x.Strides()[b]; });
    std::vector<int64_t> strides(order.size());
    int64_t stride = 1;
    for (size_t i = order.size(); i-- > 0;) {
        strides[order[i]] = stride;
        stride *= x.Dims()[order[i]];
    }
    const auto memory = Tensor::Empty(x.Dims(), x.Dtype(), x.GetDevice());
    return std::make_shared<Tensor>(memory->storage(), x.Dims(), std::move(strides), 0, x.Dtype());
}

// The first or second of each pair.
TensorPtr Side(const TensorPtr &x, bool interleaved, int64_t which) {
    const int64_t n = x->Dim(-1);
    return interleaved ? x->Slice(-1, which, n, 2) : x->Slice(-1, which * (n / 2), (which + 1) * (n / 2));
}

}  // namespace

TensorList RotaryEmbedding::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 3);
    const auto &x = inputs[0];
    Check(kType, *x, *inputs[1], *inputs[2]);
    auto y = EmptyInOrderOf(*x);
    Dispatch<kernels::Rotary>(x->GetDevice(), Ref(y), Ref(x), Ref(ContiguousCopy(inputs[1])),
                              Ref(ContiguousCopy(inputs[2])), interleaved_, inverse_);
    return {y};
}

void RotaryEmbedding::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    const bool tables = ctx_.needs_input_grad(1) || ctx_.needs_input_grad(2);
    ctx_.SaveForBackward({tables ? inputs[0] : nullptr, inputs[1], inputs[2]});
}

TensorList RotaryEmbedding::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    const TensorPtr &grad = grad_outputs[0];
    TensorList grads(3);
    if (ctx_.needs_input_grad(0)) {
        const std::shared_ptr<RotaryEmbedding> back(new RotaryEmbedding(interleaved_, !inverse_));
        grads[0] = back->Apply({grad, saved[1], saved[2]})[0];
    }
    for (const size_t i : {1, 2}) {
        grads[i] = ctx_.needs_input_grad(i) ? TableGrad(i, grad, saved[0], saved[i]) : nullptr;
    }
    return grads;
}

// With the gradients ga and gb of the two outputs of a pair, dcos = ga a + gb b and dsin = gb a - ga b.
TensorPtr RotaryEmbedding::TableGrad(size_t which, const TensorPtr &grad, const TensorPtr &x,
                                     const TensorPtr &table) const {
    const auto g = grad->To(table->Dtype());
    const auto wide = x->To(table->Dtype());
    const auto a = Side(wide, interleaved_, 0), b = Side(wide, interleaved_, 1);
    const auto ga = Side(g, interleaved_, 0), gb = Side(g, interleaved_, 1);
    const auto each = which == 1 ? ga->Mul(a)->Add(gb->Mul(b)) : gb->Mul(a)->Sub(ga->Mul(b));
    const auto sum = SumTo(each, table->Dims());
    return which == 2 && inverse_ ? sum->Neg() : sum;
}

}  // namespace infini_train::autograd
