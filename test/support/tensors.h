#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "infini_train/include/tensor.h"

/// Short ways for tests to make tensors and look at them.
namespace infini_train::test {

inline TensorPtr Of(const std::vector<float> &values) {
    return Tensor::FromVector(values);
}
inline TensorPtr Of(const std::vector<float> &values, const std::vector<int64_t> &dims) {
    return Tensor::FromVector(values, dims);
}
/// A leaf that requires a gradient.
inline TensorPtr Leaf(const std::vector<float> &values) {
    return Of(values)->RequiresGrad();
}
/// One of no dimensions.
inline TensorPtr Leaf(float value) {
    return Tensor::FromScalar(value)->RequiresGrad();
}

/// The values, or nothing for null.
inline std::vector<float> Values(const TensorPtr &tensor) {
    return tensor == nullptr ? std::vector<float>{} : tensor->ToVector<float>();
}
using Floats = std::vector<float>;

/// The text of the exception E that `body` throws; the empty string if it throws none, or another.
template <typename E, typename Body>
std::string Thrown(Body &&body) {
    try {
        body();
    } catch (const E &error) {
        return error.what();
    } catch (...) {
    }
    return {};
}

inline bool Contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

}  // namespace infini_train::test
