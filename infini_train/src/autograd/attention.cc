#include "infini_train/include/autograd/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/sum_to.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/core/size.h"
#include "infini_train/src/kernels/dropout.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The type of the softmax and of all sums.
DataType WideType(DataType dtype) {
    return dtype == DataType::kFLOAT64 ? DataType::kFLOAT64 : DataType::kFLOAT32;
}

std::vector<int64_t> WeightDims(const Tensor &query, const Tensor &key) {
    return {query.Dims()[0], query.Dims()[1], query.Dims()[2], key.Dims()[2]};
}

void CheckShapes(const char *name, const Tensor &query, const Tensor &key, const Tensor &value) {
    const auto &q = query.Dims();
    const auto &k = key.Dims();
    const auto &v = value.Dims();
    if (q.size() != 4 || k.size() != 4 || v.size() != 4) {
        Throw<ShapeError>(
            "{}: expected a query (B, H, T, D), a key (B, Hkv, S, D) and a value (B, Hkv, S, Dv), got "
            "{}, {} and {}",
            name, FormatDims(q), FormatDims(k), FormatDims(v));
    }
    if (k[0] != q[0] || v[0] != q[0] || k[3] != q[3] || k[1] != v[1] || k[2] != v[2]) {
        Throw<ShapeError>(
            "{}: query {}, key {} and value {} don't fit: expected one batch size, one number of features "
            "of query and key, and one number of heads and of positions of key and value",
            name, FormatDims(q), FormatDims(k), FormatDims(v));
    }
    if (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0) {
        Throw<ShapeError>("{}: expected a number of query heads that is a multiple of the {} key heads, got {}", name,
                          k[1], q[1]);
    }
}

void CheckMask(const char *name, const Tensor &mask, const Tensor &query, const std::vector<int64_t> &dims) {
    if (mask.Dtype() != DataType::kBOOL && mask.Dtype() != query.Dtype()) {
        Throw<DtypeError>("{}: expected a mask of bool or {}, got {}", name, ToString(query.Dtype()),
                          ToString(mask.Dtype()));
    }
    const auto &given = mask.Dims();
    bool fits = given.size() <= dims.size();
    for (size_t i = 1; fits && i <= given.size(); ++i) {
        fits = given[given.size() - i] == 1 || given[given.size() - i] == dims[dims.size() - i];
    }
    if (!fits) {
        Throw<ShapeError>("{}: expected a mask that broadcasts to (B, H, T, S) = {}, got {}", name, FormatDims(dims),
                          FormatDims(given));
    }
}

// Each key or value head once for every query head that uses it.
TensorPtr ForQueryHeads(const TensorPtr &x, const TensorPtr &query) {
    const int64_t group = x->Dim(1) != 0 ? query->Dim(1) / x->Dim(1) : 1;
    return group == 1 ? x : x->RepeatInterleave(group, 1);
}
// And its gradient.
TensorPtr OfKeyHeads(const TensorPtr &grad, const TensorPtr &like) {
    if (grad->Dims() == like->Dims()) {
        return grad->To(like->Dtype());
    }
    const auto &d = like->Dims();
    return grad->Reshape({d[0], d[1], d[1] != 0 ? grad->Dim(1) / d[1] : 1, d[2], d[3]})->Sum(2)->To(like->Dtype());
}

// (B, H, T, D), which lies in memory as (B, T, H, D).
TensorPtr HeadsInside(const TensorPtr &like, int64_t features) {
    const auto &d = like->Dims();
    const auto memory = Tensor::Empty({d[0], d[2], d[1], features}, like->Dtype(), like->GetDevice());
    return std::make_shared<Tensor>(memory->storage(), std::vector<int64_t>{d[0], d[1], d[2], features},
                                    std::vector<int64_t>{d[2] * d[1] * features, features, d[1] * features, 1}, 0,
                                    like->Dtype());
}

}  // namespace

ScaledDotProductAttention::ScaledDotProductAttention(bool is_causal, double dropout_p, std::optional<double> scale,
                                                     Generator *generator)
    : Function(kType), is_causal_(is_causal), dropout_p_(dropout_p), given_scale_(scale), generator_(generator) {
    if (!(dropout_p >= 0 && dropout_p <= 1)) {
        Throw<ValueError>("{}: expected a probability in [0, 1], got {}", kType, dropout_p);
    }
}

TensorList ScaledDotProductAttention::Forward(const TensorList &inputs) {
    if (inputs.size() < 3 || inputs.size() > 4) {
        Throw<ValueError>("{}: expected a query, a key, a value and maybe a mask, got {} inputs", kType, inputs.size());
    }
    num_inputs_ = inputs.size();
    const TensorPtr mask = num_inputs_ == 4 ? inputs[3] : nullptr;
    CheckOperands(kType, mask == nullptr ? TensorList(inputs.begin(), inputs.begin() + 3) : inputs);
    const auto &query = inputs[0];
    CheckShapes(kType, *query, *inputs[1], *inputs[2]);
    for (size_t i = 0; i < 3; ++i) {
        if (!IsFloatingPoint(query->Dtype()) || inputs[i]->Dtype() != query->Dtype()) {
            Throw<DtypeError>("{}: expected query, key and value of one floating-point type, got {}, {} and {}", kType,
                              ToString(query->Dtype()), ToString(inputs[1]->Dtype()), ToString(inputs[2]->Dtype()));
        }
    }
    const auto dims = WeightDims(*query, *inputs[1]);
    if (mask != nullptr) {
        CheckMask(kType, *mask, *query, dims);
    }
    scale_ = given_scale_ ? *given_scale_ : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(query->Dim(3), 1)));
    if (dropout_p_ > 0) {
        Generator &generator = generator_ != nullptr ? *generator_ : DefaultGenerator();
        draw_ = generator.Reserve((static_cast<uint64_t>(CheckedNumElements(dims, kType)) + 3) / 4);
    }
    auto output = HeadsInside(query, inputs[2]->Dim(3));
    const auto weights = Weights(query, inputs[1], mask);
    const auto kept = dropout_p_ > 0 ? weights->Mul(KeepFactors(weights)) : weights;
    output->Copy_(kept->Matmul(ForQueryHeads(inputs[2], query)->To(weights->Dtype())));
    return {output};
}

