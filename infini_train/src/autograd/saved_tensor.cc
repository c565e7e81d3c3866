#include "infini_train/include/autograd/saved_tensor.h"

#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/autograd/tensor_packer.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {
namespace {

// The tensor object of a saved value with its place in the graph, for a recorded backward pass.
TensorPtr AttachedAlias(const Tensor &tensor, Edge edge) {
    auto alias = Alias(tensor);
    auto meta = std::make_unique<AutogradMeta>();
    meta->requires_grad = true;
    meta->edge = std::move(edge);
    alias->set_autograd_meta(std::move(meta));
    return alias;
}

[[noreturn]] void ThrowChanged(const Function &saver, const Tensor &tensor, uint32_t version) {
    Throw<AutogradError>(
        "{}: a tensor of shape {} that it saved for its backward pass was changed in place since (it "
        "is at version {}, version {} was saved)",
        saver.type(), FormatDims(tensor.Dims()), tensor.Version(), version);
}

std::string DescribeTensor(const std::vector<int64_t> &dims, DataType dtype, Device device) {
    return fmt::format("{}, {} on {}", FormatDims(dims), ToString(dtype), device.ToString());
}

}  // namespace

// A tensor that a packer keeps.
struct SavedTensor::Packed {
    std::shared_ptr<TensorPacker> packer;
    std::any value;
    uint32_t value_version = 0;  // of a value that is a tensor
    std::vector<int64_t> dims;
    DataType dtype;
    Device device;
    std::weak_ptr<Storage> storage;  // of the tensor that was packed
    Edge edge;                       // where the gradient of an input goes

    // The value if it is a tensor, so that a change in place can be told.
    const Tensor *ValueTensor() const {
        const auto *tensor = std::any_cast<TensorPtr>(&value);
        return tensor != nullptr ? tensor->get() : nullptr;
    }
    // The same if it was changed in place since.
    const Tensor *ChangedValue() const {
        const Tensor *tensor = ValueTensor();
        return tensor != nullptr && tensor->Version() != value_version ? tensor : nullptr;
    }
};

SavedTensor::SavedTensor(const TensorPtr &tensor, int output_idx, const Function &saver, bool packs)
    : output_idx_(output_idx) {
    if (tensor == nullptr) {
        return;
    }
    storage_ = tensor->storage().get();
    version_ = tensor->Version();
    is_output_ = output_idx >= 0;
    requires_grad_ = is_output_ || tensor->requires_grad();
    const std::shared_ptr<TensorPacker> &packer = PackerState::OfThisThread().packer;
    if (packs && packer != nullptr && packer->Packs(*tensor)) {
        Pack(tensor, packer, saver);
        return;
    }
    // An output would hold this function, which holds it. A recorded tensor may become part of what is computed from it
    // by a later change in place. Either would be a cycle, so what is kept has the place of now.
    if (is_output_) {
        tensor_ = Alias(*tensor);
    } else {
        const Edge edge = requires_grad_ ? GetMeta(*tensor)->edge : Edge{};
        tensor_ = edge.function == nullptr ? tensor : AttachedAlias(*tensor, edge);
    }
}

void SavedTensor::Pack(const TensorPtr &tensor, std::shared_ptr<TensorPacker> packer, const Function &saver) {
    auto packed = std::make_shared<Packed>();
    packed->dims = tensor->Dims();
    packed->dtype = tensor->Dtype();
    packed->device = tensor->GetDevice();
    packed->storage = tensor->storage();
    if (!is_output_ && requires_grad_) {
        packed->edge = GradientEdge(tensor);
    }
    {
        const NoGradGuard no_grad;
        const PackerScope none(nullptr);
        packed->value = packer->Pack(Alias(*tensor), saver);
    }
    if (tensor->Version() != version_) {
        Throw<AutogradError>("{}: the pack hook changed in place the tensor of shape {} that it was given",
                             saver.type(), FormatDims(packed->dims));
    }
    if (const Tensor *value = packed->ValueTensor()) {
        packed->value_version = value->Version();
    }
    packed->packer = std::move(packer);
    packed_ = std::move(packed);
}

TensorPtr SavedTensor::UnpackPacked(const Function &saver) const {
    if (const Tensor *changed = packed_->ChangedValue()) {
        ThrowChanged(saver, *changed, packed_->value_version);
    }
    TensorPtr tensor;
    {
        const NoGradGuard no_grad;
        const PackerScope none(nullptr);
        tensor = packed_->packer->Unpack(packed_->value, saver);
    }
    if (const Tensor *changed = packed_->ChangedValue()) {
        Throw<AutogradError>("{}: the unpack hook changed in place the tensor of shape {} that had been packed",
                             saver.type(), FormatDims(changed->Dims()));
    }
    if (tensor == nullptr || tensor->Dims() != packed_->dims || tensor->Dtype() != packed_->dtype ||
        tensor->GetDevice() != packed_->device) {
        Throw<AutogradError>(
            "{}: the unpack hook gave {} where {} was saved", saver.type(),
            tensor == nullptr ? "null" : DescribeTensor(tensor->Dims(), tensor->Dtype(), tensor->GetDevice()),
            DescribeTensor(packed_->dims, packed_->dtype, packed_->device));
    }
    const auto storage = packed_->storage.lock();
    if (storage != nullptr && storage == tensor->storage() && storage->version() != version_) {
        ThrowChanged(saver, *tensor, version_);
    }
    return tensor->requires_grad() ? Alias(*tensor) : tensor;
}

TensorPtr SavedTensor::Unpack(const Function &saver) const {
    if (packed_ == nullptr && tensor_ == nullptr) {
        return nullptr;
    }
    const TensorPtr tensor = packed_ != nullptr ? UnpackPacked(saver) : tensor_;
    if (packed_ == nullptr) {
        if (tensor->storage().get() != storage_) {
            Throw<AutogradError>(
                "{}: a tensor of shape {} that it saved for its backward pass was given other data since", saver.type(),
                FormatDims(tensor->Dims()));
        }
        if (tensor->Version() != version_) {
            ThrowChanged(saver, *tensor, version_);
        }
    }
    if (!requires_grad_ || !GradMode::IsEnabled()) {
        return tensor;
    }
    if (is_output_) {
        const auto self = std::const_pointer_cast<Function>(saver.shared_from_this());
        return AttachedAlias(*tensor, {self, output_idx_, FunctionAccess::Application(saver)});
    }
    return packed_ != nullptr ? AttachedAlias(*tensor, packed_->edge) : tensor;
}

void SavedTensor::Release() const {
    if (packed_ != nullptr) {
        packed_->packer->Release(packed_->value);
    }
}

SavedTensor::Info SavedTensor::Inspect() const {
    Info info;
    info.tensor = tensor_;
    info.packed = packed_ != nullptr;
    info.is_output = is_output_;
    info.output_idx = output_idx_;
    if (info.packed) {
        info.dims = packed_->dims;
        info.dtype = packed_->dtype;
        info.changed = packed_->ChangedValue() != nullptr;
    } else if (tensor_ != nullptr) {
        info.dims = tensor_->Dims();
        info.dtype = tensor_->Dtype();
        info.changed = tensor_->storage().get() != storage_ || tensor_->Version() != version_;
    }
    return info;
}

void SavedTensor::LetGoOf(const Tensor &tensor) {
    if (tensor_.get() == &tensor) {
        tensor_ = Alias(tensor);
    }
}

}  // namespace infini_train::autograd
