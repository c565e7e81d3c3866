#include "infini_train/src/utils/flops.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/pooling.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {
namespace {

struct Formulas {
    CostFormula forward, backward;
};

// The table, and what was registered since.
class Registry {
public:
    Registry() {
        for (const CostRow &row : CostTable()) {
            formulas_.emplace(row.type, std::make_shared<const Formulas>(Formulas{row.forward, row.backward}));
        }
    }

    std::shared_ptr<const Formulas> Find(const std::string &type) const {
        const std::shared_lock lock(mutex_);
        const auto found = formulas_.find(type);
        return found == formulas_.end() ? nullptr : found->second;
    }

    void Set(const std::string &type, Formulas formulas) {
        auto fresh = std::make_shared<const Formulas>(std::move(formulas));
        const std::unique_lock lock(mutex_);
        std::swap(formulas_[type], fresh);
    }

private:
    mutable std::shared_mutex mutex_;
    std::map<std::string, std::shared_ptr<const Formulas>> formulas_;
};

Registry &TheRegistry() {
    static auto *registry = new Registry;  // never destroyed: static objects may run operators when they go
    return *registry;
}

std::vector<TensorSpec> Specs(const TensorList &tensors) {
    std::vector<TensorSpec> specs;
    specs.reserve(tensors.size());
    for (const auto &tensor : tensors) {
        specs.emplace_back(tensor);
    }
    return specs;
}

// Whether all outputs lie in memory of the inputs.
bool IsView(const TensorList &inputs, const TensorList &outputs) {
    return !outputs.empty() && std::all_of(outputs.begin(), outputs.end(), [&](const TensorPtr &output) {
        return output == nullptr || std::any_of(inputs.begin(), inputs.end(), [&](const TensorPtr &input) {
                   return input != nullptr && input->storage() == output->storage();
               });
    });
}

int64_t WindowOf(const autograd::Function &function) {
    const autograd::Pool2dOptions *options = nullptr;
    if (const auto *max_pool = dynamic_cast<const autograd::MaxPool2d *>(&function)) {
        options = &max_pool->options();
    } else if (const auto *avg_pool = dynamic_cast<const autograd::AvgPool2d *>(&function)) {
        options = &avg_pool->options();
    } else if (const auto *avg_pool_backward = dynamic_cast<const autograd::AvgPool2dBackward *>(&function)) {
        options = &avg_pool_backward->options();
    }
    return options == nullptr ? 0 : options->kernel.height * options->kernel.width;
}

}  // namespace

TensorSpec::TensorSpec(const TensorPtr &tensor) : present(tensor != nullptr) {
    if (tensor != nullptr) {
        dims = tensor->Dims();
        dtype = tensor->Dtype();
        requires_grad = tensor->requires_grad();
    }
}

int64_t TensorSpec::NumElements() const {
    int64_t count = present ? 1 : 0;
    for (const int64_t dim : dims) {
        count *= dim;
    }
    return count;
}

int64_t TensorSpec::Bytes() const {
    return NumElements() * static_cast<int64_t>(SizeOf(dtype));
}

OperatorCall DescribeCall(const autograd::Function &function, const TensorList &inputs, const TensorList &outputs) {
    return {function.type(), Specs(inputs), Specs(outputs), WindowOf(function), IsView(inputs, outputs)};
}

bool HasCost(const std::string &type) {
    return TheRegistry().Find(type) != nullptr;
}

Cost ForwardCost(const OperatorCall &call) {
    const auto formulas = TheRegistry().Find(call.type);
    return formulas == nullptr || call.is_view ? Cost() : formulas->forward(call);
}

Cost BackwardCost(const OperatorCall &call) {
    const auto formulas = TheRegistry().Find(call.type);
    return formulas == nullptr ? Cost() : formulas->backward(call);
}

void RegisterCost(const std::string &type, CostFormula forward, CostFormula backward) {
    if (type.empty() || forward == nullptr || backward == nullptr) {
        Throw<ValueError>("RegisterCost: expected a type and two formulas, got '{}' and {} empty", type,
                          (forward == nullptr ? 1 : 0) + (backward == nullptr ? 1 : 0));
    }
    TheRegistry().Set(type, {std::move(forward), std::move(backward)});
}

}  // namespace infini_train::utils
