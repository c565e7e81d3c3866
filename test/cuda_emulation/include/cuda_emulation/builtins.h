// Built-in variables, and the runtime's entries for device code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector_types.h>

#include "cuda_emulation/qualifiers.h"

// Set whenever another fiber runs, so constant to each of them. Not macros: cudaLaunchConfig_t has members of such
// names.
extern const uint3 threadIdx asm("cuda_emulation_thread_index");
extern const uint3 blockIdx asm("cuda_emulation_block_index");
extern const dim3 blockDim asm("cuda_emulation_block_dim");
extern const dim3 gridDim asm("cuda_emulation_grid_dim");
constexpr int warpSize = 32;

namespace cuda_emulation {

extern const uint32_t lane_index asm("cuda_emulation_lane_index");

/// What a warp does together; lanes that meet must do the same.
enum class WarpOperation : uint8_t { kSync, kShuffle, kVote, kMatch, kMma };

/// Every participant brings a pointer to its own data; the last to arrive runs `exchange` over all of them, by lane.
using WarpExchange = void (*)(void **lanes, uint32_t mask);
void MeetInWarp(uint32_t mask, WarpOperation operation, void *data, WarpExchange exchange, void *pc);
/// The same for a block, by linear thread index.
using BlockExchange = void (*)(void **threads, uint32_t count);
void MeetInBlock(void *data, BlockExchange exchange, void *pc);

/// The checker's view of what isn't an ordinary access; nothing in a build without it.
void OnAtomic(const void *address, size_t bytes, void *pc);
void OnFence();

/// Ends the running kernel with an error.
[[noreturn]] void Trap(const char *why, void *pc);
[[noreturn]] void FailAlignment(const char *why, void *pc);
[[noreturn]] void FailWarp(const char *why);

}  // namespace cuda_emulation
