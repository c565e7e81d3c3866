#pragma once

#include <array>
#include <optional>
#include <string>

#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"

namespace infini_train::autograd {

/// A thread's.
struct AutocastState {
    struct OfDevice {
        bool enabled = false;
        DataType dtype = DataType::kBFLOAT16;
        friend bool operator==(const OfDevice &, const OfDevice &) = default;
    };
    std::array<OfDevice, Device::kNumDeviceTypes> devices;

    bool Any() const;
};
AutocastState GetAutocastState();

/// Whether any device's is enabled in this thread: the one thing that costs where it isn't.
inline thread_local bool autocast_is_on = false;

/// Puts a state in force until the end of the scope; the default one is none.
class AutocastStateScope {
public:
    explicit AutocastStateScope(const AutocastState &state);
    ~AutocastStateScope();
    AutocastStateScope(const AutocastStateScope &) = delete;
    AutocastStateScope &operator=(const AutocastStateScope &) = delete;

private:
    const AutocastState previous_;
    const bool kept_casts_;
};

/// The inputs as the operator is to take them; nothing if that is as they are.
std::optional<TensorList> AutocastInputs(const std::string &type, const TensorList &inputs);

}  // namespace infini_train::autograd
