#pragma once

#include <optional>
#include <string>
#include <vector>

#include "test/cuda_emulation/runtime/report.h"

namespace infini_train::test {

/// A kernel with a mistake, and what the emulation says of it. The line is the one whose comment ends in `fault:
/// <kernel>`.
struct Fault {
    std::string kernel;
    cuda_emulation::Defect defect;
    void (*run)();
    bool needs_checker = true;
    std::string file;
    std::optional<cuda_emulation::Defect> or_else = std::nullopt;  ///< what another order of threads leads to
};
using Faults = std::vector<Fault>;

Faults MemoryFaults();
Faults OrderFaults();
Faults SynchronisationFaults();

/// A correct kernel that looks as if it weren't. `run` returns whether its results are right.
struct Correct {
    std::string name;
    bool (*run)();
};
std::vector<Correct> CorrectKernels();
std::vector<Correct> CorrectWarpKernels();

}  // namespace infini_train::test