void ScaledDotProductAttention::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward({inputs[0], inputs[1], inputs[2], num_inputs_ == 4 ? inputs[3] : nullptr});
}

TensorList ScaledDotProductAttention::Backward(const TensorList &grad_outputs) {
    return ComposedBackward(grad_outputs[0], ctx_.GetSavedTensors());
}

// 0 or 1 / (1 - dropout_p) for each weight.
TensorPtr ScaledDotProductAttention::KeepFactors(const TensorPtr &like) const {
    const auto ones = Tensor::Ones(like->Dims(), like->Dtype(), like->GetDevice());
    auto factors = Tensor::EmptyLike(ones);
    auto mask = Tensor::Empty(like->Dims(), DataType::kBOOL, like->GetDevice());
    Dispatch<kernels::DropoutForward>(like->GetDevice(), Ref(factors), Ref(mask), Ref(ones), dropout_p_,
                                      dropout_p_ < 1 ? 1 / (1 - dropout_p_) : 0.0, draw_);
    return factors;
}

// The softmax (B, H, T, S) before the dropout, made of operators.
TensorPtr ScaledDotProductAttention::Weights(const TensorPtr &query, const TensorPtr &key,
                                             const TensorPtr &mask) const {
    const DataType wide = WideType(query->Dtype());
    const auto keys = ForQueryHeads(key, query)->To(wide);
    auto scores = query->To(wide)->Mul(scale_)->Matmul(keys->Transpose(-1, -2));
    if (scores->NumElements() == 0) {
        return scores;
    }
    const auto hidden = Tensor::FromScalar(-kInfinity, wide, query->GetDevice());
    if (mask != nullptr) {
        scores = mask->Dtype() == DataType::kBOOL ? scores->Where(mask, hidden) : scores->Add(mask->To(wide));
    }
    if (is_causal_) {
        const int64_t t = query->Dim(2), s = key->Dim(2);
        scores = scores->Where(Tensor::Ones({t, s}, DataType::kBOOL, query->GetDevice())->Tril(s - t), hidden);
    }
    const auto blind = scores->Detach()->Max(-1, true)->Equals(-kInfinity);
    return scores->MaskedFill(blind, 0)->Softmax(-1)->MaskedFill(blind, 0);
}

// With P the weights, F what dropout multiplies them by, and O = (P F) v: dv = (P F)^T dO, and the softmax's gradient
// dS = P (dP - sum(P dP)) with dP = F (dO v^T) leads to q, k and mask.
TensorList ScaledDotProductAttention::ComposedBackward(const TensorPtr &grad, const TensorList &saved) const {
    const TensorPtr &query = saved[0], &key = saved[1], &value = saved[2], &mask = saved[3];
    const DataType wide = WideType(query->Dtype());
    const auto weights = Weights(query, key, mask);
    const auto factors = dropout_p_ > 0 ? KeepFactors(weights) : nullptr;
    const auto g = grad->To(wide);
    TensorList grads(num_inputs_);
    if (ctx_.needs_input_grad(2)) {
        const auto kept = factors != nullptr ? weights->Mul(factors) : weights;
        grads[2] = OfKeyHeads(kept->Transpose(-1, -2)->Matmul(g), value);
    }
    const bool has_mask_grad = mask != nullptr && mask->Dtype() != DataType::kBOOL && ctx_.needs_input_grad(3);
    if (!ctx_.needs_input_grad(0) && !ctx_.needs_input_grad(1) && !has_mask_grad) {
        return grads;
    }
    auto dweights = g->Matmul(ForQueryHeads(value, query)->To(wide)->Transpose(-1, -2));
    dweights = factors != nullptr ? dweights->Mul(factors) : dweights;
    const auto dscores = weights->Mul(dweights->Sub(weights->Mul(dweights)->Sum(-1, true)));
    if (ctx_.needs_input_grad(0)) {
        grads[0] = dscores->Matmul(ForQueryHeads(key, query)->To(wide))->Mul(scale_)->To(query->Dtype());
    }
    if (ctx_.needs_input_grad(1)) {
        grads[1] = OfKeyHeads(dscores->Transpose(-1, -2)->Matmul(query->To(wide))->Mul(scale_), key);
    }
    if (has_mask_grad) {
        grads[3] = SumTo(dscores, mask->Dims())->To(mask->Dtype());
    }
    return grads;
}

}  // namespace infini_train::autograd
