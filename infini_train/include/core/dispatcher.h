#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/core/device_guard.h"
#include "infini_train/include/device.h"

namespace infini_train {

/// The base of a kernel's tag, which carries the kernel's function type and name:
///
///     struct SoftmaxForward : KernelTag<void(TensorRef output, ConstTensorRef input, int dim)> {
///         static constexpr const char *kName = "SoftmaxForward";
///     };
///     RegisterKernel<SoftmaxForward>(DeviceType::kCPU, &cpu::SoftmaxForwardKernel);
///     Dispatch<SoftmaxForward>(device, output, input, dim);
///
/// A kernel of another type than its tag's doesn't compile.
template <typename Signature>
struct KernelTag;
template <typename R, typename... Args>
struct KernelTag<R(Args...)> {
    using Kernel = R (*)(Args...);
};

namespace internal {
/// True once the library's own kernels are in their tables.
INFINI_TRAIN_EXPORT inline std::atomic<bool> kernels_registered{false};
INFINI_TRAIN_EXPORT void RegisterLibraryKernels();
inline void EnsureKernelsRegistered() {
    if (!kernels_registered.load(std::memory_order_acquire)) [[unlikely]] {
        RegisterLibraryKernels();
    }
}

[[noreturn]] INFINI_TRAIN_EXPORT void ThrowNoKernel(const char *name, DeviceType wanted, const bool *available);
[[noreturn]] INFINI_TRAIN_EXPORT void ThrowKernelExists(const char *name, DeviceType type);

template <typename Tag>
INFINI_TRAIN_EXPORT inline std::array<std::atomic<typename Tag::Kernel>, Device::kNumDeviceTypes> kernel_table{};
}  // namespace internal

/// Makes `kernel` the implementation of Tag on a device type. Throws ValueError if there is one already.
template <typename Tag>
void RegisterKernel(DeviceType type, typename Tag::Kernel kernel) {
    internal::EnsureKernelsRegistered();
    typename Tag::Kernel expected = nullptr;
    if (!internal::kernel_table<Tag>[static_cast<size_t>(type)].compare_exchange_strong(expected, kernel)) {
        internal::ThrowKernelExists(Tag::kName, type);
    }
}

template <typename Tag>
bool HasKernel(DeviceType type) {
    internal::EnsureKernelsRegistered();
    return internal::kernel_table<Tag>[static_cast<size_t>(type)].load(std::memory_order_acquire) != nullptr;
}

/// Runs Tag's kernel on `device`; throws NotImplementedError that names the kernel, the device type and the types that
/// have one.
template <typename Tag, typename... Args>
auto Dispatch(Device device, Args &&...args) {
    internal::EnsureKernelsRegistered();
    const auto kernel = internal::kernel_table<Tag>[static_cast<size_t>(device.type())].load(std::memory_order_acquire);
    if (kernel == nullptr) {
        bool available[Device::kNumDeviceTypes];
        for (int i = 0; i < Device::kNumDeviceTypes; ++i) {
            available[i] = internal::kernel_table<Tag>[i].load(std::memory_order_relaxed) != nullptr;
        }
        internal::ThrowNoKernel(Tag::kName, device.type(), available);
    }
    DeviceGuard guard(device);
    return kernel(std::forward<Args>(args)...);
}

}  // namespace infini_train
