#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cuda_emulation::checker {

/// The parts of the process that a kernel may touch besides device memory: shared memory, which is thread-local to the
/// compiler, its arguments, and the program's own constants.
class Places {
public:
    void OnLaunch(size_t shared_bytes, const void *call, size_t call_bytes);

    bool IsShared(const char *address) const { return static_cast<size_t>(address - shared_begin_) < shared_bytes_; }
    size_t SharedOffset(const char *address) const { return static_cast<size_t>(address - shared_begin_); }
    size_t shared_bytes() const { return shared_bytes_; }
    /// In the array for dynamic shared memory, but not in the part that the launch asked for.
    bool IsBeyondDynamic(const char *address, size_t bytes) const;

    bool IsArgument(const char *address) const {
        return static_cast<size_t>(address - arguments_begin_) < arguments_bytes_;
    }
    bool IsOfProgram(const char *address) const;

    /// Addresses of instructions in 32 bits.
    uint32_t OffsetOf(const void *pc) const {
        return static_cast<uint32_t>(static_cast<const char *>(pc) - program_begin_);
    }
    const void *PcAt(uint32_t offset) const { return program_begin_ + offset; }

private:
    void FindModules();

    const char *shared_begin_ = nullptr;
    size_t shared_bytes_ = 0;
    const char *dynamic_end_ = nullptr;
    const char *arguments_begin_ = nullptr;
    size_t arguments_bytes_ = 0;
    const char *program_begin_ = nullptr;
    std::vector<std::pair<const char *, const char *>> modules_;
};

}  // namespace cuda_emulation::checker
