#include "infini_train/include/autograd/autocast.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/autocast.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {
namespace {

thread_local AutocastState current;
thread_local int guards = 0;  // around this place
thread_local bool keeps_casts = true;

// A parameter as it was cast last.
struct Kept {
    std::weak_ptr<Tensor> parameter;
    uint32_t version;
    TensorPtr cast;
};
using Cache = std::map<std::pair<const Tensor *, DataType>, Kept>;

Cache &ThreadCache() {
    thread_local Cache cache;
    return cache;
}

class Policies {
public:
    AutocastPolicy Of(const std::string &type) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = policies_.find(type);
        return found == policies_.end() ? AutocastPolicy::kNone : found->second;
    }
    void Set(const std::string &type, AutocastPolicy policy) {
        const std::lock_guard<std::mutex> lock(mutex_);
        policies_[type] = policy;
    }

private:
    // After PyTorch's lists ("Automatic Mixed Precision package", section "Autocast Op Reference").
    std::unordered_map<std::string, AutocastPolicy> policies_ = {
        {"Matmul", AutocastPolicy::kNarrow},
        {"Linear", AutocastPolicy::kNarrow},
        {"Conv2d", AutocastPolicy::kNarrow},
        {"Outer", AutocastPolicy::kNarrow},
        {"ScaledDotProductAttention", AutocastPolicy::kNarrow},
        {"Softmax", AutocastPolicy::kFloat32},
        {"LogSoftmax", AutocastPolicy::kFloat32},
        {"CrossEntropy", AutocastPolicy::kFloat32},
        {"MseLoss", AutocastPolicy::kFloat32},
        {"LayerNorm", AutocastPolicy::kFloat32},
        {"RMSNorm", AutocastPolicy::kFloat32},
        {"Exp", AutocastPolicy::kFloat32},
        {"Log", AutocastPolicy::kFloat32},
        {"Pow", AutocastPolicy::kFloat32},
        {"Reciprocal", AutocastPolicy::kFloat32},
        {"Rsqrt", AutocastPolicy::kFloat32},
        {"Sum", AutocastPolicy::kFloat32},
        {"Concat", AutocastPolicy::kWidest},
        {"Stack", AutocastPolicy::kWidest},
        {"Where", AutocastPolicy::kWidest},
    };
    mutable std::mutex mutex_;
};

Policies &AllPolicies() {
    static Policies policies;
    return policies;
}

void SetState(const AutocastState &state) {
    current = state;
    autocast_is_on = state.Any();
}

bool IsNarrow(DataType dtype) {
    return dtype == DataType::kBFLOAT16 || dtype == DataType::kFLOAT16;
}

// Only what autocast may touch: float32 and narrower, on a device where it is enabled.
bool IsEligible(const TensorPtr &tensor) {
    return tensor != nullptr && current.devices[static_cast<size_t>(tensor->GetDevice().type())].enabled &&
           (IsNarrow(tensor->Dtype()) || tensor->Dtype() == DataType::kFLOAT32);
}

TensorPtr CastTo(const TensorPtr &tensor, DataType dtype) {
    const bool is_parameter = tensor->requires_grad() && tensor->is_leaf() && GradMode::IsEnabled() && IsNarrow(dtype);
    if (!is_parameter || !keeps_casts) {
        return tensor->To(dtype);
    }
    Kept &kept = ThreadCache()[{tensor.get(), dtype}];
    if (kept.parameter.lock() != tensor || kept.version != tensor->Version()) {
        kept = {tensor, tensor->Version(), tensor->To(dtype)};
    }
    return kept.cast;
}

// The type that a policy wants of all eligible inputs, or nothing.
std::optional<DataType> Wanted(AutocastPolicy policy, const TensorList &inputs) {
    if (policy == AutocastPolicy::kFloat32) {
        return DataType::kFLOAT32;
    }
    std::optional<DataType> wanted;
    for (const TensorPtr &input : inputs) {
        if (!IsEligible(input)) {
            continue;
        }
        const DataType dtype = input->Dtype();
        if (policy == AutocastPolicy::kNarrow) {
            return current.devices[static_cast<size_t>(input->GetDevice().type())].dtype;
        }
        // bfloat16 and float16 meet in float32.
        wanted = !wanted || *wanted == dtype ? dtype : DataType::kFLOAT32;
    }
    return wanted;
}

}  // namespace

bool AutocastState::Any() const {
    return std::any_of(devices.begin(), devices.end(), [](const OfDevice &device) { return device.enabled; });
}

AutocastState GetAutocastState() {
    return current;
}

// No guard ends with it, so it keeps nothing.
AutocastStateScope::AutocastStateScope(const AutocastState &state)
    : previous_(current), kept_casts_(std::exchange(keeps_casts, false)) {
    SetState(state);
}
AutocastStateScope::~AutocastStateScope() {
    SetState(previous_);
    keeps_casts = kept_casts_;
}

std::optional<TensorList> AutocastInputs(const std::string &type, const TensorList &inputs) {
    const AutocastPolicy policy = AllPolicies().Of(type);
    if (policy == AutocastPolicy::kNone) {
        return std::nullopt;
    }
    const std::optional<DataType> dtype = Wanted(policy, inputs);
    const auto differs = [&](const TensorPtr &input) { return IsEligible(input) && input->Dtype() != *dtype; };
    if (!dtype || std::none_of(inputs.begin(), inputs.end(), differs)) {
        return std::nullopt;
    }
    TensorList cast = inputs;
    for (TensorPtr &input : cast) {
        input = differs(input) ? CastTo(input, *dtype) : input;
    }
    return cast;
}

AutocastGuard::AutocastGuard(DeviceType device, DataType dtype, bool enabled)
    : device_(device), was_enabled_(IsEnabled(device)), previous_(Dtype(device)) {
    if (!IsNarrow(dtype)) {
        Throw<DtypeError>("AutocastGuard: expected bfloat16 or float16, got {}", ToString(dtype));
    }
    AutocastState state = current;
    state.devices[static_cast<size_t>(device)] = {enabled, dtype};
    SetState(state);
    ++guards;
}

AutocastGuard::~AutocastGuard() {
    AutocastState state = current;
    state.devices[static_cast<size_t>(device_)] = {was_enabled_, previous_};
    SetState(state);
    if (--guards == 0) {
        ThreadCache().clear();
    }
}

bool AutocastGuard::IsEnabled(DeviceType device) {
    return current.devices[static_cast<size_t>(device)].enabled;
}
DataType AutocastGuard::Dtype(DeviceType device) {
    return current.devices[static_cast<size_t>(device)].dtype;
}

AutocastPolicy GetAutocastPolicy(const std::string &type) {
    return AllPolicies().Of(type);
}
void SetAutocastPolicy(const std::string &type, AutocastPolicy policy) {
    AllPolicies().Set(type, policy);
}

}  // namespace infini_train::autograd
