#include "example/mnist/layer_watch.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "infini_train/include/tensor.h"

#include "example/common/table.h"

namespace infini_train::example {

void LayerWatch::Stats::Add(const Tensor &tensor) {
    for (const float value : tensor.ToVector<float>()) {
        sum += value;
        squares += static_cast<double>(value) * value;
        zeros += value == 0 ? 1 : 0;
        largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    count += static_cast<double>(tensor.NumElements());
}

LayerWatch::LayerWatch(nn::Module &model) {
    std::vector<nn::Module *> leaves;
    for (const auto &[name, module] : model.NamedModules()) {
        if (module->NamedChildren().empty()) {
            layers_.push_back({fmt::format("{} {}", name, module->type()), {}, {}});
            leaves.push_back(module.get());
        }
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
        hooks_.Add(leaves[i]->RegisterForwardPostHook(
            [this, i](nn::Module *, const TensorList &, const TensorList &outputs) {
                layers_[i].output.Add(*outputs[0]);
            },
            {.name = "watch"}));
        hooks_.Add(leaves[i]->RegisterBackwardPostHook(
            [this, i](nn::Module *, const TensorList &, const TensorList &grad_outputs) {
                if (grad_outputs[0] != nullptr) {
                    layers_[i].gradient.Add(*grad_outputs[0]);
                }
            },
            {.name = "watch"}));
    }
    SetEnabled(false);
}

void LayerWatch::SetEnabled(bool enabled) {
    enabled ? hooks_.Enable() : hooks_.Disable();
}

std::string LayerWatch::Report(const Terminal &terminal) {
    Table table({"layer", "mean", "std", "zeros", "largest", "gradient rms"},
                {Table::kLeft, Table::kRight, Table::kRight, Table::kRight, Table::kRight, Table::kRight});
    for (Layer &layer : layers_) {
        const Stats &out = layer.output;
        const Stats &gradient = layer.gradient;
        const double mean = out.sum / out.count;
        table.AddRow({layer.name, fmt::format("{:.3f}", mean),
                      fmt::format("{:.3f}", std::sqrt(std::max(0.0, out.squares / out.count - mean * mean))),
                      FormatPercent(out.zeros / out.count), fmt::format("{:.3f}", out.largest),
                      gradient.count > 0 ? fmt::format("{:.2e}", std::sqrt(gradient.squares / gradient.count)) : "-"});
        layer.output = {};
        layer.gradient = {};
    }
    return table.ToString(terminal);
}

}  // namespace infini_train::example
