#include "infini_train/src/kernels/cpu/gemm_workspace.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "infini_train/include/common/error.h"

namespace infini_train::cpu {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

class Buffer {
public:
    Buffer() = default;
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() { std::free(data_); }

    void *Get(size_t bytes) {
        if (bytes > size_) {
            Grow(bytes);
        }
        return data_;
    }

private:
    void Grow(size_t bytes) {
        std::free(data_);
        data_ = nullptr;
        size_ = 0;
        // Packed panels are read over and over: on huge pages they take a few TLB entries instead of hundreds.
        const size_t alignment = bytes >= kHugePage / 2 ? kHugePage : kCacheLine;
        const size_t size = (bytes + alignment - 1) / alignment * alignment;
        data_ = std::aligned_alloc(alignment, size);
        if (data_ == nullptr) {
            throw OutOfMemoryError("Gemm: expected room for a workspace, got none for " + std::to_string(size) +
                                   " bytes");
        }
        size_ = size;
#ifdef __linux__
        if (alignment == kHugePage) {
            madvise(data_, size, MADV_HUGEPAGE);
        }
#endif
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
