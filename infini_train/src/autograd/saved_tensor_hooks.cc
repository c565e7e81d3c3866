// The guards that say how saved tensors are kept.

#include <utility>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/saved_tensor.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/tensor_packer.h"
#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {
namespace {

// Two callables of a user's.
class HookPacker : public TensorPacker {
public:
    HookPacker(std::function<std::any(const TensorPtr &)> pack, std::function<TensorPtr(const std::any &)> unpack)
        : pack_(std::move(pack)), unpack_(std::move(unpack)) {}

    std::any Pack(const TensorPtr &tensor, const Function &saver) override {
        return WithContext([&] { return "pack hook for " + saver.type(); }, [&] { return pack_(tensor); });
    }
    TensorPtr Unpack(const std::any &packed, const Function &saver) override {
        return WithContext([&] { return "unpack hook for " + saver.type(); }, [&] { return unpack_(packed); });
    }

private:
    const std::function<std::any(const TensorPtr &)> pack_;
    const std::function<TensorPtr(const std::any &)> unpack_;
};

class CpuPacker : public TensorPacker {
public:
    bool Packs(const Tensor &tensor) const override {
        return !tensor.GetDevice().IsCPU() && !(tensor.requires_grad() && tensor.is_leaf());
    }
    std::any Pack(const TensorPtr &tensor, const Function & /*saver*/) override {
        return OnCpu{tensor->To(Device()), tensor->GetDevice()};
    }
    TensorPtr Unpack(const std::any &packed, const Function & /*saver*/) override {
        const auto &kept = std::any_cast<const OnCpu &>(packed);
        return kept.tensor->To(kept.device);
    }

private:
    struct OnCpu {
        TensorPtr tensor;
        Device device;
    };
};

// Puts a packer in force and gives back the one that was.
std::shared_ptr<TensorPacker> Enter(const char *who, std::shared_ptr<TensorPacker> packer) {
    PackerState::CheckAllowed(who);
    return std::exchange(PackerState::OfThisThread().packer, std::move(packer));
}

void Leave(std::shared_ptr<TensorPacker> previous) {
    PackerState::OfThisThread().packer = std::move(previous);
}

}  // namespace

PackerState &PackerState::OfThisThread() {
    static thread_local PackerState state;
    return state;
}

void PackerState::CheckAllowed(const char *who) {
    if (const auto &forbidden = OfThisThread().forbidden) {
        Throw<AutogradError>("{}: saved-tensor hooks are disabled here: {}", who, *forbidden);
    }
}

SavedTensorHooksGuard::SavedTensorHooksGuard(std::function<std::any(const TensorPtr &)> pack,
                                             std::function<TensorPtr(const std::any &)> unpack) {
    if (pack == nullptr || unpack == nullptr) {
        throw ValueError("SavedTensorHooksGuard: expected two callables, got an empty function");
    }
    previous_ = Enter("SavedTensorHooksGuard", std::make_shared<HookPacker>(std::move(pack), std::move(unpack)));
}

SavedTensorHooksGuard::~SavedTensorHooksGuard() {
    Leave(std::move(previous_));
}

SaveOnCpu::SaveOnCpu() : previous_(Enter("SaveOnCpu", std::make_shared<CpuPacker>())) {}

SaveOnCpu::~SaveOnCpu() {
    Leave(std::move(previous_));
}

DisableSavedTensorHooksGuard::DisableSavedTensorHooksGuard(std::string message) {
    if (PackerState::OfThisThread().packer != nullptr) {
        Throw<AutogradError>("DisableSavedTensorHooksGuard: saved-tensor hooks are in force already: {}", message);
    }
    previous_ =
        std::exchange(PackerState::OfThisThread().forbidden, std::make_shared<const std::string>(std::move(message)));
}

DisableSavedTensorHooksGuard::~DisableSavedTensorHooksGuard() {
    PackerState::OfThisThread().forbidden = std::move(previous_);
}

}  // namespace infini_train::autograd
