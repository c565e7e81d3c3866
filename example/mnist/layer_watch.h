#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infini_train/include/common/hook.h"
#include "infini_train/include/nn/modules/module.h"

#include "example/common/terminal.h"

namespace infini_train::example {

/// Watches the layers of a network by hooks: a forward post hook sees each layer's output, a backward post hook the
/// gradient of it. Enabled for a few batches only, it costs nothing in between.
class LayerWatch {
public:
    explicit LayerWatch(nn::Module &model);

    /// Whether the hooks run from now on.
    void SetEnabled(bool enabled);
    /// What has been seen since the last report, a row a layer: mean, deviation, share of zeros and largest magnitude
    /// of the outputs, and the root mean square of their gradients.
    std::string Report(const Terminal &terminal);

private:
    struct Stats {
        double count = 0;
        double sum = 0;
        double squares = 0;
        double zeros = 0;
        double largest = 0;
        void Add(const Tensor &tensor);
    };
    struct Layer {
        std::string name;
        Stats output;
        Stats gradient;
    };

    std::vector<Layer> layers_;
    HookGroup hooks_;
};

}  // namespace infini_train::example
