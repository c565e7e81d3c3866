#include "infini_train/include/core/storage.h"

#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/allocator.h"

#include "infini_train/src/common/format.h"

namespace infini_train {

Storage::Storage(size_t bytes, Device device) : Storage(bytes, device, &GetAllocator(device)) {}

Storage::Storage(size_t bytes, Device device, Allocator *allocator)
    : data_(allocator->Allocate(bytes)), bytes_(bytes), device_(device), allocator_(allocator) {}

Storage::Storage(void *data, size_t bytes, Device device, std::function<void(void *)> deleter)
    : data_(data), bytes_(bytes), device_(device) {
    if (data == nullptr && bytes > 0) {
        Throw<ValueError>("Storage: expected {} bytes of memory, got a null pointer", bytes);
    }
    if (deleter) {
        deleter_ = std::make_unique<std::function<void(void *)>>(std::move(deleter));
    }
}

Storage::~Storage() {
    if (allocator_ != nullptr) {
        allocator_->Deallocate(data_, bytes_);
    } else if (deleter_ != nullptr) {
        try {
            (*deleter_)(data_);
        } catch (...) {
            // The memory's owner failed to let go of it; a destructor can't report that.
        }
    }
}

}  // namespace infini_train
