#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "infini_train/include/device.h"
#include "infini_train/include/tensor.h"

/// Short ways for tests to make tensors and look at them.
namespace infini_train::test {

/// Where the tensors of tests are that work on any device: on the CPU, or where INFINI_TRAIN_TEST_DEVICE says.
inline Device TestDevice() {
    static const Device device = [] {
        const char *const name = std::getenv("INFINI_TRAIN_TEST_DEVICE");
        return name != nullptr ? Device::FromString(name) : Device();
    }();
    return device;
}

inline TensorPtr Of(const std::vector<float> &values) {
    return Tensor::FromVector(values, std::nullopt, TestDevice());
}
inline TensorPtr Of(const std::vector<float> &values, const std::vector<int64_t> &dims) {
    return Tensor::FromVector(values, dims, TestDevice());
}
/// A leaf that requires a gradient.
inline TensorPtr Leaf(const std::vector<float> &values) {
    return Of(values)->RequiresGrad();
}
/// One of no dimensions.
inline TensorPtr Leaf(float value) {
    return Tensor::FromScalar(value, DataType::kFLOAT32, TestDevice())->RequiresGrad();
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
