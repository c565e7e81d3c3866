#include <optional>

#include "infini_train/include/autograd/activations.h"
#include "infini_train/include/autograd/attention.h"
#include "infini_train/include/autograd/cast.h"
#include "infini_train/include/autograd/comparison.h"
#include "infini_train/include/autograd/conv.h"
#include "infini_train/include/autograd/dropout.h"
#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/autograd/gather.h"
#include "infini_train/include/autograd/linear.h"
#include "infini_train/include/autograd/loss.h"
#include "infini_train/include/autograd/matmul.h"
#include "infini_train/include/autograd/no_op.h"
#include "infini_train/include/autograd/normalization.h"
#include "infini_train/include/autograd/outer.h"
#include "infini_train/include/autograd/pooling.h"
#include "infini_train/include/autograd/reduction.h"
#include "infini_train/include/autograd/rotary.h"
#include "infini_train/include/autograd/scatter.h"
#include "infini_train/include/autograd/softmax.h"
#include "infini_train/include/autograd/sparse.h"
#include "infini_train/include/autograd/transform.h"
#include "infini_train/include/autograd/view.h"

#include "test/operator_cases/case.h"

namespace infini_train::test {

using namespace autograd;  // NOLINT(google-build-using-namespace): the table names every operator

OperatorRows ElementwiseRows() {
    OperatorRows rows = {
        {"Neg/plain", Apply<Neg>(), true, true},
        {"Reciprocal/plain", Apply<Reciprocal>()},
        {"Sin/plain", Apply<Sin>()},
        {"Cos/plain", Apply<Cos>()},
        {"Tanh/plain", Apply<Tanh>()},
        {"Rsqrt/plain", Apply<Rsqrt>()},
        {"Exp/plain", Apply<Exp>()},
        {"Log/plain", Apply<Log>()},
        {"Sqrt/plain", Apply<Sqrt>()},
        {"Square/plain", Apply<Square>(), true, true},
        {"Abs/plain", Apply<Abs>(), true, true},
        {"Sigmoid/plain", Apply<Sigmoid>()},
        {"Relu/plain", Apply<Relu>(), true, true},
        {"Silu/plain", Apply<Silu>()},
        {"SwiGLU/plain", Apply<SwiGLU>()},
        {"Gelu/exact", Apply<Gelu>(false)},
        {"Gelu/tanh", Apply<Gelu>(true)},
        {"Pow/2", Apply<Pow>(2)},
        {"Pow/3", Apply<Pow>(3)},
        {"Pow/minus1", Apply<Pow>(-1.0)},
        {"Pow/half", Apply<Pow>(0.5)},
        {"Pow/1.7", Apply<Pow>(1.7)},
        {"Clamp/both", Apply<Clamp>(std::optional<Scalar>(-0.507), std::optional<Scalar>(1.003))},
        {"Clamp/min", Apply<Clamp>(std::optional<Scalar>(-0.507), std::optional<Scalar>())},
        {"Clamp/max", Apply<Clamp>(std::optional<Scalar>(), std::optional<Scalar>(1.003))},
        {"Add/plain", Apply<Add>(), true, true},
        {"Sub/plain", Apply<Sub>(), true, true},
        {"Mul/plain", Apply<Mul>(), true, true},
        {"Div/plain", Apply<Div>()},
        {"Maximum/plain", Apply<Maximum>(), true, true},
        {"Minimum/plain", Apply<Minimum>(), true, true},
        {"Where/plain", Apply<Where>(), true, true},
        {"Equals/plain", Apply<Equals>(), false, true},
        {"NotEquals/plain", Apply<NotEquals>(), false, true},
        {"Lt/plain", Apply<Lt>(), false, true},
        {"Le/plain", Apply<Le>(), false, true},
        {"Gt/plain", Apply<Gt>(), false, true},
        {"Ge/plain", Apply<Ge>(), false, true},
        {"And/plain", Apply<And>(), false, true},
        {"Or/plain", Apply<Or>(), false, true},
        {"EqualsScalar/0.5", Apply<EqualsScalar>(0.5), false, true},
        {"NotEqualsScalar/0.5", Apply<NotEqualsScalar>(0.5), false, true},
        {"LtScalar/0.5", Apply<LtScalar>(0.5), false, true},
        {"LeScalar/0.5", Apply<LeScalar>(0.5), false, true},
        {"GtScalar/0.5", Apply<GtScalar>(0.5), false, true},
        {"GeScalar/0.5", Apply<GeScalar>(0.5), false, true},
        {"AndScalar/0.5", Apply<AndScalar>(0.5), false, true},
        {"OrScalar/0.5", Apply<OrScalar>(0.5), false, true},
    };
    for (const auto &[text, number] : {std::pair{"1.5", 1.5}, std::pair{"-2", -2.0}}) {
        const std::string variant = std::string("/") + text;
        rows.push_back({"AddScalar" + variant, Apply<AddScalar>(number)});
        rows.push_back({"SubScalar" + variant, Apply<SubScalar>(number)});
        rows.push_back({"RSubScalar" + variant, Apply<RSubScalar>(number)});
        rows.push_back({"MulScalar" + variant, Apply<MulScalar>(number)});
        rows.push_back({"DivScalar" + variant, Apply<DivScalar>(number)});
    }
    return rows;
}

OperatorRows ReductionRows() {
    OperatorRows rows = {
        {"Argmax/all", Apply<Argmax>(), false},
        {"Argmax/1_keep", Apply<Argmax>(std::optional<int64_t>(1), true), false},
        {"Argmin/all", Apply<Argmin>(), false},
        {"Argmin/1_keep", Apply<Argmin>(std::optional<int64_t>(1), true), false},
        {"LayerNorm/last", Apply<LayerNorm>()},
        {"LayerNorm/last_two", Apply<LayerNorm>()},
        {"LayerNorm/plain", Apply<LayerNorm>()},
        {"RMSNorm/weight", Apply<RMSNorm>(1e-5)},
        {"RMSNorm/plain", Apply<RMSNorm>(0.1)},
        {"CrossEntropy/mean", Apply<CrossEntropy>()},
        {"CrossEntropy/sum", Apply<CrossEntropy>(-100, 0.0, Reduction::kSum)},
        {"CrossEntropy/none", Apply<CrossEntropy>(-100, 0.0, Reduction::kNone)},
        {"CrossEntropy/smooth", Apply<CrossEntropy>(-100, 0.1)},
        {"CrossEntropy/ignore", Apply<CrossEntropy>(2, 0.2)},
    };
    const std::pair<const char *, std::vector<int64_t>> variants[] = {
        {"all", {}}, {"0", {0}}, {"-1", {-1}}, {"0_2", {0, 2}}};
    for (const auto &[text, dims] : variants) {
        for (const bool keep : {false, true}) {
            const std::string variant = std::string("/") + text + (keep ? "_keep" : "");
            rows.push_back({"Sum" + variant, Apply<Sum>(dims, keep), true, true});
            rows.push_back({"Mean" + variant, Apply<Mean>(dims, keep)});
            rows.push_back({"Max" + variant, Apply<Max>(dims, keep), true, true});
            rows.push_back({"Min" + variant, Apply<Min>(dims, keep), true, true});
        }
    }
    for (const int64_t dim : {-1, 0, 1}) {
        const std::string variant = "/" + std::to_string(dim);
        rows.push_back({"Softmax" + variant, Apply<Softmax>(dim)});
        rows.push_back({"LogSoftmax" + variant, Apply<LogSoftmax>(dim)});
    }
    return rows;
}

OperatorRows ProductRows() {
    const auto max_pool = [](Size2d kernel, Size2d stride, Size2d padding, Size2d dilation, bool ceil_mode) {
        return Apply<MaxPool2d>(kernel, std::optional<Size2d>(stride), padding, dilation, ceil_mode);
    };
    return {
        {"Matmul/plain", Apply<Matmul>(), true, true},
        {"Linear/plain", Apply<Linear>()},
        {"Linear/bias", Apply<Linear>()},
        {"Outer/plain", Apply<Outer>()},
        {"Conv2d/plain", Apply<Conv2d>()},
        {"Conv2d/no_bias", Apply<Conv2d>()},
        {"Conv2d/pad1", Apply<Conv2d>(Size2d(1), Size2d(1))},
        {"Conv2d/stride2_pad1x2", Apply<Conv2d>(Size2d(2), Size2d(1, 2))},
        {"Conv2d/dilation2", Apply<Conv2d>(Size2d(1), Size2d(0), Size2d(2))},
        {"Conv2d/groups2", Apply<Conv2d>(Size2d(1), Size2d(1), Size2d(1), 2)},
        {"ScaledDotProductAttention/plain", Apply<ScaledDotProductAttention>()},
        {"ScaledDotProductAttention/causal", Apply<ScaledDotProductAttention>(true)},
        {"ScaledDotProductAttention/bool_mask", Apply<ScaledDotProductAttention>()},
        {"ScaledDotProductAttention/added_mask", Apply<ScaledDotProductAttention>(true, 0.0, std::optional(0.5))},
        {"RotaryEmbedding/halves", Apply<RotaryEmbedding>()},
        {"RotaryEmbedding/interleaved", Apply<RotaryEmbedding>(true)},
        {"MaxPool2d/2", max_pool(2, 2, 0, 1, false)},
        {"MaxPool2d/3_stride2_pad1", max_pool(3, 2, 1, 1, false)},
        {"MaxPool2d/ceil", max_pool({2, 3}, 2, 0, 1, true)},
        {"MaxPool2d/dilation2", max_pool(2, 1, 0, 2, false)},
        {"AvgPool2d/2", Apply<AvgPool2d>(Size2d(2))},
        {"AvgPool2d/3_stride2_pad1", Apply<AvgPool2d>(Size2d(3), std::optional<Size2d>(2), Size2d(1))},
        {"AvgPool2d/exclude_pad", Apply<AvgPool2d>(Pool2dOptions{3, 2, 1, 1, true, false})},
    };
}

OperatorRows ShapeRows() {
    using Dims = std::vector<int64_t>;
    OperatorRows rows = {
        {"Transpose/0_1", Apply<Transpose>(0, 1), true, true},
        {"Transpose/-1_0", Apply<Transpose>(-1, 0), true, true},
        {"Permute/2_0_1", Apply<Permute>(Dims{2, 0, 1}), true, true},
        {"View/flat", [](const TensorList &in) { return Apply<View>(Dims{-1})({in[0]->Contiguous()}); }, true, true},
        {"Reshape/transposed", [](const TensorList &in) { return Apply<Reshape>(Dims{-1})({in[0]->Transpose(0, 1)}); },
         true, true},
        {"NoOp/5_3", Apply<NoOp>(Dims{5, 3}), true, true},
        {"Contiguous/transposed", [](const TensorList &in) { return Apply<Contiguous>()({in[0]->Transpose(0, 1)}); },
         true, true},
        {"Slice/all", Apply<Slice>(Dims{1, 0}, Dims{3, 5}, Dims{1, 2}), true, true},
        {"Slice/dim1", Apply<Slice>(1, 1, -1, 3), true, true},
        {"Narrow/1_1_2", Apply<Narrow>(1, 1, 2), true, true},
        {"Select/1_-1", Apply<Select>(1, -1), true, true},
        {"Split/2_1", Apply<Split>(2, 1), true, true},
        {"Unbind/0", Apply<Unbind>(0), true, true},
        {"Expand/2_3_5", Apply<Expand>(Dims{2, 3, 5}), true, true},
        {"Squeeze/1", Apply<Squeeze>(std::optional<int64_t>(1)), true, true},
        {"Squeeze/all", Apply<Squeeze>(), true, true},
        {"Unsqueeze/1", Apply<Unsqueeze>(1), true, true},
        {"Clone/plain", Apply<Clone>(), true, true},
        {"Cast/same", [](const TensorList &in) { return Apply<Cast>(in[0]->Dtype())(in); }, true, true},
        {"ToDevice/same", Apply<ToDevice>(Device()), true, true},
        {"Mask/0.5", [](const TensorList &in) { return Apply<Mask>(in[1], Scalar(0.5))({in[0]}); }},
        {"RepeatInterleave/2_0", Apply<RepeatInterleave>(2, 0), true, true},
        {"RepeatInterleave/3_1", Apply<RepeatInterleave>(3, 1), true, true},
        {"Stack/0", Apply<Stack>(0), true, true},
        {"Stack/-1", Apply<Stack>(-1), true, true},
        {"Concat/0", Apply<Concat>(0), true, true},
        {"Concat/-1", Apply<Concat>(-1), true, true},
        {"Gather/1", Apply<Gather>(1), true, true},
        {"Gather/0", Apply<Gather>(0), true, true},
        {"Scatter/3_4_dim1", Apply<Scatter>(Dims{3, 4}, 1), true, true},
        {"Embedding/plain", Apply<Embedding>()},
        {"Dropout/0", Apply<Dropout>(0.0)},
    };
    for (const int64_t diagonal : {0, 1, -1}) {
        const std::string variant = "/" + std::to_string(diagonal);
        rows.push_back({"Tril" + variant, Apply<Tril>(diagonal), true, true});
        rows.push_back({"Triu" + variant, Apply<Triu>(diagonal), true, true});
    }
    return rows;
}

const OperatorRows &AllRows() {
    static const OperatorRows all = [] {
        OperatorRows rows;
        for (const OperatorRows &family : {ElementwiseRows(), ReductionRows(), ProductRows(), ShapeRows()}) {
            rows.insert(rows.end(), family.begin(), family.end());
        }
        return rows;
    }();
    return all;
}

const std::vector<std::pair<std::string, std::string>> &CoveredOperators() {
    // The backward halves are the gradients in the rows of their forward halves, and their own in the second
    // derivatives.
    static const std::vector<std::pair<std::string, std::string>> covered = {
        {"Conv2dBackwardInput", "Conv2d"}, {"Conv2dBackwardWeight", "Conv2d"}, {"MaxPool2dBackward", "MaxPool2d"},
        {"MaxPool2dGather", "MaxPool2d"},  {"AvgPool2dBackward", "AvgPool2d"},
    };
    return covered;
}

}  // namespace infini_train::test
