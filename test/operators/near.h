#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"
#include "test/support/message_of.h"

namespace infini_train::test {

/// Equal within `tolerance`, absolute below 1 and relative above; NaN equals NaN and an infinity itself.
inline void ExpectNear(const std::vector<double> &actual, const std::vector<double> &expected, double tolerance,
                       const std::string &what = "") {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (size_t i = 0; i < actual.size(); ++i) {
        if (std::isnan(expected[i])) {
            EXPECT_TRUE(std::isnan(actual[i])) << what << " at " << i << ": " << actual[i];
        } else if (std::isinf(expected[i])) {
            EXPECT_EQ(actual[i], expected[i]) << what << " at " << i;
        } else {
            EXPECT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
                << what << " at " << i;
        }
    }
}

inline void ExpectNear(const TensorPtr &actual, const std::vector<double> &expected, double tolerance,
                       const std::string &what = "") {
    ASSERT_NE(actual, nullptr) << what;
    ExpectNear(actual->ToVector<double>(), expected, tolerance, what);
}

/// Runs `compute` with several numbers of threads and expects the same bits each time.
inline void ExpectSameForAnyThreads(const std::function<TensorPtr()> &compute) {
    const int before = GetNumThreads();
    SetNumThreads(1);
    const auto once = compute()->ToVector<double>();
    for (const int threads : {2, 3, 7}) {
        SetNumThreads(threads);
        const auto again = compute()->ToVector<double>();
        ASSERT_EQ(once.size(), again.size());
        for (size_t i = 0; i < once.size(); ++i) {
            ASSERT_EQ(once[i], again[i]) << threads << " threads, at " << i;
        }
    }
    SetNumThreads(before);
}

/// The gradient of the scalar f(x) in a float64 x, by central differences.
inline std::vector<double> NumericGradient(const std::function<double(const TensorPtr &)> &f, const TensorPtr &x,
                                           double step = 1e-5) {
    const auto values = x->ToVector<double>();
    std::vector<double> gradient;
    for (size_t i = 0; i < values.size(); ++i) {
        auto moved = values;
        moved[i] = values[i] + step;
        const double above = f(Tensor::FromVector<double>(moved, x->Dims()));
        moved[i] = values[i] - step;
        const double below = f(Tensor::FromVector<double>(moved, x->Dims()));
        gradient.push_back((above - below) / (2 * step));
    }
    return gradient;
}

inline TensorPtr NoiseTensor(const std::vector<int64_t> &dims, DataType dtype, uint64_t seed = 1) {
    return NoiseTensor(dims, seed)->To(dtype);
}

/// Differentiates f at a float64 x twice and compares with differences of the first derivative, which is computed
/// unrecorded: both ways through a backward pass must agree.
inline void ExpectSecondDerivative(const std::function<TensorPtr(const TensorPtr &)> &f, const TensorPtr &x,
                                   double tolerance = 1e-7) {
    const auto weights = NoiseTensor(f(x)->Dims(), 41);
    const auto direction = NoiseTensor(x->Dims(), 42);
    const auto along = [&](const TensorPtr &at) {
        const auto leaf = at->Detach()->RequiresGrad();
        const auto gradient = autograd::Grad({f(leaf)}, {leaf}, {weights})[0];
        return gradient->Mul(direction)->Sum()->Item<double>();
    };
    const auto leaf = x->Detach()->RequiresGrad();
    const auto gradient = autograd::Grad({f(leaf)}, {leaf}, {weights}, true, /*create_graph=*/true)[0];
    const auto slope = gradient->Mul(direction)->Sum();
    EXPECT_NEAR(slope->Item<double>(), along(x), 1e-12);
    const auto second = autograd::Grad({slope}, {leaf})[0];
    ExpectNear(second, NumericGradient(along, x), tolerance);
}

/// The identity, which says in whose memory the gradient that comes back lies. (A hook would be given a copy of one
/// that shares its memory.)
class MemoryOfGradient : public autograd::Function {
public:
    explicit MemoryOfGradient(const void **memory) : Function("MemoryOfGradient"), memory_(memory) {}

    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Detach()}; }
    TensorList Backward(const TensorList &grad_outputs) override {
        *memory_ = grad_outputs[0]->storage()->data();
        return grad_outputs;
    }

    static TensorPtr Watch(const TensorPtr &tensor, const void **memory) {
        return std::make_shared<MemoryOfGradient>(memory)->Apply({tensor})[0];
    }

private:
    const void **const memory_;
};

}  // namespace infini_train::test
