#pragma once

#include <cstdint>
#include <utility>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/scalar.h"

/// Ways to fill a tensor before training. Each overwrites the tensor in place, unrecorded even if it requires a
/// gradient, and gives it back:
///
///     nn::init::XavierUniform(linear->parameter("weight"));
///
/// No generator means DefaultGenerator(). Throws ValueError for a null tensor, DtypeError for random numbers of a type
/// that isn't floating-point, ShapeError where a tensor has too few dimensions.
namespace infini_train::nn::init {

/// How many inputs a unit sums over, and how many units an input reaches.
struct Fans {
    int64_t fan_in = 0;
    int64_t fan_out = 0;
};

/// Which of them keeps its variance: the activations' forward or the gradients' backward.
enum class KaimingMode { kFanIn, kFanOut };

enum class NonLinearityType { kLinear, kConv2d, kSigmoid, kTanh, kRelu, kLeakyRelu, kSelu };

/// Of a weight (out, in, ...): fan_in = in * r and fan_out = out * r, with r the product of the dimensions after the
/// second, a convolution's receptive field (Glorot and Bengio, 2010). ShapeError for fewer than two dimensions.
INFINI_TRAIN_EXPORT Fans CalculateFans(const TensorPtr &tensor);

/// The factor by which a nonlinearity makes up for the variance that it takes away: 1, 5/3 for tanh, sqrt(2) for relu,
/// sqrt(2 / (1 + a^2)) for leaky relu of slope a, 3/4 for selu.
INFINI_TRAIN_EXPORT double CalculateGain(NonLinearityType nonlinearity, double a = 0.01);

/// Uniform in [low, high).
INFINI_TRAIN_EXPORT TensorPtr Uniform(const TensorPtr &tensor, double low = 0.0, double high = 1.0,
                                      Generator *generator = nullptr);
INFINI_TRAIN_EXPORT TensorPtr Normal(const TensorPtr &tensor, double mean = 0.0, double std = 1.0,
                                     Generator *generator = nullptr);
/// A normal distribution cut off outside of [low, high] (absolute values, not multiples of `std`): the inverse of its
/// distribution function applied to a uniform number. ValueError unless low < high and std > 0.
INFINI_TRAIN_EXPORT TensorPtr TruncNormal(const TensorPtr &tensor, double mean = 0.0, double std = 1.0,
                                          double low = -2.0, double high = 2.0, Generator *generator = nullptr);
INFINI_TRAIN_EXPORT TensorPtr Constant(const TensorPtr &tensor, Scalar value);
INFINI_TRAIN_EXPORT TensorPtr Zeros(const TensorPtr &tensor);
INFINI_TRAIN_EXPORT TensorPtr Ones(const TensorPtr &tensor);

/// Uniform in +-gain sqrt(6 / (fan_in + fan_out)), or normal with std = gain sqrt(2 / (fan_in + fan_out)): the variance
/// stays about the same in both directions (Glorot and Bengio, 2010).
INFINI_TRAIN_EXPORT TensorPtr XavierUniform(const TensorPtr &tensor, double gain = 1.0, Generator *generator = nullptr);
INFINI_TRAIN_EXPORT TensorPtr XavierNormal(const TensorPtr &tensor, double gain = 1.0, Generator *generator = nullptr);

/// Normal with std = CalculateGain(nonlinearity, a) / sqrt(fan), or uniform in +-sqrt(3) std: the variance stays in one
/// direction (He et al., 2015).
INFINI_TRAIN_EXPORT TensorPtr KaimingUniform(const TensorPtr &tensor, double a = 0.0,
                                             KaimingMode mode = KaimingMode::kFanIn,
                                             NonLinearityType nonlinearity = NonLinearityType::kLeakyRelu,
                                             Generator *generator = nullptr);
INFINI_TRAIN_EXPORT TensorPtr KaimingNormal(const TensorPtr &tensor, double a = 0.0,
                                            KaimingMode mode = KaimingMode::kFanIn,
                                            NonLinearityType nonlinearity = NonLinearityType::kLeakyRelu,
                                            Generator *generator = nullptr);

/// `gain` times a random matrix with orthonormal rows or columns, whichever are fewer, of the tensor seen as (dims[0],
/// all others); the Q of a normal matrix, with signs that make it uniformly distributed (Mezzadri, 2007; Saxe et al.,
/// 2013). ShapeError for fewer than two dimensions.
INFINI_TRAIN_EXPORT TensorPtr Orthogonal(const TensorPtr &tensor, double gain = 1.0, Generator *generator = nullptr);

}  // namespace infini_train::nn::init
