#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "infini_train/include/device.h"
#include "infini_train/include/utils/profiler.h"
#include "infini_train/include/utils/terminal.h"

namespace infini_train::example {

/// A profiler that looks at `num_steps` steps after the first few, which are slower. The trainer calls Step() after
/// each.
std::unique_ptr<utils::Profiler> StartProfiler(const Device &device, int64_t num_steps);

/// Ends it, prints its tables for one step, which the user knows as a `step_name`, and writes the trace to `path`.
void ShowProfile(utils::Profiler *profiler, const std::string &step_name, const std::string &path,
                 const utils::Terminal &terminal);

}  // namespace infini_train::example
