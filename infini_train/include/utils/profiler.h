#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/utils/terminal.h"

namespace infini_train::utils {

struct ProfilerOptions {
    bool trace = true;   ///< keep single events for WriteTrace, not only sums
    bool shapes = true;  ///< with the shapes of operators' inputs
    bool memory = true;  ///< watch the allocator
    Device device = {};  ///< whose memory, and whom to wait for before the clock is read; the CPU needs no waiting

    int64_t skip_steps = 0;         ///< of the first steps nothing is recorded: caches are cold then
    int64_t max_steps = 0;          ///< nothing is recorded after so many steps that were; 0: no limit
    size_t max_events = 1'000'000;  ///< in the trace; what comes later is in the tables only
};

/// What an operator or module took, over all its calls.
struct ProfileStats {
    int64_t calls = 0;
    int64_t total_ns = 0;      ///< nanoseconds, with everything that was called inside
    int64_t self_ns = 0;       ///< without the operators (of an operator) or modules (of a module) called inside
    int64_t flops = 0;         ///< by utils/flops.h; of a module with all inside
    int64_t bytes = 0;         ///< moved at least, by utils/flops.h; of a module with all inside
    int64_t peak_bytes = 0;    ///< the most that was live on the device while it ran
    int64_t growth_bytes = 0;  ///< the most that this was above what was live when a call began
};

enum class ProfilePhase : int8_t {
    kForward,
    kBackward,   ///< all that runs inside of a backward pass, also a forward in it
    kOptimizer,  ///< an optimizer's step
};

struct OperatorProfile {
    std::string type;  ///< of the function, or of the optimizer
    ProfilePhase phase = ProfilePhase::kForward;
    ProfileStats stats;
};

/// `backward` is what the backward functions of those operators took that the module applied in its forward; its calls
/// are those forward calls that a backward pass has reached.
struct ModuleProfile {
    std::string path;  ///< in its tree, empty for a root
    std::string type;
    std::string name;  ///< `blocks.0 (Block)`; with a number if several trees have it
    ProfileStats forward, backward;
};

/// Of the whole profile. Times are summed over threads.
struct ProfileTotals {
    int64_t wall_ns = 0;     ///< while it recorded
    int64_t steps = 0;       ///< recorded and complete
    int64_t forward_ns = 0;  ///< in operators, forward
    int64_t backward_ns = 0;
    int64_t optimizer_ns = 0;
    int64_t module_ns = 0;    ///< in modules, outside of operators
    int64_t profiler_ns = 0;  ///< in the profiler itself, which is in none of the times above
    int64_t flops = 0;
    int64_t bytes = 0;
    int64_t peak_bytes = 0;
    size_t dropped_events = 0;           ///< not in the trace because of max_events
    std::vector<std::string> uncounted;  ///< types of operators whose costs aren't known; see utils::RegisterCost
};

enum class ProfileOrder : int8_t { kSelfTime, kTotalTime, kCalls, kFlops, kBytes, kPeak, kName };

/// How a table is shown.
struct ProfileTableOptions {
    ProfileOrder order = ProfileOrder::kSelfTime;
    size_t max_rows = 30;
    bool per_step = false;  ///< times, calls and costs divided by the steps recorded
    Terminal terminal = {};
};

/// Measures where time, arithmetic and memory go, by operator and by module, forward and backward. It records from its
/// construction until Stop, at the latest at the end of its scope, through global hooks on functions, modules and
/// optimizers:
///
///     utils::Profiler profiler;
///     for (int step = 0; step < 10; ++step) {
///         Train();
///         profiler.Step();
///     }
///     profiler.Stop();
///     std::cout << profiler;                // two tables
///     profiler.WriteTrace("trace.json");    // for https://ui.perfetto.dev or chrome://tracing
///
/// Threads are told apart. Operators called inside of one whose costs are known are a part of it, in its self time, and
/// seen in the trace only. A backward function counts for the module whose forward applied the operator, the
/// accumulation of a gradient for that of the function which sent it. What an in-place method does to a tensor that
/// isn't recorded is no function and not seen. Profilers may overlap. All methods may be called while others compute.
class INFINI_TRAIN_EXPORT Profiler {
public:
    /// Of the whole program.
    explicit Profiler(const ProfilerOptions &options = {});
    /// Only of what runs in the forward of `model` or of modules below it, and in the backward that belongs to it.
    explicit Profiler(nn::Module &model, const ProfilerOptions &options = {});
    ~Profiler();
    Profiler(const Profiler &) = delete;
    Profiler &operator=(const Profiler &) = delete;

    /// Ends a step; the first one began with the profiler.
    void Step();
    /// Ends the recording. What is under way is left out.
    void Stop();
    /// Whether it records now: not stopped, not in a step to be skipped.
    bool IsRecording() const;

    /// By type and phase; by module; ordered by self time, the longest first.
    std::vector<OperatorProfile> Operators() const;
    std::vector<ModuleProfile> Modules() const;
    ProfileTotals Totals() const;

    std::string OperatorTable(const ProfileTableOptions &options = {}) const;
    std::string ModuleTable(const ProfileTableOptions &options = {}) const;
    /// Totals and both tables.
    std::string ToString(const ProfileTableOptions &options = {}) const;
    friend INFINI_TRAIN_EXPORT std::ostream &operator<<(std::ostream &stream, const Profiler &profiler);

    /// The events in Chrome's trace format, which Perfetto reads: steps, modules and operators as nested spans, a track
    /// a thread, and the live memory as a curve. Throws IoError.
    void WriteTrace(const std::string &path) const;
    void WriteTrace(std::ostream &stream) const;

private:
    class Recorder;

    std::shared_ptr<Recorder> recorder_;  // shared with the hooks, which may still run in other threads
    HookGroup hooks_;
};

}  // namespace infini_train::utils
