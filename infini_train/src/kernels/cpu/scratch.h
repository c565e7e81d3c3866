#pragma once

#include <cstddef>
#include <cstdint>

#include "infini_train/include/core/allocator.h"
#include "infini_train/include/device.h"

namespace infini_train::cpu {

/// Uninitialised memory for the length of a scope, from the caching allocator; 64-byte aligned.
template <typename T>
class Scratch {
public:
    explicit Scratch(int64_t elements)
        : allocator_(GetAllocator(Device())),
          bytes_(static_cast<size_t>(elements) * sizeof(T)),
          data_(static_cast<T *>(allocator_.Allocate(bytes_))) {}
    ~Scratch() { allocator_.Deallocate(data_, bytes_); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    T *data() const { return data_; }

private:
    Allocator &allocator_;
    const size_t bytes_;
    T *const data_;
};

}  // namespace infini_train::cpu
