#pragma once

#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/device.h"
#include "infini_train/include/tensor.h"

namespace infini_train {

/// How GoogleTest prints a parameter.
inline void PrintTo(Device::DeviceType type, std::ostream *stream) {
    *stream << ToString(type);
}

}  // namespace infini_train

namespace infini_train::test {

using Dims = std::vector<int64_t>;
using Floats = std::vector<float>;

inline std::vector<Device::DeviceType> Devices() {
    std::vector<Device::DeviceType> devices;
    for (const auto type : {Device::DeviceType::kCPU, Device::DeviceType::kCUDA}) {
        if (HasDevice(Device(type))) {
            devices.push_back(type);
        }
    }
    return devices;
}

inline std::string DeviceName(const ::testing::TestParamInfo<Device::DeviceType> &info) {
    return ToString(info.param);
}

/// A test that runs on every kind of device there is.
class AutogradTest : public ::testing::TestWithParam<Device::DeviceType> {
protected:
    Device GetDevice() const { return Device(GetParam()); }

    /// A leaf that requires a gradient.
    TensorPtr Leaf(const Dims &dims, const Floats &values) const {
        return std::make_shared<Tensor>(values.data(), dims, DataType::kFLOAT32, GetDevice())->RequiresGrad();
    }
    TensorPtr Constant(const Dims &dims, const Floats &values) const {
        return std::make_shared<Tensor>(values.data(), dims, DataType::kFLOAT32, GetDevice());
    }
    TensorPtr Indices(const Dims &dims, const std::vector<int64_t> &values) const {
        return Tensor::FromVector(values, dims)->To(GetDevice());
    }

    /// One value of a function: the output of `dims`, the gradient handed to it, and what comes out for each input
    /// (nothing for an input without a gradient).
    struct Expected {
        std::vector<Dims> dims;
        std::vector<Floats> outputs;
        std::vector<Floats> grad_outputs;
        std::vector<Floats> grad_inputs;
    };

    /// Applies `function`; calls its Backward by hand, then that of its outputs, one by one.
    static void Check(const std::shared_ptr<autograd::Function> &function, const TensorList &inputs,
                      const Expected &expected) {
        const TensorList outputs = function->Apply(inputs);
        ASSERT_EQ(outputs.size(), expected.outputs.size());
        TensorList grad_outputs;
        for (size_t i = 0; i < outputs.size(); ++i) {
            EXPECT_EQ(outputs[i]->Dims(), expected.dims[i]);
            EXPECT_EQ(outputs[i]->GetDevice(), inputs[0]->GetDevice());
            EXPECT_EQ(outputs[i]->grad_fn(), function);
            EXPECT_EQ(outputs[i]->output_idx(), static_cast<int>(i));
            ExpectNear(outputs[i], expected.outputs[i], "output " + std::to_string(i));
            grad_outputs.push_back(std::make_shared<Tensor>(expected.grad_outputs[i].data(), expected.dims[i],
                                                            DataType::kFLOAT32, outputs[i]->GetDevice()));
        }

        const TensorList grad_inputs = function->Backward(grad_outputs);
        ASSERT_EQ(grad_inputs.size(), inputs.size());
        for (size_t i = 0; i < inputs.size(); ++i) {
            ExpectNear(grad_inputs[i], expected.grad_inputs[i], "Backward by hand, input " + std::to_string(i));
        }

        for (size_t i = 0; i < outputs.size(); ++i) {
            outputs[i]->Backward(grad_outputs[i], /*retain_graph=*/i + 1 < outputs.size());
        }
        for (size_t i = 0; i < inputs.size(); ++i) {
            ExpectNear(inputs[i]->grad(), expected.grad_inputs[i], "gradient of input " + std::to_string(i));
        }
    }

    /// A function of no gradient.
    static void CheckForward(const std::shared_ptr<autograd::Function> &function, const TensorList &inputs,
                             const Floats &expected) {
        const TensorList outputs = function->Apply(inputs);
        ASSERT_EQ(outputs.size(), 1U);
        EXPECT_FALSE(outputs[0]->requires_grad());
        ExpectNear(outputs[0], expected, "output");
    }

    static void ExpectNear(const TensorPtr &actual, const Floats &expected, const std::string &what) {
        if (expected.empty()) {
            EXPECT_EQ(actual, nullptr) << what;
            return;
        }
        ASSERT_NE(actual, nullptr) << what;
        const auto values = actual->ToVector<float>();
        ASSERT_EQ(values.size(), expected.size()) << what;
        for (size_t i = 0; i < values.size(); ++i) {
            EXPECT_NEAR(values[i], expected[i], 2e-6F * (1 + std::abs(expected[i]))) << what << ", element " << i;
        }
    }
};

}  // namespace infini_train::test

/// Instantiates a suite derived from AutogradTest.
#define INFINI_TRAIN_TEST_ON_ALL_DEVICES(suite)                                              \
    INSTANTIATE_TEST_SUITE_P(All, suite, ::testing::ValuesIn(infini_train::test::Devices()), \
                             infini_train::test::DeviceName)
