#include "infini_train/include/autograd/cast.h"

#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/tensor/pinned.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace autograd {

TensorList Cast::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    input_dtype_ = inputs[0]->Dtype();
    return {CastCopy(*inputs[0], dtype_)};
}

TensorList Cast::Backward(const TensorList &grad_outputs) {
    return {ctx_.needs_input_grad(0) ? grad_outputs[0]->To(input_dtype_) : nullptr};
}

TensorList ToDevice::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    input_device_ = inputs[0]->GetDevice();
    if (device_ == input_device_) {
        return {CastCopy(*inputs[0], inputs[0]->Dtype())};
    }
    const TensorPtr source = ContiguousCopy(inputs[0]);
    const bool is_pinned = non_blocking_ && device_.IsCPU();
    auto output = is_pinned ? EmptyPinned(source->Dims(), source->Dtype(), input_device_)
                            : Tensor::Empty(source->Dims(), source->Dtype(), device_);
    // The backend of the one that isn't the CPU knows how to copy between them.
    DeviceBackend &backend = GetDeviceBackend(device_.IsCPU() ? input_device_ : device_);
    if (non_blocking_) {
        backend.CopyAsync(output->DataPtr(), device_, source->DataPtr(), input_device_, source->SizeInBytes());
    } else {
        backend.Copy(output->DataPtr(), device_, source->DataPtr(), input_device_, source->SizeInBytes());
    }
    return {std::move(output)};
}

TensorList ToDevice::Backward(const TensorList &grad_outputs) {
    return {ctx_.needs_input_grad(0) ? grad_outputs[0]->To(input_device_) : nullptr};
}

TensorList Clone::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    return {CastCopy(*inputs[0], inputs[0]->Dtype())};
}

TensorList Clone::Backward(const TensorList &grad_outputs) {
    return {ctx_.needs_input_grad(0) ? grad_outputs[0] : nullptr};
}

}  // namespace autograd

TensorPtr Tensor::Clone() {
    return std::make_shared<autograd::Clone>()->Apply({Self()})[0];
}

TensorPtr Tensor::To(Device device, bool non_blocking) {
    return device == GetDevice() ? Self()
                                 : std::make_shared<autograd::ToDevice>(device, non_blocking)->Apply({Self()})[0];
}

TensorPtr Tensor::To(DataType dtype) {
    return dtype == dtype_ ? Self() : std::make_shared<autograd::Cast>(dtype)->Apply({Self()})[0];
}

}  // namespace infini_train
