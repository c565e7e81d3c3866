#include <algorithm>
#include <numeric>

#include "infini_train/src/utils/flops.h"

// Formulas follow from what each operator computes; the comments give that. g is the gradient of the output y, the
// gradients of the inputs are named d<input>. That a matrix product of (m, k) and (k, n) takes 2 m n k operations, and
// each of its two gradients as many, is the usual count: G. H. Golub and C. F. Van Loan, "Matrix Computations", 1.1.

namespace infini_train::utils {
namespace {

using Call = const OperatorCall &;

const TensorSpec &At(const std::vector<TensorSpec> &specs, size_t i) {
    static const TensorSpec none;
    return i < specs.size() ? specs[i] : none;
}
int64_t In(Call call, size_t i = 0) {
    return At(call.inputs, i).NumElements();
}
int64_t Out(Call call, size_t i = 0) {
    return At(call.outputs, i).NumElements();
}
int64_t InBytes(Call call, size_t i = 0) {
    return At(call.inputs, i).Bytes();
}
int64_t OutBytes(Call call, size_t i = 0) {
    return At(call.outputs, i).Bytes();
}
bool Needs(Call call, size_t i = 0) {
    return At(call.inputs, i).present && At(call.inputs, i).requires_grad;
}
int64_t Dim(const TensorSpec &spec, int64_t dim) {
    const auto at = dim < 0 ? std::ssize(spec.dims) + dim : dim;
    return at >= 0 && at < std::ssize(spec.dims) ? spec.dims[static_cast<size_t>(at)] : 1;
}
int64_t Total(const std::vector<TensorSpec> &specs) {
    return std::accumulate(specs.begin(), specs.end(), int64_t{0},
                           [](int64_t sum, const TensorSpec &spec) { return sum + spec.Bytes(); });
}
int64_t AllBytes(Call call) {
    return Total(call.inputs) + Total(call.outputs);
}

// ---- Nothing but memory ---------------------------------------------------------------------------------------------

// Views, and gradients that are handed on as they are.
Cost Free(Call) {
    return {};
}
Cost Copy(Call call) {
    return {0, AllBytes(call)};
}
// Of a part of a tensor, or of a copy: each gradient that is needed is written, g is read once.
Cost CopyBackward(Call call) {
    Cost cost;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
        cost.bytes += Needs(call, i) ? InBytes(call, i) : 0;
    }
    cost.bytes += cost.bytes != 0 ? Total(call.outputs) : 0;
    return cost;
}
// Of positions that were repeated: dx sums them.
Cost SumUpBackward(Call call) {
    return Needs(call) ? Cost{std::max<int64_t>(Out(call) - In(call), 0), OutBytes(call) + InBytes(call)} : Cost();
}
// Of a copy to another data type or device: another one, back.
Cost Overwrite(Call call) {
    return {0, Total(call.outputs)};
}

// ---- Elementwise: `Flops` an element of the output ------------------------------------------------------------------

template <int64_t Flops>
Cost Elementwise(Call call) {
    return {Flops * Out(call), AllBytes(call)};
}

// The gradient of one operand from g and `kept` bytes of saved tensors; summed over what the operand was broadcast to.
Cost OperandBackward(Call call, size_t i, int64_t flops, int64_t kept) {
    if (!Needs(call, i)) {
        return {};
    }
    const int64_t summed = Out(call) - In(call, i);
    if (flops == 0 && kept == 0 && summed == 0) {
        return {};  // handed on
    }
    return {flops * Out(call) + summed, OutBytes(call) + kept + InBytes(call, i)};
}

template <int64_t Flops, int64_t Kept>
Cost UnaryBackward(Call call) {
    return OperandBackward(call, 0, Flops, Kept * InBytes(call));
}

// What a gradient reads besides g.
enum Kept : int { kNone = 0, kA = 1, kB = 2, kY = 4 };

template <int64_t FlopsA, int KeptA, int64_t FlopsB, int KeptB>
Cost BinaryBackward(Call call) {
    const auto kept = [&](int which) {
        return ((which & kA) != 0 ? InBytes(call, 0) : 0) + ((which & kB) != 0 ? InBytes(call, 1) : 0) +
               ((which & kY) != 0 ? OutBytes(call) : 0);
    };
    return OperandBackward(call, 0, FlopsA, kept(KeptA)) + OperandBackward(call, 1, FlopsB, kept(KeptB));
}

// y = c ? a : b, a selection without arithmetic.
Cost WhereBackward(Call call) {
    return OperandBackward(call, 1, 0, InBytes(call, 0)) + OperandBackward(call, 2, 0, InBytes(call, 0));
}

// ---- Reductions -----------------------------------------------------------------------------------------------------

// k elements are added, or compared, in k - 1 operations; Each: further ones an output.
template <int64_t Each>
Cost Reduce(Call call) {
    return {std::max<int64_t>(In(call) - Out(call), 0) + Each * Out(call), AllBytes(call)};
}
// dx = g, or g / k, as a view that repeats it.
Cost MeanBackward(Call call) {
    return Needs(call) ? Cost{Out(call), 2 * OutBytes(call)} : Cost();
}
// dx = (x == y) g / #(x == y)
Cost ExtremumBackward(Call call) {
    return Needs(call) ? Cost{3 * In(call), 2 * InBytes(call) + 2 * OutBytes(call)} : Cost();
}

// ---- Products -------------------------------------------------------------------------------------------------------

// y (..., m, n) = a (..., m, k) b (..., k, n): 2 k an element of y. 1-D operands drop m or n.
Cost Matmul(Call call) {
    return {2 * Out(call) * Dim(At(call.inputs, 0), -1), AllBytes(call)};
}
// da = g b^T and db = a^T g: as many operations each, and the sums over a batch that an operand was broadcast to.
Cost MatmulBackward(Call call) {
    const TensorSpec &a = At(call.inputs, 0), &b = At(call.inputs, 1);
    const int64_t k = Dim(a, -1);
    const int64_t n = b.dims.size() > 1 ? Dim(b, -1) : 1;
    const int64_t m = a.dims.size() > 1 ? Dim(a, -2) : 1;
    const int64_t batch = m * n != 0 ? Out(call) / (m * n) : 0;
    Cost cost;
    for (size_t i = 0; i < 2; ++i) {
        if (Needs(call, i)) {
            cost.flops += 2 * Out(call) * k + batch * k * (i == 0 ? m : n) - In(call, i);
            cost.bytes += OutBytes(call) + InBytes(call, 1 - i) + InBytes(call, i);
        }
    }
    return cost;
}
// y (n, m) = a (n) b (m): a multiplication an element; da = g b, db = a g
Cost OuterBackward(Call call) {
    Cost cost;
    for (size_t i = 0; i < 2; ++i) {
        if (Needs(call, i)) {
            cost += {2 * Out(call), OutBytes(call) + InBytes(call, 1 - i) + InBytes(call, i)};
        }
    }
    return cost;
}

// y = x w^T + bias where each element of y sums `inner` products: a fully connected layer or a convolution.
Cost Affine(Call call, int64_t inner) {
    return {2 * Out(call) * inner + (At(call.inputs, 2).present ? Out(call) : 0), AllBytes(call)};
}
// dx and dw as many operations as the product, db the sum of g over all but the channels.
Cost AffineBackward(Call call, int64_t inner) {
    Cost cost;
    for (size_t i = 0; i < 2; ++i) {
        if (Needs(call, i)) {
            cost += {2 * Out(call) * inner, OutBytes(call) + InBytes(call, 1 - i) + InBytes(call, i)};
        }
    }
    if (Needs(call, 2)) {
        cost += {std::max<int64_t>(Out(call) - In(call, 2), 0), OutBytes(call) + InBytes(call, 2)};
    }
    return cost;
}

// w (out, in)
Cost Linear(Call call) {
    return Affine(call, Dim(At(call.inputs, 1), 1));
}
Cost LinearBackward(Call call) {
    return AffineBackward(call, Dim(At(call.inputs, 1), 1));
}

// w (O, C / groups, kH, kW): each output pixel of a channel sums C / groups kH kW products.
int64_t Taps(const TensorSpec &weight) {
    return Dim(weight, 1) * Dim(weight, 2) * Dim(weight, 3);
}
Cost Conv2d(Call call) {
    return Affine(call, Taps(At(call.inputs, 1)));
}
Cost Conv2dBackward(Call call) {
    return AffineBackward(call, Taps(At(call.inputs, 1)));
}
// Inputs (g, w), output dx; and inputs (g, x), output dw. Their own gradients are two more convolutions of that size.
template <bool GivesWeight>
Cost Conv2dGradient(Call call) {
    return {2 * In(call) * Taps(GivesWeight ? At(call.outputs, 0) : At(call.inputs, 1)), AllBytes(call)};
}
template <bool GivesWeight>
Cost Conv2dGradientBackward(Call call) {
    const Cost forward = Conv2dGradient<GivesWeight>(call);
    const int64_t needed = (Needs(call, 0) ? 1 : 0) + (Needs(call, 1) ? 1 : 0);
    return {needed * forward.flops, needed * forward.bytes};
}

// ---- Pooling --------------------------------------------------------------------------------------------------------

// Windows that hang over the edge count in full.
int64_t Window(Call call, int64_t inputs, int64_t outputs) {
    return call.window > 0 ? call.window : std::max<int64_t>(outputs == 0 ? 1 : inputs / outputs, 1);
}
constexpr int64_t kIndexBytes = 4;  // of each maximum's place, int32

// The largest of a window: window - 1 comparisons; its place is kept.
Cost MaxPool(Call call) {
    return {Out(call) * (Window(call, In(call), Out(call)) - 1), AllBytes(call) + kIndexBytes * Out(call)};
}
// g is added at those places; the reverse, which picks from them, adds nothing.
Cost MaxPoolBackward(Call call) {
    return Needs(call) ? Cost{Out(call), OutBytes(call) + kIndexBytes * Out(call) + InBytes(call)} : Cost();
}
Cost MaxPoolScatter(Call call) {
    return {In(call), AllBytes(call) + kIndexBytes * In(call)};
}
Cost MaxPoolPick(Call call) {
    return {0, 2 * OutBytes(call) + kIndexBytes * Out(call)};
}
Cost MaxPoolScatterBackward(Call call) {
    return Needs(call) ? Cost{0, 2 * InBytes(call) + kIndexBytes * In(call)} : Cost();
}
// The mean of a window: window - 1 additions and a division.
Cost AvgPool(Call call) {
    return {Out(call) * Window(call, In(call), Out(call)), AllBytes(call)};
}
// g is divided once and added to every element of its window.
Cost AvgPoolBackward(Call call) {
    return Needs(call) ? Cost{Out(call) * (Window(call, In(call), Out(call)) + 1), OutBytes(call) + InBytes(call)}
                       : Cost();
}
Cost AvgPoolSpread(Call call) {
    return {In(call) * (Window(call, Out(call), In(call)) + 1), AllBytes(call)};
}
Cost AvgPoolSpreadBackward(Call call) {
    return Needs(call) ? Cost{In(call) * Window(call, Out(call), In(call)), AllBytes(call)} : Cost();
}

// ---- Normalisation, softmax, losses ---------------------------------------------------------------------------------

// Mean: an addition an element. Variance: subtract, square, add. Then subtract, scale; times weight, plus bias. The
// divisions and the root, a few a row, are left out.
Cost LayerNorm(Call call) {
    const int64_t affine = (At(call.inputs, 1).present ? 1 : 0) + (At(call.inputs, 2).present ? 1 : 0);
    return {(6 + affine) * In(call), AllBytes(call)};
}
// x^ = (x - mean) rstd: 2. dx = rstd (gw - mean(gw) - x^ mean(gw x^)) with gw = g weight: 1 for gw, 1 and 2 for the
// sums, 4 for the rest. dweight = sum(g x^): 2, dbias = sum(g): 1.
Cost LayerNormBackward(Call call) {
    const int64_t n = In(call);
    const bool has_weight = At(call.inputs, 1).present;
    Cost cost;
    if (Needs(call, 0) || Needs(call, 1)) {
        cost += {2 * n, OutBytes(call) + InBytes(call)};
    }
    if (Needs(call, 0)) {
        cost += {(7 + (has_weight ? 1 : 0)) * n, InBytes(call) + InBytes(call, 1)};
    }
    if (Needs(call, 1)) {
        cost += {2 * n, InBytes(call, 1)};
    }
    if (Needs(call, 2)) {
        cost += {n, InBytes(call, 2) + (cost.bytes == 0 ? OutBytes(call) : 0)};
    }
    return cost;
}

// Mean square: 2 an element. Then scale, times weight.
Cost RmsNorm(Call call) {
    return {(3 + (At(call.inputs, 1).present ? 1 : 0)) * In(call), AllBytes(call)};
}
// x^ = x rstd: 1. dx = rstd (gw - x^ mean(gw x^)): 1 for gw, 2 for the sum, 3 for the rest. dweight = sum(g x^): 2.
Cost RmsNormBackward(Call call) {
    const int64_t n = In(call);
    Cost cost;
    if (Needs(call, 0) || Needs(call, 1)) {
        cost += {n, OutBytes(call) + InBytes(call)};
    }
    if (Needs(call, 0)) {
        cost += {(5 + (At(call.inputs, 1).present ? 1 : 0)) * n, InBytes(call) + InBytes(call, 1)};
    }
    if (Needs(call, 1)) {
        cost += {2 * n, InBytes(call, 1)};
    }
    return cost;
}

// (B, H, T, S) weights: 2 D for a score, scaled; 4 for the softmax as below; 2 Dv to sum the values. What causality
// hides is counted too, as is usual.
Cost Attention(Call call) {
    const int64_t features = Dim(At(call.inputs, 0), -1), value_features = Dim(At(call.inputs, 2), -1);
    const int64_t queries = features != 0 ? In(call) / features : 0;
    return {queries * Dim(At(call.inputs, 1), 2) * (2 * features + 2 * value_features + 5), AllBytes(call)};
}
// The scores again, the gradient of the weights, dv, dq and dk: 3 products over D or for it, 2 for Dv; and 6 for the
// weights and the softmax's gradient.
Cost AttentionBackward(Call call) {
    if (!Needs(call, 0) && !Needs(call, 1) && !Needs(call, 2)) {
        return {};
    }
    const int64_t features = Dim(At(call.inputs, 0), -1), value_features = Dim(At(call.inputs, 2), -1);
    const int64_t queries = features != 0 ? In(call) / features : 0;
    return {queries * Dim(At(call.inputs, 1), 2) * (6 * features + 4 * value_features + 6),
            2 * Total(call.inputs) + 2 * OutBytes(call)};
}

// A pair: 4 multiplications, an addition and a subtraction; dx is turned back.
Cost RotaryBackward(Call call) {
    Cost cost;
    if (Needs(call, 0)) {
        cost += {3 * Out(call), OutBytes(call) + Total(call.inputs)};
    }
    // dcos and dsin: 3 a pair, and the sums over all but the last two dimensions.
    for (const size_t i : {1, 2}) {
        if (Needs(call, i)) {
            cost += {2 * Out(call) - In(call, i), OutBytes(call) + InBytes(call) + InBytes(call, i)};
        }
    }
    return cost;
}

// silu(x) u = x s u with s the sigmoid of x, 4. Backward: s again; dx = g u (s (1 + x (1 - s))): 6; du = g (x s): 2.
Cost SwiGluBackward(Call call) {
    Cost cost;
    if (Needs(call, 0)) {
        cost += {6 * Out(call), InBytes(call)};
    }
    if (Needs(call, 1)) {
        cost += {2 * Out(call), InBytes(call)};
    }
    return cost.bytes == 0 ? cost : cost + Cost{4 * Out(call), AllBytes(call)};
}

// Compare for the maximum, subtract it, exp, add up, and divide (Softmax) or subtract the logarithm (LogSoftmax).
// Backward: dx = y (g - sum(g y)), or g - e^y sum(g): 4 an element.
//
// Cross-entropy of logits (N, C, ...): the first four of these; backward: subtract, exp, scale.
Cost CrossEntropy(Call call) {
    return {4 * In(call), AllBytes(call)};
}
Cost CrossEntropyBackward(Call call) {
    return Needs(call) ? Cost{3 * In(call), 2 * InBytes(call) + InBytes(call, 1) + OutBytes(call)} : Cost();
}

// The mask is a byte an element; drawing it isn't arithmetic.
Cost Dropout(Call call) {
    return {Out(call), AllBytes(call) + Out(call)};
}
Cost DropoutBackward(Call call) {
    return Needs(call) && !call.is_view ? Cost{Out(call), OutBytes(call) + Out(call) + InBytes(call)} : Cost();
}

// ---- Lookup ---------------------------------------------------------------------------------------------------------

// y[i] = weight[index[i]]: reads the rows that are asked for, not the whole table. Backward: adds each at its place.
Cost Embedding(Call call) {
    return {0, InBytes(call, 0) + 2 * OutBytes(call)};
}
Cost EmbeddingBackward(Call call) {
    return Needs(call, 1) ? Cost{Out(call), OutBytes(call) + InBytes(call, 0) + InBytes(call, 1)} : Cost();
}
// x and index: y[i] = x[index[i]].
Cost Gather(Call call) {
    return {0, InBytes(call, 1) + 2 * OutBytes(call)};
}
Cost GatherBackward(Call call) {
    return Needs(call) ? Cost{Out(call), OutBytes(call) + InBytes(call, 1) + InBytes(call)} : Cost();
}
// values and index: y[index[i]] += values[i].
Cost Scatter(Call call) {
    return {In(call), AllBytes(call)};
}
Cost ScatterBackward(Call call) {
    return Needs(call) ? Cost{0, InBytes(call, 1) + 2 * InBytes(call)} : Cost();
}

// One line a type, alphabetical.
constexpr CostRow kRows[] = {
    {"Abs", Elementwise<1>, UnaryBackward<1, 1>},  // g sign(x)
    {"AccumulateGrad", Free, Free},                // see the profiler: it adds where there is a gradient already
    {"Add", Elementwise<1>, BinaryBackward<0, kNone, 0, kNone>},
    {"AddScalar", Elementwise<1>, Free},
    {"And", Elementwise<1>, Free},
    {"AndScalar", Elementwise<1>, Free},
    {"Argmax", Reduce<0>, Free},
    {"Argmin", Reduce<0>, Free},
    {"AvgPool2d", AvgPool, AvgPoolBackward},
    {"AvgPool2dBackward", AvgPoolSpread, AvgPoolSpreadBackward},
    {"Cast", Copy, CopyBackward},
    {"CheckpointInput", Free, Free},
    {"Clamp", Elementwise<2>, UnaryBackward<2, 1>},  // compared with both limits
    {"Clone", Copy, Free},
    {"Concat", Copy, Free},
    {"Contiguous", Copy, Free},
    {"Conv2d", Conv2d, Conv2dBackward},
    {"Conv2dBackwardInput", Conv2dGradient<false>, Conv2dGradientBackward<false>},
    {"Conv2dBackwardWeight", Conv2dGradient<true>, Conv2dGradientBackward<true>},
    {"Copy_", Copy, CopyBackward},
    {"Cos", Elementwise<1>, UnaryBackward<3, 1>},  // -g sin(x)
    {"CrossEntropy", CrossEntropy, CrossEntropyBackward},
    {"Div", Elementwise<1>, BinaryBackward<1, kB, 3, kB | kY>},  // g / b, -(g y / b)
    {"DivScalar", Elementwise<1>, UnaryBackward<1, 0>},
    {"Dropout", Dropout, DropoutBackward},
    {"Embedding", Embedding, EmbeddingBackward},
    {"EmbeddingBackward", Scatter, ScatterBackward},
    {"Equals", Elementwise<1>, Free},
    {"EqualsScalar", Elementwise<1>, Free},
    {"Exp", Elementwise<1>, UnaryBackward<1, 1>},  // g y
    {"Expand", Copy, SumUpBackward},
    {"Gather", Gather, GatherBackward},
    {"Ge", Elementwise<1>, Free},
    {"GeScalar", Elementwise<1>, Free},
    {"Gelu", Elementwise<5>, UnaryBackward<11, 1>},  // x / 2 (1 + erf(c x)), also where tanh approximates it
    {"Gt", Elementwise<1>, Free},
    {"GtScalar", Elementwise<1>, Free},
    {"LayerNorm", LayerNorm, LayerNormBackward},
    {"Le", Elementwise<1>, Free},
    {"LeScalar", Elementwise<1>, Free},
    {"Linear", Linear, LinearBackward},
    {"Log", Elementwise<1>, UnaryBackward<1, 1>},  // g / x
    {"LogSoftmax", Elementwise<5>, UnaryBackward<4, 1>},
    {"Lt", Elementwise<1>, Free},
    {"LtScalar", Elementwise<1>, Free},
    {"Mask", Copy, CopyBackward},
    {"MaskScale", Elementwise<1>, UnaryBackward<1, 0>},
    {"Matmul", Matmul, MatmulBackward},
    {"Max", Reduce<0>, ExtremumBackward},
    {"MaxPool2d", MaxPool, MaxPoolBackward},
    {"MaxPool2dBackward", MaxPoolScatter, MaxPoolScatterBackward},
    {"MaxPool2dGather", MaxPoolPick, MaxPoolBackward},
    {"Maximum", Elementwise<1>, BinaryBackward<2, kA | kB, 2, kA | kB>},  // compare for loss and tie
    {"Mean", Reduce<1>, MeanBackward},
    {"Min", Reduce<0>, ExtremumBackward},
    {"Minimum", Elementwise<1>, BinaryBackward<2, kA | kB, 2, kA | kB>},
    {"ModuleInput", Free, Free},
    {"ModuleOutput", Free, Free},
    {"Mul", Elementwise<1>, BinaryBackward<1, kB, 1, kA>},
    {"MulScalar", Elementwise<1>, UnaryBackward<1, 0>},
    {"Narrow", Copy, CopyBackward},
    {"Neg", Elementwise<1>, UnaryBackward<1, 0>},
    {"NoOp", Copy, Free},
    {"NormalDistribution", Elementwise<4>, UnaryBackward<5, 1>},  // 1/2 (1 + erf(c x)); g c e^(-x x / 2)
    {"NotEquals", Elementwise<1>, Free},
    {"NotEqualsScalar", Elementwise<1>, Free},
    {"Or", Elementwise<1>, Free},
    {"OrScalar", Elementwise<1>, Free},
    {"Outer", Elementwise<1>, OuterBackward},
    {"Overwrite", Overwrite, CopyBackward},
    {"Permute", Copy, Free},
    {"PiecesBackward", Copy, Free},
    {"Pow", Elementwise<1>, UnaryBackward<3, 1>},  // g n x^(n - 1)
    {"RMSNorm", RmsNorm, RmsNormBackward},
    {"RSubScalar", Elementwise<1>, UnaryBackward<1, 0>},
    {"Reciprocal", Elementwise<1>, UnaryBackward<3, 1>},  // -g y y
    {"Relu", Elementwise<1>, UnaryBackward<1, 1>},
    {"RepeatInterleave", Copy, SumUpBackward},
    {"Reshape", Copy, Free},
    {"RotaryEmbedding", Elementwise<3>, RotaryBackward},
    {"Rsqrt", Elementwise<2>, UnaryBackward<4, 1>},  // 1 / sqrt(x); -1/2 g y y y
    {"ScaledDotProductAttention", Attention, AttentionBackward},
    {"Scatter", Scatter, ScatterBackward},
    {"Select", Copy, CopyBackward},
    {"Sigmoid", Elementwise<4>, UnaryBackward<3, 1>},  // 1 / (1 + exp(-x)); g y (1 - y)
    {"Silu", Elementwise<5>, UnaryBackward<9, 1>},     // x s with s = sigmoid(x); g s (1 + x (1 - s))
    {"Sin", Elementwise<1>, UnaryBackward<2, 1>},      // g cos(x)
    {"Slice", Copy, CopyBackward},
    {"SliceBackward", Copy, Free},
    {"Softmax", Elementwise<5>, UnaryBackward<4, 1>},
    {"Split", Copy, CopyBackward},
    {"Sqrt", Elementwise<1>, UnaryBackward<2, 1>},    // g / (2 y)
    {"Square", Elementwise<1>, UnaryBackward<2, 1>},  // 2 g x
    {"Squeeze", Copy, Free},
    {"Stack", Copy, Free},
    {"Sub", Elementwise<1>, BinaryBackward<0, kNone, 1, kNone>},
    {"SubScalar", Elementwise<1>, Free},
    {"Sum", Reduce<0>, Free},
    {"SwiGLU", Elementwise<6>, SwiGluBackward},
    {"Tanh", Elementwise<1>, UnaryBackward<3, 1>},  // g (1 - y y)
    {"ToDevice", Copy, CopyBackward},
    {"Transpose", Copy, Free},
    {"Tril", Copy, CopyBackward},
    {"Triu", Copy, CopyBackward},
    {"Unbind", Copy, CopyBackward},
    {"Unsqueeze", Copy, Free},
    {"View", Copy, Free},
    {"Where", Elementwise<0>, WhereBackward},
};

}  // namespace

std::span<const CostRow> CostTable() {
    return kRows;
}

}  // namespace infini_train::utils
