#pragma once

#include <cstddef>

namespace cuda_emulation {

/// A function with a stack of its own, which runs until it switches to another. x86-64 only.
class Fiber {
public:
    /// Of what the functions of kernels may use for themselves.
    static constexpr size_t kStackBytes = 64 * 1024;

    /// Begins `entry`, which must never return, at the next SwitchFrom.
    void Start(char *stack, void (*entry)());
    /// Goes on here, and keeps in `from` where to come back to.
    void SwitchFrom(Fiber *from);

private:
    void *stack_pointer_ = nullptr;
};

/// Stack `index` of 1,024, below which is a page that nobody may touch.
char *FiberStack(size_t index);
/// Whether an address lies in one of them.
bool IsOnFiberStack(const void *address);

}  // namespace cuda_emulation
