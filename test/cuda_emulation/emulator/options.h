#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_emulation {

/// How the emulation behaves. Read from the environment at the start: INFINI_TRAIN_EMULATION is `plain` (the default)
/// or `random`, INFINI_TRAIN_EMULATION_SEED a number.
struct Options {
    enum class Order { kForward, kReverse, kRandom };
    Order order = Order::kForward;  ///< of blocks, warps and lanes
    uint64_t seed = 1;
    bool lazy_streams = false;   ///< queued work runs only once somebody waits for it
    bool guards_memory = false;  ///< the device's memory can't be read by the host
    size_t device_bytes = size_t{4} << 30;
    size_t shared_bytes = 227 * 1024;  ///< of a block, at most
};

Options &GetOptions();

/// The next number of the generator behind the random order.
uint64_t NextRandom();

}  // namespace cuda_emulation
