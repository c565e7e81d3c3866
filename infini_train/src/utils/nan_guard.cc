#include "infini_train/include/utils/nan_guard.h"

#include <algorithm>
#include <atomic>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/tensor/finite.h"
#include "infini_train/src/utils/observer.h"
#include "infini_train/src/utils/tensor_text.h"

namespace infini_train::utils {
namespace {

using autograd::Function;
using kernels::kHasNegativeInf;
using Context = Observer::Context;
using Report = NonFiniteReport;
using Source = NonFiniteReport::Source;

Report::Entry Describe(std::string name, const Tensor &tensor) {
    return {std::move(name), tensor.Dims(), tensor.Dtype(), ComputeStatistics(tensor)};
}

std::vector<Report::Entry> DescribeAll(const char *name, const TensorList &tensors) {
    std::vector<Report::Entry> entries;
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i] != nullptr) {
            entries.push_back(Describe(fmt::format("{} {}", name, i), *tensors[i]));
        }
    }
    return entries;
}

// The first tensor that holds any of `kinds`, or -1.
int FindFirst(const TensorList &tensors, int kinds) {
    for (size_t i = 0; i < tensors.size(); ++i) {
        if ((FindNonFinite(tensors[i].get()) & kinds) != 0) {
            return static_cast<int>(i);
        }
    }
    return -1;
}

bool Contains(const std::vector<std::string> &types, const std::string &type) {
    return std::find(types.begin(), types.end(), type) != types.end();
}

constexpr int kAll = kernels::kHasNan | kernels::kHasPositiveInf | kHasNegativeInf;
constexpr int kAllButNegativeInf = kAll & ~kHasNegativeInf;

}  // namespace

class NanGuard::Impl {
public:
    explicit Impl(NanGuardOptions options) : options_(std::move(options)) {}

    int64_t num_reports() const { return num_reports_.load(); }

    static Observer::Handlers MakeHandlers(const std::shared_ptr<Impl> &self) {
        const NanGuardOptions &options = self->options_;
        Observer::Handlers handlers;
        if (options.forward) {
            handlers.forward = [self](const Context &context, Function *function, const Observer::Call &,
                                      const TensorList &inputs, const TensorList &outputs) {
                self->OnForward(context, *function, inputs, outputs);
            };
            handlers.enter = [self](const Context &context, nn::Module *module, const TensorList &inputs) {
                self->OnEnter(context, *module, inputs);
            };
        }
        if (options.backward) {
            handlers.backward = [self](const Context &context, Function *function, const Observer::Call &,
                                       const TensorList &grad_inputs, const TensorList &grad_outputs) {
                self->OnBackward(context, *function, grad_inputs, grad_outputs);
            };
        }
        if (options.optimizer) {
            handlers.before_step = [self](const Context &context, Optimizer *optimizer,
                                          const NamedTensors &parameters) {
                self->OnParameters(context, *optimizer, parameters, Source::kParameterGradient);
            };
            handlers.after_step = [self](const Context &context, Optimizer *optimizer, const NamedTensors &parameters) {
                self->OnParameters(context, *optimizer, parameters, Source::kParameter);
            };
        }
        return handlers;
    }

private:
    void OnEnter(const Context &context, const nn::Module &module, const TensorList &inputs) {
        const int input = FindFirst(inputs, kAllButNegativeInf);
        if (input >= 0) {
            Tell(context, Source::kModelInput, module.type(), "", fmt::format("input {}", input),
                 *inputs[static_cast<size_t>(input)], kAllButNegativeInf, {});
        }
    }

    void OnForward(const Context &context, const Function &function, const TensorList &inputs,
                   const TensorList &outputs) {
        int output_kinds = 0;
        size_t output = 0;
        for (; output < outputs.size() && output_kinds == 0; ++output) {
            output_kinds = FindNonFinite(outputs[output].get());
        }
        if (output_kinds != 0) {
            OnNonFiniteOutput(context, function, inputs, outputs);
        }
    }

    [[gnu::cold]] void OnNonFiniteOutput(const Context &context, const Function &function, const TensorList &inputs,
                                         const TensorList &outputs) {
        if (Contains(options_.ignore, function.type())) {
            return;
        }
        const bool may_be_negative_inf =
            Contains(options_.allow_negative_inf, function.type()) || FindFirst(inputs, kHasNegativeInf) >= 0;
        const int kinds = may_be_negative_inf ? kAllButNegativeInf : kAll;
        const int output = FindFirst(outputs, kinds);
        if (output < 0) {
            return;
        }
        const int input = FindFirst(inputs, kAllButNegativeInf);
        if (input < 0) {
            Tell(context, Source::kOperator, function.type(), ModuleOf(function), fmt::format("output {}", output),
                 *outputs[static_cast<size_t>(output)], kinds, DescribeAll("input", inputs));
            return;
        }
        const Tensor &tensor = *inputs[static_cast<size_t>(input)];
        const std::string name = context.NameOf(&tensor);
        Tell(context, Source::kInput, function.type(), ModuleOf(function),
             name.empty() ? fmt::format("input {}", input) : fmt::format("parameter {}", name), tensor,
             kAllButNegativeInf, {});
    }

