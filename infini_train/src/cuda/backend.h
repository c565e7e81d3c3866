#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>

#include <cuda_runtime_api.h>

#include "infini_train/include/core/device_backend.h"

#include "infini_train/src/cuda/caching_allocator.h"
#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/pinned_allocator.h"

namespace infini_train::cuda {

/// NVIDIA's GPUs. Without a driver or a GPU it has no devices and says why.
class Backend : public DeviceBackend {
public:
    Backend();

    int DeviceCount() const override { return count_; }
    std::string WhyNoDevice() const override { return why_none_; }
    int CurrentDevice() const override { return CurrentDeviceIndex(); }
    void SetCurrentDevice(int index) override;
    Allocator &GetAllocator(int index) override { return AllocatorOf(index); }
    Stream CurrentStream() const override;
    void SetCurrentStream(Stream stream) override;
    void Synchronize() override;
    void Copy(void *destination, Device destination_device, const void *source, Device source_device,
              size_t bytes) override;

    bool CopyAsync(void *destination, Device destination_device, const void *source, Device source_device,
                   size_t bytes) override;
    Allocator *PinnedAllocator() override { return count_ > 0 ? &pinned_ : nullptr; }
    bool IsPinned(const void *block) const override { return pinned_.Contains(block); }
    void RecordUse(void *block, const Stream &stream) override;

    Stream NewStream(int index, Stream::Priority priority) override;
    bool Query(const Stream &stream) override;
    void Synchronize(const Stream &stream) override;

    void *NewEvent(int index, bool timing) override;
    void DeleteEvent(int index, void *event) noexcept override;
    void Record(void *event, const Stream &stream) override;
    void MakeWait(const Stream &stream, void *event) override;
    bool QueryEvent(void *event) override;
    void SynchronizeEvent(void *event) override;
    double ElapsedMilliseconds(void *start, void *end) override;

    std::unique_ptr<RecordedGraph> NewGraph(int index) override;

private:
    static constexpr int kStreamsPerPriority = 32;
    // Streams of a device besides its default one, made when first asked for.
    struct Streams {
        std::array<cudaStream_t, kStreamsPerPriority> made{};
        size_t next = 0;
    };
    struct DeviceState {
        std::unique_ptr<CachingAllocator> allocator;
        Streams normal;
        Streams high;
    };

    CachingAllocator &AllocatorOf(int index);

    int count_ = 0;
    std::string why_none_;
    std::mutex mutex_;
    std::array<DeviceState, kMaxDevices> devices_;
    cuda::PinnedAllocator pinned_;
};

}  // namespace infini_train::cuda
