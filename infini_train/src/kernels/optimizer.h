#pragma once

#include <cstdint>
#include <span>

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/datatype.h"

namespace infini_train::kernels {

// One call updates a whole list of parameters, so that many small ones cost no more than a large one.

/// A parameter, its gradient (of the same data type) and what the optimizer keeps of it: float64 for a float64
/// parameter, float32 for any other. All contiguous, of `num_elements` > 0 elements; unused states are null. With a
/// master (16-bit parameters only), that is what is updated, and the parameter is the master rounded: an element that
/// isn't, at first, was changed by someone else and becomes the master's.
struct UpdatedTensors {
    void *param = nullptr;
    const void *grad = nullptr;
    void *state[2] = {nullptr, nullptr};
    float *master = nullptr;
    int64_t begin = 0;  ///< how many elements the parameters before it in the list have
    int64_t num_elements = 0;
    DataType dtype = DataType::kFLOAT32;
};

/// g = grad + weight_decay * param; with a state: state = keep * state + take * g, and g = state or, for Nesterov's
/// form, g + momentum * state; param -= lr * g.
struct SgdUpdate {
    UpdatedTensors tensors;
    double lr = 0;
    double weight_decay = 0;
    double momentum = 0;
    double keep = 0;
    double take = 1;
    bool nesterov = false;
};
struct SgdStep : KernelTag<void(std::span<const SgdUpdate> updates)> {
    static constexpr const char *kName = "SgdStep";
};

/// param *= shrink; g = grad + weight_decay * param; m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g^2;
/// param -= step_size * m / (sqrt(v) * root_scale + eps), with m = state[0] and v = state[1].
struct AdamUpdate {
    UpdatedTensors tensors;
    double shrink = 1;
    double weight_decay = 0;
    double step_size = 0;
    double root_scale = 1;
    double beta1 = 0;
    double beta2 = 0;
    double eps = 0;
};
struct AdamStep : KernelTag<void(std::span<const AdamUpdate> updates)> {
    static constexpr const char *kName = "AdamStep";
};

}  // namespace infini_train::kernels