    void OnBackward(const Context &context, Function &function, const TensorList &grad_inputs,
                    const TensorList &grad_outputs) {
        const int input = FindFirst(grad_inputs, kAll);
        if (input < 0 || Contains(options_.ignore, function.type())) {
            return;
        }
        const int output = FindFirst(grad_outputs, kAll);
        if (output >= 0) {
            Tell(context, Source::kGradient, function.type(), ModuleOf(function),
                 fmt::format("gradient of output {}", output), *grad_outputs[static_cast<size_t>(output)], kAll, {});
            return;
        }
        std::vector<Report::Entry> entries = DescribeAll("gradient of output", grad_outputs);
        for (auto &entry : DescribeAll("saved", SavedBy(function))) {
            entries.push_back(std::move(entry));
        }
        Tell(context, Source::kBackward, function.type(), ModuleOf(function),
             fmt::format("gradient of input {}", input), *grad_inputs[static_cast<size_t>(input)], kAll,
             std::move(entries));
    }

    // What the forward kept; a custom function may have freed it, or let it be packed by a hook that throws.
    static TensorList SavedBy(Function &function) {
        TensorList tensors;
        for (const auto &saved : autograd::FunctionAccess::Saved(function)) {
            try {
                tensors.push_back(saved.Unpack(function));
            } catch (const std::exception &) {
                tensors.push_back(nullptr);
            }
        }
        return tensors;
    }

    void OnParameters(const Context &context, const Optimizer &optimizer, const NamedTensors &parameters,
                      Source source) {
        for (const auto &[name, parameter] : parameters) {
            const TensorPtr grad = parameter->grad();
            const bool of_gradient = source == Source::kParameterGradient;
            const Tensor *tensor = of_gradient ? grad.get() : parameter.get();
            if (FindNonFinite(tensor) == 0) {
                continue;
            }
            std::vector<Report::Entry> entries;
            if (of_gradient) {
                entries.push_back(Describe(fmt::format("parameter {}", name), *parameter));
            } else if (grad != nullptr) {
                entries.push_back(Describe("its gradient", *grad));
            }
            const std::string what = fmt::format("{}parameter {}", of_gradient ? "gradient of " : "", name);
            Tell(context, source, optimizer.type(), "", what, *tensor, kAll, std::move(entries));
        }
    }

    [[gnu::cold]] void Tell(const Context &context, Source source, std::string function, std::string module,
                            std::string name, const Tensor &tensor, int kinds, std::vector<Report::Entry> inputs) {
        const int64_t step = context.step();
        if (options_.callback && told_step_.exchange(step) == step) {
            return;
        }
        num_reports_.fetch_add(1);
        Report report{source,
                      std::move(function),
                      std::move(module),
                      step,
                      DescribeNonFinite(FindNonFinite(&tensor) & kinds),
                      Describe(std::move(name), tensor),
                      std::move(inputs)};
        if (!options_.callback) {
            throw NonFiniteError(std::move(report));
        }
        options_.callback(report);
    }

    const NanGuardOptions options_;
    std::atomic<int64_t> told_step_{-1};
    std::atomic<int64_t> num_reports_{0};
};

NanGuard::NanGuard(nn::Module *model, NanGuardOptions options)
    : impl_(std::make_shared<Impl>(std::move(options))),
      observer_(std::make_unique<Observer>(model, "NanGuard", /*number_calls=*/false, Impl::MakeHandlers(impl_))) {}
NanGuard::NanGuard(NanGuardOptions options) : NanGuard(nullptr, std::move(options)) {}
NanGuard::NanGuard(nn::Module &model, NanGuardOptions options) : NanGuard(&model, std::move(options)) {}
NanGuard::~NanGuard() = default;

int64_t NanGuard::step() const {
    return observer_->step();
}
void NanGuard::NextStep() {
    observer_->NextStep();
}
int64_t NanGuard::num_reports() const {
    return impl_->num_reports();
}

std::string NonFiniteReport::ToString() const {
    std::string text = "NanGuard: ";
    switch (source) {
        case Source::kOperator:
            text += fmt::format("{} made {} in {}", function, kinds, found.name);
            break;
        case Source::kInput:
            text += fmt::format("{} came into {} with {}, which no operator had made", kinds, function, found.name);
            break;
        case Source::kModelInput:
            text += fmt::format("{} came into the model {} with {}", kinds, function, found.name);
            break;
        case Source::kBackward:
            text += fmt::format("the backward of {} made {} in the {}", function, kinds, found.name);
            break;
        case Source::kGradient:
            text += fmt::format("{} came into the backward of {} with the {}: given to Backward, or by a hook", kinds,
                                function, found.name);
            break;
        case Source::kParameterGradient:
            text += fmt::format("the {} holds {} before {}'s step", found.name, kinds, function);
            break;
        case Source::kParameter:
            text += fmt::format("{}'s step left {} in {}", function, kinds, found.name);
            break;
    }
    text += fmt::format(" [step {}{}]", step, module.empty() ? "" : ", in module " + module);
    size_t width = found.name.size();
    for (const Entry &entry : inputs) {
        width = std::max(width, entry.name.size());
    }
    const auto add = [&](const Entry &entry) {
        text += fmt::format("\n  {:<{}}  {} {}  {}", entry.name, width, infini_train::ToString(entry.dtype),
                            FormatDims(entry.dims), DescribeStatistics(entry.statistics));
    };
    add(found);
    for (const Entry &entry : inputs) {
        add(entry);
    }
    return text;
}

}  // namespace infini_train::utils
