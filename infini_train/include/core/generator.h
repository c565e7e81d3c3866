#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

#include "infini_train/include/common/export.h"

namespace infini_train {

class RandomTape;

/// A source of random numbers: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
/// The i-th number of a draw depends on seed, stream, offset and i alone, hence not on threads or device, and the whole
/// state is three integers. Safe to use from several threads, each of which then gets numbers of its own. While a
/// thread recomputes a checkpoint (autograd/checkpoint.h) it is given what it drew the first time, and changes no
/// generator.
class INFINI_TRAIN_EXPORT Generator {
public:
    struct State {
        uint64_t seed = 0;
        uint64_t stream = 0;
        uint64_t offset = 0;  ///< in blocks of four 32-bit numbers
        friend bool operator==(const State &, const State &) = default;
    };

    explicit Generator(uint64_t seed = 0, uint64_t stream = 0) : state_{seed, stream, 0} {}

    /// Starts over with a new seed.
    void SetSeed(uint64_t seed, uint64_t stream = 0);
    State GetState() const;
    void SetState(const State &state);

    /// Takes the next `blocks` blocks of four numbers and returns the state they begin at.
    State Reserve(uint64_t blocks);

    /// The next number, uniform in [0, n) without bias; throws ValueError for n == 0.
    uint64_t NextBelow(uint64_t n);
    /// The next number, uniform in [0, 1), a multiple of 2^-53.
    double NextDouble();

private:
    friend class RandomTape;

    // What Reserve and GetState do while no tape is in force.
    State Advance(uint64_t blocks);
    State Now() const;

    mutable std::mutex mutex_;
    State state_;
};

/// The generator that is used where none is named.
INFINI_TRAIN_EXPORT Generator &DefaultGenerator();
/// Seeds the default generator: from here on everything random in the library repeats itself.
INFINI_TRAIN_EXPORT void ManualSeed(uint64_t seed);

}  // namespace infini_train
