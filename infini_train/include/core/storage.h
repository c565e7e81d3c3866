#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "infini_train/include/common/export.h"
#include "infini_train/include/device.h"

namespace infini_train {

class Allocator;

/// A block of a device's memory, shared by the tensors that are views of it. The version counts the changes made in
/// place, so that autograd notices when a value it has saved was overwritten.
class INFINI_TRAIN_EXPORT Storage {
public:
    /// Uninitialised memory; throws OutOfMemoryError.
    Storage(size_t bytes, Device device);
    /// The same out of another allocator's memory than the device's.
    Storage(size_t bytes, Device device, Allocator *allocator);
    /// Somebody else's memory; `deleter(data)` runs once the last tensor is gone (may be empty).
    Storage(void *data, size_t bytes, Device device, std::function<void(void *)> deleter);
    ~Storage();
    Storage(const Storage &) = delete;
    Storage &operator=(const Storage &) = delete;

    void *data() const { return data_; }
    size_t bytes() const { return bytes_; }
    Device device() const { return device_; }

    uint32_t version() const { return version_.load(std::memory_order_relaxed); }
    void BumpVersion() { version_.fetch_add(1, std::memory_order_relaxed); }

private:
    void *data_ = nullptr;
    size_t bytes_ = 0;
    Device device_;
    std::atomic<uint32_t> version_{0};
    Allocator *allocator_ = nullptr;  // null for somebody else's memory
    std::unique_ptr<std::function<void(void *)>> deleter_;
};

}  // namespace infini_train
