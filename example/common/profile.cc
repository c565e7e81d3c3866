#include "example/common/profile.h"

#include <iostream>

namespace infini_train::example {

std::unique_ptr<utils::Profiler> StartProfiler(const Device &device, int64_t num_steps) {
    utils::ProfilerOptions options;
    options.device = device;
    options.skip_steps = 5;
    options.max_steps = num_steps;
    return std::make_unique<utils::Profiler>(options);
}

void ShowProfile(utils::Profiler *profiler, const std::string &step_name, const std::string &path,
                 const utils::Terminal &terminal) {
    profiler->Stop();
    utils::ProfileTableOptions options;
    options.terminal = terminal;
    options.per_step = true;
    std::cout << "\nprofile, its tables for one " << step_name << ":\n" << profiler->ToString(options);
    profiler->WriteTrace(path);
    std::cout << "trace: " << path << " (open it at https://ui.perfetto.dev)\n";
}

}  // namespace infini_train::example
