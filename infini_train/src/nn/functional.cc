#include "infini_train/include/nn/functional.h"

#include <memory>
#include <utility>

#include "infini_train/include/autograd/activations.h"
#include "infini_train/include/autograd/attention.h"
#include "infini_train/include/autograd/conv.h"
#include "infini_train/include/autograd/dropout.h"
#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/autograd/linear.h"
#include "infini_train/include/autograd/matmul.h"
#include "infini_train/include/autograd/normalization.h"
#include "infini_train/include/autograd/pooling.h"
#include "infini_train/include/autograd/reduction.h"
#include "infini_train/include/autograd/rotary.h"
#include "infini_train/include/autograd/softmax.h"
#include "infini_train/include/autograd/sparse.h"
#include "infini_train/include/autograd/transform.h"
#include "infini_train/include/tensor.h"

namespace infini_train::nn::function {
namespace {

template <typename F, typename... Args>
TensorPtr Run(const TensorList &inputs, Args &&...args) {
    return std::make_shared<F>(std::forward<Args>(args)...)->Apply(inputs)[0];
}

TensorList WithBias(const TensorPtr &input, const TensorPtr &weight, const TensorPtr &bias) {
    return bias == nullptr ? TensorList{input, weight} : TensorList{input, weight, bias};
}

}  // namespace

TensorPtr Ones(const std::vector<int64_t> &dims, DataType dtype, Device device) {
    return Tensor::Ones(dims, dtype, device);
}

TensorPtr Zeros(const std::vector<int64_t> &dims, DataType dtype, Device device) {
    return Tensor::Zeros(dims, dtype, device);
}

TensorPtr Reciprocal(const TensorPtr &input) {
    return Run<autograd::Reciprocal>({input});
}

TensorPtr Sin(const TensorPtr &input) {
    return Run<autograd::Sin>({input});
}

TensorPtr Cos(const TensorPtr &input) {
    return Run<autograd::Cos>({input});
}

TensorPtr Tanh(const TensorPtr &input) {
    return Run<autograd::Tanh>({input});
}

TensorPtr Exp(const TensorPtr &input) {
    return Run<autograd::Exp>({input});
}

TensorPtr Log(const TensorPtr &input) {
    return Run<autograd::Log>({input});
}

TensorPtr Sqrt(const TensorPtr &input) {
    return Run<autograd::Sqrt>({input});
}

TensorPtr Rsqrt(const TensorPtr &input) {
    return Run<autograd::Rsqrt>({input});
}

TensorPtr Pow(const TensorPtr &input, Scalar exponent) {
    return Run<autograd::Pow>({input}, exponent);
}

TensorPtr Sigmoid(const TensorPtr &input) {
    return Run<autograd::Sigmoid>({input});
}

TensorPtr Relu(const TensorPtr &input) {
    return Run<autograd::Relu>({input});
}

TensorPtr Gelu(const TensorPtr &input, bool tanh_approximation) {
    return Run<autograd::Gelu>({input}, tanh_approximation);
}

TensorPtr Silu(const TensorPtr &input) {
    return Run<autograd::Silu>({input});
}

TensorPtr Where(const TensorPtr &condition, const TensorPtr &a, const TensorPtr &b) {
    return Run<autograd::Where>({condition, a, b});
}

TensorPtr Mean(const TensorPtr &input) {
    return Run<autograd::Mean>({input});
}

TensorPtr Mean(const TensorPtr &input, int64_t dim, bool keep_dim) {
    return Run<autograd::Mean>({input}, dim, keep_dim);
}

TensorPtr Mean(const TensorPtr &input, const std::vector<int64_t> &dims, bool keep_dim) {
    return Run<autograd::Mean>({input}, dims, keep_dim);
}

TensorPtr Sum(const TensorPtr &input) {
    return Run<autograd::Sum>({input});
}

TensorPtr Sum(const TensorPtr &input, int64_t dim, bool keep_dim) {
    return Run<autograd::Sum>({input}, dim, keep_dim);
}

TensorPtr Sum(const TensorPtr &input, const std::vector<int64_t> &dims, bool keep_dim) {
    return Run<autograd::Sum>({input}, dims, keep_dim);
}

TensorPtr Min(const TensorPtr &input) {
    return Run<autograd::Min>({input});
}

TensorPtr Min(const TensorPtr &input, int64_t dim, bool keep_dim) {
    return Run<autograd::Min>({input}, dim, keep_dim);
}

TensorPtr Max(const TensorPtr &input) {
    return Run<autograd::Max>({input});
}

TensorPtr Max(const TensorPtr &input, int64_t dim, bool keep_dim) {
    return Run<autograd::Max>({input}, dim, keep_dim);
}

TensorPtr Softmax(const TensorPtr &input, int64_t dim) {
    return Run<autograd::Softmax>({input}, dim);
}

TensorPtr LogSoftmax(const TensorPtr &input, int64_t dim) {
    return Run<autograd::LogSoftmax>({input}, dim);
}

TensorPtr Tril(const TensorPtr &input, int64_t diagonal) {
    return Run<autograd::Tril>({input}, diagonal);
}

TensorPtr Triu(const TensorPtr &input, int64_t diagonal) {
    return Run<autograd::Triu>({input}, diagonal);
}

TensorPtr Slice(const TensorPtr &input, const std::vector<int64_t> &starts, const std::vector<int64_t> &ends,
                const std::vector<int64_t> &steps) {
    return Run<autograd::Slice>({input}, starts, ends, steps);
}

TensorPtr Slice(const TensorPtr &input, int64_t dim, int64_t start, int64_t end, int64_t step) {
    return Run<autograd::Slice>({input}, dim, start, end, step);
}

TensorPtr Stack(const TensorList &inputs, int64_t dim) {
    return Run<autograd::Stack>(inputs, dim);
}

TensorPtr Concat(const TensorList &inputs, int64_t dim) {
    return Run<autograd::Concat>(inputs, dim);
}

TensorList Split(const TensorPtr &input, int64_t split_size, int64_t dim) {
    return std::make_shared<autograd::Split>(split_size, dim)->Apply({input});
}

TensorList Split(const TensorPtr &input, const std::vector<int64_t> &sizes, int64_t dim) {
    return std::make_shared<autograd::Split>(sizes, dim)->Apply({input});
}

TensorPtr MaskedFill(const TensorPtr &input, const TensorPtr &mask, Scalar value) {
    return Run<autograd::Mask>({input}, mask, value);
}

TensorPtr Matmul(const TensorPtr &a, const TensorPtr &b) {
    return Run<autograd::Matmul>({a, b});
}

TensorPtr Linear(const TensorPtr &input, const TensorPtr &weight, const TensorPtr &bias) {
    return Run<autograd::Linear>(WithBias(input, weight, bias));
}

TensorPtr Conv2d(const TensorPtr &input, const TensorPtr &weight, const TensorPtr &bias, Size2d stride, Size2d padding,
                 Size2d dilation, int64_t groups) {
    return Run<autograd::Conv2d>(WithBias(input, weight, bias), stride, padding, dilation, groups);
}

TensorPtr MaxPool2d(const TensorPtr &input, Size2d kernel, std::optional<Size2d> stride, Size2d padding,
                    Size2d dilation, bool ceil_mode) {
    return Run<autograd::MaxPool2d>({input}, kernel, stride, padding, dilation, ceil_mode);
}

TensorPtr AvgPool2d(const TensorPtr &input, Size2d kernel, std::optional<Size2d> stride, Size2d padding, bool ceil_mode,
                    bool count_include_pad) {
    return Run<autograd::AvgPool2d>({input}, kernel, stride, padding, ceil_mode, count_include_pad);
}

TensorPtr Embedding(const TensorPtr &indices, const TensorPtr &weight) {
    return Run<autograd::Embedding>({indices, weight});
}

TensorPtr LayerNorm(const TensorPtr &input, const std::vector<int64_t> &normalized_shape, const TensorPtr &weight,
                    const TensorPtr &bias, double eps) {
    return Run<autograd::LayerNorm>({input, weight, bias}, eps, normalized_shape);
}

TensorPtr RmsNorm(const TensorPtr &input, const TensorPtr &weight, double eps) {
    return Run<autograd::RMSNorm>({input, weight}, eps);
}

TensorPtr RotaryEmbedding(const TensorPtr &x, const TensorPtr &cos, const TensorPtr &sin, bool interleaved) {
    return Run<autograd::RotaryEmbedding>({x, cos, sin}, interleaved);
}

TensorPtr SwiGlu(const TensorPtr &gate, const TensorPtr &up) {
    return Run<autograd::SwiGLU>({gate, up});
}

TensorPtr ScaledDotProductAttention(const TensorPtr &query, const TensorPtr &key, const TensorPtr &value,
                                    const AttentionOptions &options) {
    TensorList inputs{query, key, value};
    if (options.mask != nullptr) {
        inputs.push_back(options.mask);
    }
    return Run<autograd::ScaledDotProductAttention>(inputs, options.is_causal, options.dropout_p, options.scale,
                                                    options.generator);
}

TensorPtr Dropout(const TensorPtr &input, double p, bool training, Generator *generator) {
    return autograd::Dropout::Run(input, p, training, generator);
}

TensorPtr CrossEntropy(const TensorPtr &logits, const TensorPtr &labels, Reduction reduction, int64_t ignore_index,
                       double label_smoothing) {
    return Run<autograd::CrossEntropy>({logits, labels}, ignore_index, label_smoothing, reduction);
}

TensorPtr MseLoss(const TensorPtr &input, const TensorPtr &target, Reduction reduction) {
    return autograd::MseLoss(input, target, reduction);
}

}  // namespace infini_train::nn::function
