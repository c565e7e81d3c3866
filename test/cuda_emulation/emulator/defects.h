#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cuda_emulation {

/// What was found wrong with kernels, a line each, since the last TakeDefects. A defect also fails the launch and, as
/// on a GPU, every call after it until TakeDefects is called.
std::vector<std::string> TakeDefects();

/// `what`, the line of the source at `caller`, the thread of the grid that is running, and `more`. The same defect at
/// the same place is reported once.
void ReportDefect(const std::string &what, const void *caller, const std::string &more = "");

/// `file.cu:12`, of the kernel's line rather than of the emulation's header that is inlined there; `?` if unknown.
std::string SourceLine(const void *caller);

}  // namespace cuda_emulation
