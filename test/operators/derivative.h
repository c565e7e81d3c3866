#pragma once

#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/tensor.h"

namespace infini_train::test {

/// float64 values in (-1, 1) that look random; the same for the same seed.
inline std::vector<double> Noise(int64_t count, uint64_t seed) {
    std::vector<double> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
        uint64_t z = (i + 1) * 0x9E3779B97F4A7C15U + seed * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
        values[i] = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
    }
    return values;
}

inline TensorPtr NoiseTensor(const std::vector<int64_t> &dims, uint64_t seed) {
    int64_t count = 1;
    for (const int64_t dim : dims) {
        count *= dim;
    }
    return Tensor::FromVector<double>(Noise(count, seed), dims);
}

using Operator = std::function<TensorPtr(const TensorList &)>;

/// Tensors of the same values, moved by `step` times the directions.
inline TensorList Moved(const TensorList &inputs, const std::vector<std::vector<double>> &directions, double step) {
    TensorList result;
    for (size_t i = 0; i < inputs.size(); ++i) {
        auto values = inputs[i]->ToVector<double>();
        for (size_t j = 0; j < values.size(); ++j) {
            values[j] += step * directions[i][j];
        }
        result.push_back(Tensor::FromVector<double>(values, inputs[i]->Dims()));
    }
    return result;
}

/// Checks the first derivative of a float64 operator against central differences, element by element, and that the
/// derivative can be differentiated with respect to the gradient it was given.
inline void ExpectDerivatives(const Operator &op, const TensorList &inputs, double tolerance = 1e-7) {
    constexpr double kStep = 1e-4;
    TensorList leaves;
    for (const auto &input : inputs) {
        leaves.push_back(Tensor::FromVector<double>(input->ToVector<double>(), input->Dims())->RequiresGrad());
    }
    const auto output = op(leaves);
    auto weights = NoiseTensor(output->Dims(), 77)->RequiresGrad();
    const auto weight_values = weights->ToVector<double>();
    const auto weighted = [&](const TensorList &at) {
        const auto values = op(at)->ToVector<double>();
        double sum = 0;
        for (size_t i = 0; i < values.size(); ++i) {
            sum += values[i] * weight_values[i];
        }
        return sum;
    };
    const auto grads = autograd::Grad({output}, leaves, {weights}, true, true);
    const auto plain = autograd::Grad({output}, leaves, {weights->Detach()}, true, false);
    std::vector<std::vector<double>> directions;
    for (const auto &input : inputs) {
        directions.emplace_back(static_cast<size_t>(input->NumElements()), 0.0);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
        ASSERT_EQ(grads[i]->Dims(), inputs[i]->Dims());
        ASSERT_EQ(plain[i]->Dims(), inputs[i]->Dims());
        const auto grad = grads[i]->ToVector<double>();
        EXPECT_EQ(grad, plain[i]->ToVector<double>());
        for (size_t j = 0; j < grad.size(); ++j) {
            directions[i][j] = 1;
            const double slope =
                (weighted(Moved(inputs, directions, kStep)) - weighted(Moved(inputs, directions, -kStep))) /
                (2 * kStep);
            directions[i][j] = 0;
            EXPECT_NEAR(grad[j], slope, tolerance) << "input " << i << ", element " << j;
        }
    }
    // Differentiating the gradient along some directions gives the operator's change along them.
    TensorList along;
    for (size_t i = 0; i < inputs.size(); ++i) {
        directions[i] = Noise(inputs[i]->NumElements(), 100 + i);
        along.push_back(Tensor::FromVector<double>(directions[i], inputs[i]->Dims()));
    }
    const auto second = autograd::Grad(grads, {weights}, along)[0]->ToVector<double>();
    const auto above = op(Moved(inputs, directions, kStep))->ToVector<double>();
    const auto below = op(Moved(inputs, directions, -kStep))->ToVector<double>();
    for (size_t i = 0; i < second.size(); ++i) {
        EXPECT_NEAR(second[i], (above[i] - below[i]) / (2 * kStep), tolerance) << "output element " << i;
    }
}

/// Runs `body` and expects an E whose message is `message`.
template <typename E, typename Body>
void ExpectError(Body &&body, const std::string &message) {
    try {
        body();
        ADD_FAILURE() << "no error; expected: " << message;
    } catch (const E &error) {
        EXPECT_EQ(error.what(), message);
    } catch (const std::exception &error) {
        ADD_FAILURE() << "another kind of error: " << error.what();
    }
}

inline constexpr DataType kAllDataTypes[] = {
    DataType::kUINT8,   DataType::kINT8,    DataType::kUINT16, DataType::kINT16,    DataType::kUINT32,
    DataType::kINT32,   DataType::kUINT64,  DataType::kINT64,  DataType::kBFLOAT16, DataType::kFLOAT16,
    DataType::kFLOAT32, DataType::kFLOAT64, DataType::kBOOL};

}  // namespace infini_train::test
