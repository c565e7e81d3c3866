#include "infini_train/src/kernels/cpu/gemm_workspace.h"

#include <algorithm>

#include "infini_train/include/core/allocator.h"
#include "infini_train/include/device.h"

namespace infini_train::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

class Buffer {
public:
    Buffer() = default;
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() { Release(); }

    void *Get(size_t bytes) {
        if (bytes > size_) {
            Release();
            // Packed panels are read over and over: on huge pages they take a few TLB entries instead of hundreds.
            const size_t size = bytes >= kHugePage / 2 ? (bytes + kHugePage - 1) / kHugePage * kHugePage : bytes;
            data_ = GetAllocator(Device()).Allocate(size);
            size_ = size;
        }
        return data_;
    }

private:
    void Release() noexcept {
        if (data_ != nullptr) {
            GetAllocator(Device()).Deallocate(data_, size_);
            data_ = nullptr;
            size_ = 0;
        }
    }

    void *data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace

void *GemmWorkspace(GemmBuffer buffer, size_t bytes) {
    thread_local Buffer buffers[kNumGemmBuffers];
    return buffers[static_cast<int>(buffer)].Get(std::max<size_t>(bytes, 1));
}

}  // namespace infini_train::cpu
