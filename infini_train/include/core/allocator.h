#pragma once

#include <cstddef>
#include <cstdint>

#include "infini_train/include/common/export.h"
#include "infini_train/include/device.h"

namespace infini_train {

/// What an allocator holds, in bytes.
struct MemoryStats {
    size_t live = 0;           ///< handed out now, as rounded up by the allocator
    size_t peak = 0;           ///< the most that was live since the start or the last ResetPeak
    size_t reserved = 0;       ///< live plus what is kept for reuse
    uint64_t allocations = 0;  ///< number of Allocate calls
};

/// A device's memory. All methods may be called from any thread.
class INFINI_TRAIN_EXPORT Allocator {
public:
    virtual ~Allocator() = default;

    /// At least `bytes` (0 is fine) of uninitialised memory, aligned to kAlignment. Throws OutOfMemoryError that says
    /// how much was asked for, how much is live, kept and free.
    virtual void *Allocate(size_t bytes) = 0;
    /// Takes back what Allocate(bytes) gave; `bytes` must be the same. A null pointer is ignored.
    virtual void Deallocate(void *data, size_t bytes) noexcept = 0;

    virtual MemoryStats Stats() const = 0;
    virtual void ResetPeak() = 0;
    /// Gives the memory that is kept for reuse back to the system.
    virtual void ReleaseCached() = 0;
    /// Makes the peak at least `bytes`: who has reset it, to measure a part of a run, puts back that of the whole.
    virtual void RestorePeak(size_t bytes) = 0;

    static constexpr size_t kAlignment = 64;
};

/// The allocator of a device; throws DeviceError where there is no such device.
INFINI_TRAIN_EXPORT Allocator &GetAllocator(Device device);

}  // namespace infini_train
