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
#include "infini_train/src/kernels/attention.h"
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

TensorPtr ViewOf(const Tensor &memory, const std::vector<int64_t> &dims, int64_t row, int64_t offset) {
    return std::make_shared<Tensor>(memory.storage(), dims, std::vector<int64_t>{dims[2] * row, dims[3], row, 1},
                                    offset, memory.Dtype());
}

// (B, H, T, D), which lies in memory as (B, T, H, D).
TensorPtr HeadsInside(const TensorPtr &like, const std::vector<int64_t> &dims) {
    const auto memory = Tensor::Empty({dims[0], dims[2], dims[1], dims[3]}, like->Dtype(), like->GetDevice());
    return ViewOf(*memory, dims, dims[1] * dims[3], 0);
}

// For the gradients of query, key and value, (B, T, H, D) in memory: each of its own or, if the three are the parts of
// one (B, T, (H + 2 Hkv) D) tensor, in the same places of one like it, so that they are its gradient already.
TensorList NewGrads(const TensorPtr &query, const TensorPtr &key, const TensorPtr &value) {
    const TensorPtr parts[] = {query, key, value};
    const int64_t batch = query->Dim(0), length = query->Dim(2);
    int64_t row = 0;
    for (const auto &x : parts) {
        row += x->Dim(1) * x->Dim(3);
    }
    bool joined = query->NumElements() > 0;
    int64_t offset = query->StorageOffset();
    for (const auto &x : parts) {
        const auto &strides = x->Strides();
        joined = joined && x->storage() == query->storage() && x->StorageOffset() == offset && x->Dim(2) == length &&
                 strides[3] == 1 && strides[2] == row && (x->Dim(1) == 1 || strides[1] == x->Dim(3)) &&
                 (batch == 1 || strides[0] == length * row);
        offset += x->Dim(1) * x->Dim(3);
    }
    TensorList grads;
    if (!joined) {
        for (const auto &x : parts) {
            grads.push_back(HeadsInside(x, x->Dims()));
        }
        return grads;
    }
    const auto memory = Tensor::Empty({batch, length, row}, query->Dtype(), query->GetDevice());
    offset = 0;
    for (const auto &x : parts) {
        grads.push_back(ViewOf(*memory, x->Dims(), row, offset));
        offset += x->Dim(1) * x->Dim(3);
    }
    return grads;
}

TensorRef RefOrNull(const TensorPtr &tensor) {
    return tensor == nullptr ? TensorRef() : Ref(tensor);
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
    auto output = HeadsInside(query, {dims[0], dims[1], dims[2], inputs[2]->Dim(3)});
    log_sums_ = Tensor::Empty({dims[0], dims[1], dims[2]}, WideType(query->Dtype()), query->GetDevice());
    if (CheckedNumElements(dims, kType) == 0) {
        output->Zero_();
        return {output};
    }
    const auto mask_view = mask != nullptr ? BroadcastTo(*mask, dims, kType) : nullptr;
    const kernels::AttentionSettings settings{scale_, is_causal_, dropout_p_, draw_};
    Dispatch<kernels::AttentionForward>(query->GetDevice(), Ref(output), Ref(log_sums_), Ref(query), Ref(inputs[1]),
                                        Ref(inputs[2]), RefOrNull(mask_view), settings);
    return {output};
}

void ScaledDotProductAttention::SetupContext(const TensorList &inputs, const TensorList &outputs) {
    ctx_.SaveForBackward(
        {inputs[0], inputs[1], inputs[2], num_inputs_ == 4 ? inputs[3] : nullptr, outputs[0], std::move(log_sums_)});
}

TensorList ScaledDotProductAttention::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    const TensorPtr &query = saved[0], &key = saved[1], &value = saved[2], &mask = saved[3];
    const bool has_mask_grad = mask != nullptr && ctx_.needs_input_grad(3) && mask->Dtype() != DataType::kBOOL;
    if (GradMode::IsEnabled() || has_mask_grad) {
        return ComposedBackward(grad_outputs[0], saved);
    }
    TensorList grads = NewGrads(query, key, value);
    const auto dims = WeightDims(*query, *key);
    if (CheckedNumElements(dims, kType) == 0) {
        for (const auto &grad : grads) {
            grad->Zero_();
        }
    } else {
        const auto mask_view = mask != nullptr ? BroadcastTo(*mask, dims, kType) : nullptr;
        const kernels::AttentionSettings settings{scale_, is_causal_, dropout_p_, draw_};
        Dispatch<kernels::AttentionBackward>(query->GetDevice(), Ref(grads[0]), Ref(grads[1]), Ref(grads[2]),
                                             Ref(grad_outputs[0]), Ref(saved[4]), Ref(saved[5]), Ref(query), Ref(key),
                                             Ref(value), RefOrNull(mask_view), settings);
    }
    grads.resize(num_inputs_);
    return grads;
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
