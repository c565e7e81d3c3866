#pragma once

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"

namespace infini_train::autograd {

/// A contiguous copy in another data type: floats become integers by truncation, anything but 0 becomes true. The
/// gradient is converted back.
class INFINI_TRAIN_EXPORT Cast : public Function {
public:
    static constexpr char kType[] = "Cast";
    explicit Cast(DataType dtype) : Function(kType), dtype_(dtype) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const DataType dtype_;
    DataType input_dtype_ = DataType::kFLOAT32;
};

/// A contiguous copy on another device, done or, if it is `non_blocking`, maybe only queued (see Tensor::To). The
/// gradient goes back to the input's.
class INFINI_TRAIN_EXPORT ToDevice : public Function {
public:
    static constexpr char kType[] = "ToDevice";
    explicit ToDevice(Device device, bool non_blocking = false)
        : Function(kType), device_(device), non_blocking_(non_blocking) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const Device device_;
    const bool non_blocking_;
    Device input_device_;
};

/// A contiguous copy.
class INFINI_TRAIN_EXPORT Clone : public Function {
public:
    static constexpr char kType[] = "Clone";
    Clone() : Function(kType) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;
};

}  // namespace infini_train::autograd
