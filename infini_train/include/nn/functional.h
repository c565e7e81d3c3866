#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infini_train/include/autograd/loss.h"
#include "infini_train/include/autograd/size2d.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/scalar.h"

/// Operators as free functions: nn::function::Softmax(x, 1) is x->Softmax(1). Each applies the autograd::Function of
/// its name, whose header says more about shapes, types and errors; a null tensor is a ValueError. Dimensions may count
/// from the end.
namespace infini_train::nn::function {

using autograd::Size2d;

// ---- Making tensors -------------------------------------------------------------------------------------------------

INFINI_TRAIN_EXPORT TensorPtr Ones(const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32,
                                   Device device = {});
INFINI_TRAIN_EXPORT TensorPtr Zeros(const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32,
                                    Device device = {});

// ---- Element by element ---------------------------------------------------------------------------------------------

INFINI_TRAIN_EXPORT TensorPtr Reciprocal(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Sin(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Cos(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Tanh(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Exp(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Log(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Sqrt(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Rsqrt(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Pow(const TensorPtr &input, Scalar exponent);
INFINI_TRAIN_EXPORT TensorPtr Sigmoid(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Relu(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Gelu(const TensorPtr &input, bool tanh_approximation = false);
INFINI_TRAIN_EXPORT TensorPtr Silu(const TensorPtr &input);
/// `a` where `condition` (bool) is true, else `b`; all broadcast.
INFINI_TRAIN_EXPORT TensorPtr Where(const TensorPtr &condition, const TensorPtr &a, const TensorPtr &b);

// ---- Reductions: over all elements, one dimension or several --------------------------------------------------------

INFINI_TRAIN_EXPORT TensorPtr Mean(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Mean(const TensorPtr &input, int64_t dim, bool keep_dim = false);
INFINI_TRAIN_EXPORT TensorPtr Mean(const TensorPtr &input, const std::vector<int64_t> &dims, bool keep_dim);
INFINI_TRAIN_EXPORT TensorPtr Sum(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Sum(const TensorPtr &input, int64_t dim, bool keep_dim = false);
INFINI_TRAIN_EXPORT TensorPtr Sum(const TensorPtr &input, const std::vector<int64_t> &dims, bool keep_dim);
INFINI_TRAIN_EXPORT TensorPtr Min(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Min(const TensorPtr &input, int64_t dim, bool keep_dim = false);
INFINI_TRAIN_EXPORT TensorPtr Max(const TensorPtr &input);
INFINI_TRAIN_EXPORT TensorPtr Max(const TensorPtr &input, int64_t dim, bool keep_dim = false);
INFINI_TRAIN_EXPORT TensorPtr Softmax(const TensorPtr &input, int64_t dim = -1);
INFINI_TRAIN_EXPORT TensorPtr LogSoftmax(const TensorPtr &input, int64_t dim = -1);

// ---- Parts and wholes -----------------------------------------------------------------------------------------------

/// Of each matrix (..., rows, columns) what lies on and below (Tril) or above (Triu) a diagonal, zeros elsewhere.
INFINI_TRAIN_EXPORT TensorPtr Tril(const TensorPtr &input, int64_t diagonal = 0);
INFINI_TRAIN_EXPORT TensorPtr Triu(const TensorPtr &input, int64_t diagonal = 0);
/// A view of the elements start, start + step, ... before `end` of every dimension, or of one.
INFINI_TRAIN_EXPORT TensorPtr Slice(const TensorPtr &input, const std::vector<int64_t> &starts,
                                    const std::vector<int64_t> &ends, const std::vector<int64_t> &steps);
INFINI_TRAIN_EXPORT TensorPtr Slice(const TensorPtr &input, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
/// Tensors one after the other along a new dimension, or along one that they have.
INFINI_TRAIN_EXPORT TensorPtr Stack(const TensorList &inputs, int64_t dim = 0);
INFINI_TRAIN_EXPORT TensorPtr Concat(const TensorList &inputs, int64_t dim = 0);
/// Views of `split_size` positions each along a dimension, the last one maybe smaller, or of the given sizes.
INFINI_TRAIN_EXPORT TensorList Split(const TensorPtr &input, int64_t split_size, int64_t dim = 0);
INFINI_TRAIN_EXPORT TensorList Split(const TensorPtr &input, const std::vector<int64_t> &sizes, int64_t dim = 0);
/// `value` where `mask` is true.
INFINI_TRAIN_EXPORT TensorPtr MaskedFill(const TensorPtr &input, const TensorPtr &mask, Scalar value);

// ---- Layers ---------------------------------------------------------------------------------------------------------

INFINI_TRAIN_EXPORT TensorPtr Matmul(const TensorPtr &a, const TensorPtr &b);
/// Input (..., in), weight (out, in) and bias (out), which may be null, give (..., out).
INFINI_TRAIN_EXPORT TensorPtr Linear(const TensorPtr &input, const TensorPtr &weight, const TensorPtr &bias = nullptr);
/// Input (N, C, H, W), weight (O, C / groups, kH, kW) and bias (O), which may be null, give (N, O, oH, oW).
INFINI_TRAIN_EXPORT TensorPtr Conv2d(const TensorPtr &input, const TensorPtr &weight, const TensorPtr &bias = nullptr,
                                     Size2d stride = 1, Size2d padding = 0, Size2d dilation = 1, int64_t groups = 1);
/// Input (N, C, H, W) gives (N, C, oH, oW). Without a stride the windows lie side by side.
INFINI_TRAIN_EXPORT TensorPtr MaxPool2d(const TensorPtr &input, Size2d kernel,
                                        std::optional<Size2d> stride = std::nullopt, Size2d padding = 0,
                                        Size2d dilation = 1, bool ceil_mode = false);
INFINI_TRAIN_EXPORT TensorPtr AvgPool2d(const TensorPtr &input, Size2d kernel,
                                        std::optional<Size2d> stride = std::nullopt, Size2d padding = 0,
                                        bool ceil_mode = false, bool count_include_pad = true);
/// The rows of weight (V, D) that integer indices name: (..., D).
INFINI_TRAIN_EXPORT TensorPtr Embedding(const TensorPtr &indices, const TensorPtr &weight);
/// Over the trailing dimensions `normalized_shape`; weight and bias, of that shape, may be null.
INFINI_TRAIN_EXPORT TensorPtr LayerNorm(const TensorPtr &input, const std::vector<int64_t> &normalized_shape,
                                        const TensorPtr &weight = nullptr, const TensorPtr &bias = nullptr,
                                        double eps = 1e-5);
/// Over the last dimension; the weight, of its size, may be null.
INFINI_TRAIN_EXPORT TensorPtr RmsNorm(const TensorPtr &input, const TensorPtr &weight = nullptr, double eps = 1e-5);
/// x (..., T, D), cos and sin (T, D / 2). Pairs of features are (2 i, 2 i + 1) if `interleaved`, else (i, i + D / 2).
INFINI_TRAIN_EXPORT TensorPtr RotaryEmbedding(const TensorPtr &x, const TensorPtr &cos, const TensorPtr &sin,
                                              bool interleaved = false);
/// silu(gate) * up.
INFINI_TRAIN_EXPORT TensorPtr SwiGlu(const TensorPtr &gate, const TensorPtr &up);

struct AttentionOptions {
    TensorPtr mask = nullptr;  ///< bool (true: may look) or added to the scores; broadcasts to (B, H, T, S)
    double dropout_p = 0.0;    ///< drops weights whenever it isn't 0: the caller knows whether this is training
    bool is_causal = false;    ///< query t of T sees the keys up to t + S - T: the last query sees all
    std::optional<double> scale = std::nullopt;  ///< 1 / sqrt(D) if there is none
    Generator *generator = nullptr;              ///< DefaultGenerator() if null
};
/// Query (B, H, T, D), key (B, Hkv, S, D) and value (B, Hkv, S, Dv) of any strides give (B, H, T, Dv), which lies in
/// memory as (B, T, H, Dv). H is a multiple of Hkv. Never makes the T x S matrix.
INFINI_TRAIN_EXPORT TensorPtr ScaledDotProductAttention(const TensorPtr &query, const TensorPtr &key,
                                                        const TensorPtr &value, const AttentionOptions &options = {});
/// The input itself unless `training`.
INFINI_TRAIN_EXPORT TensorPtr Dropout(const TensorPtr &input, double p = 0.5, bool training = true,
                                      Generator *generator = nullptr);

// ---- Losses ---------------------------------------------------------------------------------------------------------

/// Logits (N, C), (C) or (N, C, d1, ...) and integer labels (N), () or (N, d1, ...).
INFINI_TRAIN_EXPORT TensorPtr CrossEntropy(const TensorPtr &logits, const TensorPtr &labels,
                                           Reduction reduction = Reduction::kMean, int64_t ignore_index = -100,
                                           double label_smoothing = 0.0);
/// Both of the same dims.
INFINI_TRAIN_EXPORT TensorPtr MseLoss(const TensorPtr &input, const TensorPtr &target,
                                      Reduction reduction = Reduction::kMean);

}  // namespace infini_train::nn::function
