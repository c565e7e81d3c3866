#include "infini_train/include/nn/init.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/init_values.h"

namespace infini_train::nn::init {
namespace {

void CheckTensor(const char *name, const TensorPtr &tensor) {
    if (tensor == nullptr) {
        Throw<ValueError>("{}: expected a tensor, got null", name);
    }
}

Fans FansOf(const char *name, const TensorPtr &tensor) {
    CheckTensor(name, tensor);
    const auto &dims = tensor->Dims();
    if (dims.size() < 2) {
        Throw<ShapeError>("{}: expected at least two dimensions (out, in, ...), got {}", name, FormatDims(dims));
    }
    int64_t receptive_field = 1;
    for (size_t i = 2; i < dims.size(); ++i) {
        receptive_field *= dims[i];
    }
    return {dims[1] * receptive_field, dims[0] * receptive_field};
}

double XavierStd(const char *name, const TensorPtr &tensor, double gain) {
    const Fans fans = FansOf(name, tensor);
    return gain * std::sqrt(2.0 / static_cast<double>(std::max<int64_t>(fans.fan_in + fans.fan_out, 1)));
}

double KaimingStd(const char *name, const TensorPtr &tensor, double a, KaimingMode mode,
                  NonLinearityType nonlinearity) {
    const Fans fans = FansOf(name, tensor);
    const int64_t fan = mode == KaimingMode::kFanIn ? fans.fan_in : fans.fan_out;
    // Without elements there is nothing to fill, and nothing to divide by.
    return CalculateGain(nonlinearity, a) / std::sqrt(static_cast<double>(std::max<int64_t>(fan, 1)));
}

// The standard normal distribution function.
double NormalCdf(double z) {
    return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

// A polynomial, highest power first.
template <size_t kTerms>
double Polynomial(const double (&coefficients)[kTerms], double x) {
    double sum = 0;
    for (const double coefficient : coefficients) {
        sum = sum * x + coefficient;
    }
    return sum;
}

// The inverse of NormalCdf for p in (0, 1/2], to nine digits: Acklam's rational approximations (2003), one for the tail
// and one for the middle.
double NormalQuantileLow(double p) {
    if (p < 0.02425) {
        constexpr double kTop[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                                   -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
        constexpr double kBottom[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                                      3.754408661907416e+00, 1};
        const double q = std::sqrt(-2 * std::log(p));
        return Polynomial(kTop, q) / Polynomial(kBottom, q);
    }
    constexpr double kTop[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                               1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
    constexpr double kBottom[] = {-5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
                                  6.680131188771972e+01,  -1.328068155288572e+01, 1};
    const double q = p - 0.5;
    return q * Polynomial(kTop, q * q) / Polynomial(kBottom, q * q);
}

double NormalQuantile(double p) {
    if (p <= 0 || p >= 1) {
        return p <= 0 ? -HUGE_VAL : HUGE_VAL;  // the caller clips it to its limits
    }
    return p <= 0.5 ? NormalQuantileLow(p) : -NormalQuantileLow(1 - p);
}

}  // namespace

TensorPtr NewNormals(const std::vector<int64_t> &dims, Generator *generator) {
    return Tensor::Randn(dims, DataType::kFLOAT64, Device(), generator);
}

TensorPtr Overwrite(const TensorPtr &tensor, const TensorPtr &values) {
    const autograd::NoGradGuard no_grad;
    return tensor->Copy_(values->View(tensor->Dims()));
}

void CheckRandom(const char *name, const TensorPtr &tensor) {
    CheckTensor(name, tensor);
    if (!IsFloatingPoint(tensor->Dtype())) {
        Throw<DtypeError>("{}: expected a floating-point tensor, got {}", name, ToString(tensor->Dtype()));
    }
}

Fans CalculateFans(const TensorPtr &tensor) {
    return FansOf("CalculateFans", tensor);
}

double CalculateGain(NonLinearityType nonlinearity, double a) {
    switch (nonlinearity) {
        case NonLinearityType::kTanh:
            return 5.0 / 3.0;
        case NonLinearityType::kRelu:
            return std::numbers::sqrt2;
        case NonLinearityType::kLeakyRelu:
            return std::sqrt(2.0 / (1.0 + a * a));
        case NonLinearityType::kSelu:
            return 0.75;
        default:
            return 1.0;
    }
}

TensorPtr Uniform(const TensorPtr &tensor, double low, double high, Generator *generator) {
    CheckTensor("Uniform", tensor);
    const autograd::NoGradGuard no_grad;
    return tensor->Uniform(static_cast<float>(low), static_cast<float>(high), generator);
}

TensorPtr Normal(const TensorPtr &tensor, double mean, double std, Generator *generator) {
    CheckTensor("Normal", tensor);
    const autograd::NoGradGuard no_grad;
    return tensor->Normal(static_cast<float>(mean), static_cast<float>(std), generator);
}

TensorPtr TruncNormal(const TensorPtr &tensor, double mean, double std, double low, double high, Generator *generator) {
    CheckRandom("TruncNormal", tensor);
    if (!(low < high) || !(std > 0)) {
        Throw<ValueError>("TruncNormal: expected low < high and std > 0, got low {}, high {} and std {}", low, high,
                          std);
    }
    // In the upper half the distribution function rounds to 1, so that is mirrored to the lower one.
    const double sign = low > mean ? -1 : 1;
    const double from = sign > 0 ? (low - mean) / std : (mean - high) / std;
    const double to = sign > 0 ? (high - mean) / std : (mean - low) / std;
    const double p_from = NormalCdf(from), p_to = NormalCdf(to);
    const auto values = Tensor::Rand(tensor->Dims(), DataType::kFLOAT64, Device(), generator);
    double *data = values->Data<double>();
    ParallelFor(0, values->NumElements(), 256, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const double z = NormalQuantile(p_from + (p_to - p_from) * data[i]);
            data[i] = mean + std * sign * std::clamp(z, from, to);
        }
    });
    return Overwrite(tensor, values);
}

TensorPtr Constant(const TensorPtr &tensor, Scalar value) {
    CheckTensor("Constant", tensor);
    const autograd::NoGradGuard no_grad;
    return tensor->Fill_(value);
}

TensorPtr Zeros(const TensorPtr &tensor) {
    return Constant(tensor, 0);
}

TensorPtr Ones(const TensorPtr &tensor) {
    return Constant(tensor, 1);
}

TensorPtr XavierUniform(const TensorPtr &tensor, double gain, Generator *generator) {
    const double bound = std::numbers::sqrt3 * XavierStd("XavierUniform", tensor, gain);
    return Uniform(tensor, -bound, bound, generator);
}

TensorPtr XavierNormal(const TensorPtr &tensor, double gain, Generator *generator) {
    return Normal(tensor, 0.0, XavierStd("XavierNormal", tensor, gain), generator);
}

TensorPtr KaimingUniform(const TensorPtr &tensor, double a, KaimingMode mode, NonLinearityType nonlinearity,
                         Generator *generator) {
    const double bound = std::numbers::sqrt3 * KaimingStd("KaimingUniform", tensor, a, mode, nonlinearity);
    return Uniform(tensor, -bound, bound, generator);
}

TensorPtr KaimingNormal(const TensorPtr &tensor, double a, KaimingMode mode, NonLinearityType nonlinearity,
                        Generator *generator) {
    return Normal(tensor, 0.0, KaimingStd("KaimingNormal", tensor, a, mode, nonlinearity), generator);
}

}  // namespace infini_train::nn::init
