#include "infini_train/include/core/device_backend.h"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/device_guard.h"
#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/core/cpu_allocator.h"

namespace infini_train {
namespace {

class CpuBackend : public DeviceBackend {
public:
    int DeviceCount() const override { return 1; }
    int CurrentDevice() const override { return 0; }
    void SetCurrentDevice(int index) override {
        if (index != 0) {
            Throw<DeviceError>("SetCurrentDevice: expected 0 for the CPU, got {}", index);
        }
    }
    Allocator &GetAllocator(int) override { return CpuAllocator(); }
    Stream CurrentStream() const override { return {}; }
    void SetCurrentStream(Stream) override {}
    void Synchronize() override {}
    void Copy(void *destination, Device destination_device, const void *source, Device source_device,
              size_t bytes) override {
        if (!destination_device.IsCPU() || !source_device.IsCPU()) {
            Throw<DeviceError>("Copy: expected two CPU devices, got {} and {}", destination_device.ToString(),
                               source_device.ToString());
        }
        if (bytes > 0) {
            std::memmove(destination, source, bytes);
        }
    }
};

using Backends = std::array<std::atomic<DeviceBackend *>, Device::kNumDeviceTypes>;

// Never destroyed: tensors in static variables outlive everything.
Backends &GetBackends() {
    static Backends &backends = *[] {
        auto *made = new Backends{};
        (*made)[static_cast<size_t>(DeviceType::kCPU)] = new CpuBackend;
        return made;
    }();
    return backends;
}

DeviceBackend *FindBackend(DeviceType type) {
    internal::EnsureKernelsRegistered();  // the library's own backends come with their kernels
    return GetBackends()[static_cast<size_t>(type)].load(std::memory_order_acquire);
}

}  // namespace

DeviceBackend &GetDeviceBackend(Device device) {
    DeviceBackend *backend = FindBackend(device.type());
    if (backend == nullptr) {
        Throw<DeviceError>("GetDeviceBackend: expected a device of this machine and build, got {}: no {} support",
                           device.ToString(), ToString(device.type()));
    }
    if (!device.IsCPU() && device.index() >= backend->DeviceCount()) {
        if (backend->DeviceCount() == 0) {
            Throw<DeviceError>("GetDeviceBackend: expected a device of this machine, got {}: {}", device.ToString(),
                               backend->WhyNoDevice());
        }
        Throw<DeviceError>("GetDeviceBackend: expected an index below {} for {}, got {}", backend->DeviceCount(),
                           ToString(device.type()), device.index());
    }
    return *backend;
}

bool HasDevice(Device device) {
    const DeviceBackend *backend = FindBackend(device.type());
    return backend != nullptr && device.index() < backend->DeviceCount();
}

void RegisterDeviceBackend(DeviceType type, std::unique_ptr<DeviceBackend> backend) {
    if (backend == nullptr) {
        Throw<ValueError>("RegisterDeviceBackend: expected a backend for {}, got null", ToString(type));
    }
    internal::EnsureKernelsRegistered();
    std::atomic<DeviceBackend *> &place = GetBackends()[static_cast<size_t>(type)];
    DeviceBackend *expected = place.load(std::memory_order_acquire);
    if ((expected != nullptr && expected->DeviceCount() > 0) ||
        !place.compare_exchange_strong(expected, backend.get())) {
        Throw<ValueError>("RegisterDeviceBackend: expected a type without a backend, got {}", ToString(type));
    }
    // Whoever asked for the one that gives way may still hold it.
    static auto &registered = *new std::vector<std::unique_ptr<DeviceBackend>>;
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    registered.push_back(std::move(backend));
}

Allocator &GetAllocator(Device device) {
    return device.IsCPU() ? CpuAllocator() : GetDeviceBackend(device).GetAllocator(device.index());
}

void DeviceGuard::Enter() {
    DeviceBackend &backend = GetDeviceBackend(device_);
    const int current = backend.CurrentDevice();
    if (current != device_.index()) {
        backend.SetCurrentDevice(device_.index());
        previous_ = current;
    }
}

void DeviceGuard::Leave() noexcept {
    try {
        GetDeviceBackend(device_).SetCurrentDevice(previous_);
    } catch (...) {
        // A destructor can't report it; the device's next call will.
    }
}

}  // namespace infini_train
