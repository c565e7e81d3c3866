#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"

namespace infini_train::autograd {

/// Until the end of the scope, operators of this thread choose the data type that they compute in, as PyTorch's
/// autocast does: products (Matmul, Linear, Conv2d, Outer, ScaledDotProductAttention) take their float32 inputs as
/// `dtype`; what loses too much there (softmax, losses, norms, exponentials, powers, sums) takes 16-bit inputs as
/// float32; joins take the widest type among theirs; all else takes inputs as they come. float64, integers and other
/// devices' tensors stay.
///
///     {
///         const AutocastGuard autocast(DeviceType::kCUDA);
///         loss = model({x})[0]->...;
///     }
///     loss->Backward();
///
/// Parameters stay float32, and so do their gradients: what casts them is part of the graph. A parameter is cast once
/// and kept until the outermost guard of the thread ends, unless it is changed. Hooks see the tensors as operators take
/// them. A backward pass isn't affected, whatever is around it; what a checkpoint recomputes is as it was.
class INFINI_TRAIN_EXPORT AutocastGuard {
public:
    /// bfloat16 or float16; throws DtypeError for any other type. Not `enabled`: operators on the device compute in
    /// what they are given, whatever a guard around this one says.
    explicit AutocastGuard(DeviceType device, DataType dtype = DataType::kBFLOAT16, bool enabled = true);
    ~AutocastGuard();
    AutocastGuard(const AutocastGuard &) = delete;
    AutocastGuard &operator=(const AutocastGuard &) = delete;

    static bool IsEnabled(DeviceType device);
    /// What products are computed in on the device while autocast is enabled there.
    static DataType Dtype(DeviceType device);

private:
    const DeviceType device_;
    const bool was_enabled_;
    const DataType previous_;
};

/// What autocast does with an operator's inputs.
enum class AutocastPolicy : uint8_t {
    kNone,     ///< takes them as they are
    kNarrow,   ///< float32 becomes the guard's type
    kFloat32,  ///< 16-bit floats become float32
    kWidest,   ///< all become the widest of their types
};
/// By the operator's type(): the library's have theirs, others kNone until SetAutocastPolicy says something else, best
/// before threads run.
INFINI_TRAIN_EXPORT AutocastPolicy GetAutocastPolicy(const std::string &type);
INFINI_TRAIN_EXPORT void SetAutocastPolicy(const std::string &type, AutocastPolicy policy);

}  // namespace infini_train::autograd
