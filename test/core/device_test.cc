#include "infini_train/include/device.h"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/core/device_guard.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/core/storage.h"

namespace infini_train {
namespace {

TEST(DeviceTest, ConstructsAndCompares) {
    EXPECT_EQ(Device(), Device(DeviceType::kCPU, 0));
    EXPECT_NE(Device(), Device(DeviceType::kCUDA));
    EXPECT_NE(Device(DeviceType::kCUDA, 1), Device(DeviceType::kCUDA));
    EXPECT_TRUE(Device().IsCPU());
    EXPECT_TRUE(Device(DeviceType::kCUDA, 3).IsCUDA());
    EXPECT_EQ(Device(DeviceType::kCUDA, 127).index(), 127);
    EXPECT_THROW(Device(DeviceType::kCUDA, -1), DeviceError);
    EXPECT_THROW(Device(DeviceType::kCUDA, 128), DeviceError);
    EXPECT_THROW(Device(DeviceType::kCPU, 1), DeviceError);
}

TEST(DeviceTest, ReadsAndPrints) {
    EXPECT_EQ(Device().ToString(), "CPU");
    EXPECT_EQ(Device(DeviceType::kCUDA, 2).ToString(), "CUDA:2");
    EXPECT_EQ(ToString(DeviceType::kCUDA), "CUDA");
    EXPECT_EQ(Device::FromString("cpu"), Device());
    EXPECT_EQ(Device::FromString("CPU:0"), Device());
    EXPECT_EQ(Device::FromString("Cuda"), Device(DeviceType::kCUDA));
    EXPECT_EQ(Device::FromString("CUDA:1"), Device(DeviceType::kCUDA, 1));
    EXPECT_EQ(Device::FromString("cuda:127"), Device(DeviceType::kCUDA, 127));
    for (const char *text : {"", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1x", "cuda:128", "cpu:1",
                             "cuda:99999999999", "cuda:1:2", " cpu"}) {
        EXPECT_THROW(Device::FromString(text), ValueError) << text;
    }
    try {
        Device::FromString("Tpu");
        FAIL();
    } catch (const ValueError &error) {
        EXPECT_STREQ(error.what(), "Device::FromString: expected cpu, cuda or cuda:<index>, got 'Tpu'");
    }
}

TEST(DeviceBackendTest, TheCpuIsAlwaysThere) {
    EXPECT_TRUE(HasDevice(Device()));
    DeviceBackend &cpu = GetDeviceBackend(Device());
    EXPECT_EQ(cpu.DeviceCount(), 1);
    EXPECT_EQ(cpu.CurrentDevice(), 0);
    cpu.SetCurrentDevice(0);
    EXPECT_THROW(cpu.SetCurrentDevice(1), DeviceError);
    EXPECT_EQ(&cpu.GetAllocator(0), &GetAllocator(Device()));
    EXPECT_EQ(cpu.CurrentStream().handle(), nullptr);
    cpu.SetCurrentStream({});
    cpu.Synchronize();
    const char source[] = "0123456789";
    char destination[11] = "..........";
    cpu.Copy(destination, Device(), source, Device(), 5);
    EXPECT_STREQ(destination, "01234.....");
    cpu.Copy(nullptr, Device(), nullptr, Device(), 0);
    EXPECT_THROW(cpu.Copy(destination, Device(DeviceType::kCUDA), source, Device(), 1), DeviceError);
    EXPECT_THROW(RegisterDeviceBackend(DeviceType::kCPU, nullptr), ValueError);
}

// Two devices that remember which one is current.
class FakeBackend : public DeviceBackend {
public:
    int DeviceCount() const override { return 2; }
    int CurrentDevice() const override { return current_; }
    void SetCurrentDevice(int index) override { current_ = index; }
    Allocator &GetAllocator(int) override { return infini_train::GetAllocator(Device()); }
    Stream CurrentStream() const override { return {}; }
    void SetCurrentStream(Stream) override {}
    void Synchronize() override {}
    void Copy(void *destination, Device, const void *source, Device, size_t bytes) override {
        std::memcpy(destination, source, bytes);
    }

private:
    int current_ = 0;
};

struct CurrentDeviceOf : KernelTag<int(DeviceBackend &backend)> {
    static constexpr const char *kName = "CurrentDeviceOf";
};

TEST(DeviceBackendTest, ARegisteredTypeIsGuardedAndDispatchedTo) {
    const Device first(DeviceType::kCUDA, 0), second(DeviceType::kCUDA, 1), third(DeviceType::kCUDA, 2);
    if (HasDevice(first)) {
        GTEST_SKIP() << "there is a real one";
    }
    EXPECT_THROW(GetDeviceBackend(first), DeviceError);
    EXPECT_THROW(GetAllocator(first), DeviceError);
    EXPECT_THROW(Storage(4, first), DeviceError);
    EXPECT_THROW(DeviceGuard guard(first), DeviceError);

    RegisterDeviceBackend(DeviceType::kCUDA, std::make_unique<FakeBackend>());
    EXPECT_THROW(RegisterDeviceBackend(DeviceType::kCUDA, std::make_unique<FakeBackend>()), ValueError);
    EXPECT_TRUE(HasDevice(second));
    EXPECT_FALSE(HasDevice(third));
    EXPECT_THROW(GetDeviceBackend(third), DeviceError);
    EXPECT_EQ(Storage(4, second).device(), second);

    DeviceBackend &backend = GetDeviceBackend(first);
    {
        const DeviceGuard outer(second);
        EXPECT_EQ(backend.CurrentDevice(), 1);
        {
            const DeviceGuard inner(first);
            EXPECT_EQ(backend.CurrentDevice(), 0);
            const DeviceGuard same(first);
            const DeviceGuard cpu{Device()};
            EXPECT_EQ(backend.CurrentDevice(), 0);
        }
        EXPECT_EQ(backend.CurrentDevice(), 1);
    }
    EXPECT_EQ(backend.CurrentDevice(), 0);

    RegisterKernel<CurrentDeviceOf>(DeviceType::kCUDA, [](DeviceBackend &on) { return on.CurrentDevice(); });
    EXPECT_EQ(Dispatch<CurrentDeviceOf>(second, backend), 1);
    EXPECT_EQ(backend.CurrentDevice(), 0);
    EXPECT_THROW(Dispatch<CurrentDeviceOf>(third, backend), DeviceError);
}

TEST(StorageTest, OwnsMemoryOfTheAllocator) {
    const size_t before = GetAllocator(Device()).Stats().live;
    {
        Storage storage(1000, Device());
        EXPECT_EQ(storage.bytes(), 1000U);
        EXPECT_EQ(storage.device(), Device());
        std::memset(storage.data(), 1, 1000);
        EXPECT_GE(GetAllocator(Device()).Stats().live, before + 1000);
        EXPECT_EQ(storage.version(), 0U);
        storage.BumpVersion();
        EXPECT_EQ(storage.version(), 1U);
        EXPECT_NE(Storage(0, Device()).data(), nullptr);
    }
    EXPECT_EQ(GetAllocator(Device()).Stats().live, before);
}

TEST(StorageTest, GivesForeignMemoryBackToItsOwner) {
    int value = 7;
    void *deleted = nullptr;
    {
        Storage storage(&value, sizeof(value), Device(), [&](void *data) { deleted = data; });
        EXPECT_EQ(storage.data(), &value);
        EXPECT_EQ(deleted, nullptr);
    }
    EXPECT_EQ(deleted, &value);
    { const Storage unowned(&value, sizeof(value), Device(), nullptr); }
    {
        const Storage failing(&value, sizeof(value), Device(), [](void *) { throw std::runtime_error("no"); });
    }
    EXPECT_EQ(value, 7);
    EXPECT_EQ(Storage(nullptr, 0, Device(), nullptr).data(), nullptr);
    EXPECT_THROW(Storage(nullptr, 4, Device(), nullptr), ValueError);
}

}  // namespace
}  // namespace infini_train
