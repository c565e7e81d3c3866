#pragma once

#include "infini_train/src/cuda/random_shift.h"

namespace infini_train::cuda {

/// Where a draw begins, for kernels to take by value; made at their launch.
class RandomState {
public:
    explicit RandomState(const Generator::State &state) : state_(state), shift_(CurrentRandomShift()) {}

    /// As the host said, or, in a graph, where its replay has come to.
    __device__ __forceinline__ Generator::State Get() const {
        Generator::State state = state_;
        if (shift_ != nullptr && state.seed == shift_->from.seed && state.stream == shift_->from.stream) {
            state.seed = shift_->to.seed;
            state.stream = shift_->to.stream;
            state.offset += shift_->to.offset - shift_->from.offset;
        }
        return state;
    }

private:
    Generator::State state_;
    const RandomShift *shift_;
};

}  // namespace infini_train::cuda
