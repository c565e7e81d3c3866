#pragma once

#include <cstddef>

namespace cuda_emulation {

/// The stack of a device's thread.
inline constexpr size_t kStackBytes = size_t{64} << 10;

/// Leaves where it was called, to go on there when `*saved` is switched to, and goes on at `to`.
void SwitchFiber(void **saved, void *to);

/// What to switch to for `entry` to begin on a stack of kStackBytes; it must not return.
void *NewFiber(char *stack, void (*entry)());

/// Stacks with a guard page below each, made once.
char *FiberStack(size_t index);

/// Whether the address lies on any of these stacks.
bool IsOnFiberStack(const void *address);

}  // namespace cuda_emulation
