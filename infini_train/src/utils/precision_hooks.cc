// The hooks of single functions and modules that bear InfiniTrain's names.

#include <glog/logging.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/precision_check_context.h"
#include "infini_train/include/utils/precision_checker.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/tensor_text.h"

namespace infini_train::utils {
namespace {

using Config = PrecisionChecker::Config;

void Check(const std::string &name, const char *stage, const TensorList &tensors, const Config &config) {
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i] == nullptr) {
            continue;
        }
        const TensorStatistics statistics = ComputeStatistics(*tensors[i]);
        const bool bad = (config.check_nan && statistics.nans > 0) || (config.check_inf && statistics.infs > 0);
        if (!bad && !config.print_stats) {
            continue;
        }
        const std::string line = fmt::format("{} {} {} tensor[{}]: {}", PrecisionCheckContext::Instance().GetKey(),
                                             name, stage, i, DescribeTensor(*tensors[i], statistics, ""));
        if (bad && config.abort_on_error) {
            throw PrecisionError("PrecisionChecker: " + line);
        }
        if (bad) {
            LOG(WARNING) << line;
        } else {
            LOG(INFO) << line;
        }
    }
}

// The forward's handle removes the backward hook along.
class Both : public HookHandle {
public:
    Both(std::shared_ptr<HookHandle> forward, std::shared_ptr<HookHandle> backward)
        : forward_(std::move(forward)), backward_(std::move(backward)) {}
    void Remove() override {
        forward_->Remove();
        backward_->Remove();
    }
    void Disable() override {
        forward_->Disable();
        backward_->Disable();
    }
    void Enable() override {
        forward_->Enable();
        backward_->Enable();
    }
    bool IsActive() const override { return forward_->IsActive(); }
    std::string Name() const override { return forward_->Name(); }
    uint64_t Calls() const override { return forward_->Calls() + backward_->Calls(); }

private:
    const std::shared_ptr<HookHandle> forward_;
    const std::shared_ptr<HookHandle> backward_;
};

template <typename Target>
std::shared_ptr<HookHandle> Register(Target *target, const std::string &name, const Config &config) {
    const HookOptions options{.name = "PrecisionChecker"};
    auto forward = target->RegisterForwardPostHook(
        [name, config](Target *, const TensorList &, const TensorList &outputs) {
            Check(name, "Forward Output", outputs, config);
        },
        options);
    auto backward = target->RegisterBackwardPostHook(
        [name, config](Target *, const TensorList &grad_inputs, const TensorList &) {
            Check(name, "Backward Gradient", grad_inputs, config);
        },
        options);
    return std::make_shared<Both>(std::move(forward), std::move(backward));
}

}  // namespace

const Config &PrecisionChecker::DefaultConfig() {
    static const Config config;
    return config;
}

std::shared_ptr<HookHandle> PrecisionChecker::RegisterForFunction(autograd::Function *function, const std::string &name,
                                                                  const Config &config) {
    if (function == nullptr) {
        throw ValueError("PrecisionChecker::RegisterForFunction: the function is null");
    }
    return Register(function, name.empty() ? function->type() : name, config);
}

std::shared_ptr<HookHandle> PrecisionChecker::RegisterForModule(nn::Module *module, const std::string &name,
                                                                const Config &config) {
    if (module == nullptr) {
        throw ValueError("PrecisionChecker::RegisterForModule: the module is null");
    }
    return Register(module, name.empty() ? module->Describe() : name, config);
}

}  // namespace infini_train::utils
