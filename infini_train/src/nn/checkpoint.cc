#include "infini_train/include/nn/checkpoint.h"

#include <utility>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/container.h"

#include "infini_train/src/common/format.h"

namespace infini_train::nn {

TensorList CheckpointSequential(const std::shared_ptr<Sequential> &modules, int64_t segments, const TensorList &inputs,
                                const autograd::CheckpointOptions &options) {
    if (modules == nullptr) {
        throw ValueError("CheckpointSequential: expected a Sequential, got null");
    }
    const auto count = static_cast<int64_t>(modules->size());
    if (segments < 1 || segments > count) {
        Throw<ValueError>("CheckpointSequential: expected 1 to {} segments of {} modules, got {}", count, count,
                          segments);
    }
    TensorList current = inputs;
    int64_t begin = 0;
    for (int64_t segment = 0; segment < segments; ++segment) {
        const int64_t end = count * (segment + 1) / segments;
        std::vector<std::shared_ptr<Module>> part;
        for (; begin < end; ++begin) {
            part.push_back((*modules)[begin]);
        }
        const auto run = [part = std::move(part)](const TensorList &list) {
            TensorList passed = list;
            for (const auto &module : part) {
                passed = (*module)(passed);
            }
            return passed;
        };
        current = segment + 1 < segments ? autograd::Checkpoint(run, current, options) : run(current);
    }
    return current;
}

}  // namespace infini_train::nn
