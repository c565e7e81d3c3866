#pragma once

#include <driver_types.h>
#include <string>
#include <vector>

#include "test/cuda_emulation/runtime/symbols.h"

namespace cuda_emulation {

enum class Defect {
    kIllegalAddress,    ///< memory that isn't the device's, or that a fault of the processor showed to be nobody's
    kOutOfBounds,       ///< outside an allocation, a launch's shared memory, or in a freed allocation
    kUninitialised,     ///< a read of what nobody wrote
    kRace,              ///< two threads, one of them writing, without a barrier between them
    kMisaligned,        ///< an address that isn't a multiple of the access's size
    kNeverCompletes,    ///< a barrier or an operation of a warp that somebody doesn't reach
    kDivergentBarrier,  ///< threads meet at different barriers, or some have returned
    kWrongMask,         ///< a lane mask without the calling lane, or with lanes that aren't there
    kTrap,              ///< __trap()
    kUndefined,         ///< what C++ leaves undefined: a local array's bounds, a shift, an overflow of signed integers
    kHostAccess,        ///< the host touched the device's memory
    kWrongFree,         ///< of a pointer that isn't allocated
};
const char *ToString(Defect defect);

struct Report {
    Defect defect;
    std::string kernel;  ///< empty for the host's
    Site site;
    Site other;  ///< of a race: the earlier access
    std::string text;
};

/// Notes a defect and prints it, but once for each place. `error`, if it is one, is what all calls return from now on.
void AddReport(Defect defect, const void *pc, const std::string &text, cudaError_t error = cudaSuccess,
               const void *other_pc = nullptr);

/// The reports since the last call. The device works again afterwards.
std::vector<Report> TakeReports();
size_t NumReports();

/// What a failed kernel has left for all calls.
cudaError_t StickyError();

}  // namespace cuda_emulation
