#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/common/format.h"

namespace infini_train::internal {

void ThrowNoKernel(const char *name, DeviceType wanted, const bool *available) {
    std::string types;
    for (int i = 0; i < Device::kNumDeviceTypes; ++i) {
        if (available[i]) {
            types += (types.empty() ? "" : ", ") + ToString(static_cast<DeviceType>(i));
        }
    }
    Throw<NotImplementedError>("{}: no kernel for {}; available: {}", name, ToString(wanted),
                               types.empty() ? "none" : types);
}

void ThrowKernelExists(const char *name, DeviceType type) {
    Throw<ValueError>("{}: expected no kernel for {} yet, got a second one", name, ToString(type));
}

}  // namespace infini_train::internal
