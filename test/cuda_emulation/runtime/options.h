#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_emulation {

inline constexpr int kNumDevices = 2;

/// The order of blocks, warps and lanes.
enum class Order { kForward, kReverse, kRandom };

struct Options {
    Order order = Order::kForward;
    uint64_t seed = 1;
    /// Queued work runs when something waits for it, rather than at once.
    bool lazy_streams = false;
    /// Device memory is closed to the host after one in so many calls that touch it; closing takes longer than a
    /// kernel.
    int guard_every = 7;
    size_t memory_bytes = size_t{4} << 30;  ///< of a device
    int shared_bytes = 227 * 1024;          ///< what a block may ask for
    unsigned launch_bound = 256;            ///< kBlock, which every kernel's __launch_bounds__ says
    int multiprocessors = 4;                ///< few, so that loops over the grid loop
};

/// As the environment says: INFINI_TRAIN_EMULATION=plain, reverse or random, with INFINI_TRAIN_EMULATION_SEED. Tests
/// may change them while nothing is queued.
Options &CurrentOptions();

/// The next number of the seed's sequence.
uint64_t NextRandom();

}  // namespace cuda_emulation
