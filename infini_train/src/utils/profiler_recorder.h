#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/flops.h"
#include "infini_train/include/utils/profiler.h"

#include "infini_train/src/utils/peak_watch.h"

namespace infini_train::utils::profiler {

enum class Kind : int8_t { kModule, kForward, kBackward, kOptimizer };

// A place where modules call each other: a module below the one that called it.
struct Place {
    int parent = -1;  // in the list of places
    int module = -1;  // in the list of modules
};
constexpr int kNoPlace = -1;

struct ModuleName {
    std::string path, type, name;
};

// One call of a module. Functions that it applies hold it until their backward pass.
struct ModuleCall {
    int place = kNoPlace;
    std::shared_ptr<ModuleCall> parent;
    std::atomic<int> backward_passes{0};  // that have reached it
};

// A span of time for the trace; nanoseconds since the profiler began.
struct Event {
    Kind kind;
    ProfilePhase phase;
    bool is_part;  // of an operator whose costs are known
    int place;
    int depth;  // of spans around it in its thread
    int64_t start, duration;
    std::string type;  // of operators and optimizers
    Cost cost;
    size_t live_before, live_after, peak;
    std::vector<TensorSpec> inputs;
};

// Sums over the calls at one place.
struct Sums {
    int64_t calls = 0;
    int64_t total = 0, own = 0;  // own: in nothing else that is recorded
    Cost cost;
    size_t peak = 0, growth = 0;

    void Add(const Sums &other);
};

using OperatorKey = std::tuple<int, ProfilePhase, std::string>;  // place, phase, type
using ModuleKey = std::pair<int, ProfilePhase>;

struct ThreadLog {
    int number = 0;
    std::vector<Event> events;
    std::map<OperatorKey, Sums> operators;
    std::map<ModuleKey, Sums> modules;
    int64_t profiler_ns = 0;
    size_t peak = 0;
};

struct StepSpan {
    int64_t number, start, end;
};

}  // namespace infini_train::utils::profiler

namespace infini_train::utils {

class Profiler::Recorder : public std::enable_shared_from_this<Recorder> {
public:
    using Kind = profiler::Kind;

    Recorder(nn::Module *model, const ProfilerOptions &options);
    ~Recorder();

    void AddHooks(HookGroup *hooks);
    void Step();
    void Stop();
    bool IsActive() const { return active_.load(std::memory_order_relaxed); }
    bool watches_memory() const { return memory_ != nullptr; }

    // What was recorded so far, a copy.
    struct Snapshot {
        std::vector<profiler::ThreadLog> threads;
        std::vector<profiler::Place> places;
        std::vector<profiler::ModuleName> modules;
        std::vector<profiler::StepSpan> steps;
        std::set<std::string> uncounted;
        int64_t wall_ns = 0;
        size_t dropped_events = 0;
    };
    Snapshot Take(bool with_events) const;

private:
    // Something under way in a thread.
    struct Frame {
        const void *owner = nullptr;
        Kind kind = Kind::kModule;
        ProfilePhase phase = ProfilePhase::kForward;
        bool is_part = false;   // of an operator whose costs are known
        bool is_known = false;  // its own costs
        bool has_parts = false;
        std::shared_ptr<profiler::ModuleCall> call = nullptr;  // the module that it is, or is in
        Cost cost = {};
        int64_t start = 0;
        int64_t inside = 0;       // in recorded frames inside, each without what the profiler took
        int64_t profiler_ns = 0;  // that the profiler took inside
        size_t live = 0, peak = 0;
    };
    struct Thread {
        mutable std::mutex mutex;
        uint64_t generation = 0;
        std::vector<Frame> frames;
        std::shared_ptr<profiler::ModuleCall> last_backward;
        bool last_backward_known = false;
        PeakWatch::Watcher watcher;
        profiler::ThreadLog log;
    };
    // What a recorded function will cost backward, and for which module.
    struct Pending {
        std::weak_ptr<autograd::Function> function;
        std::shared_ptr<profiler::ModuleCall> call;
        Cost cost;
        int passes = 0;
    };
    struct KnownModule {
        const nn::Module *module = nullptr;
        std::weak_ptr<nn::Module> owner;
        bool is_owned = false;
        profiler::ModuleName name;
    };

    int64_t Now() const;
    Thread &ThisThread();
    void BeginModule(nn::Module *module);
    void EndModule(nn::Module *module);
    void BeginForward(autograd::Function *function);
    void EndForward(autograd::Function *function, const TensorList &inputs, const TensorList &outputs);
    void BeginBackward(autograd::Function *function);
    void EndBackward(autograd::Function *function);
    void BeginOptimizer(Optimizer *optimizer);
    void EndOptimizer(Optimizer *optimizer);

    template <typename Body>
    void InThread(Body &&body);
    int64_t Enter(Thread **thread);
    void Push(Thread &thread, Frame frame, int64_t entered);
    static bool Pop(Thread &thread, const void *owner, Kind kind, Frame *done);
    void Finish(Thread &thread, Frame done, int64_t entered, const std::string &type, std::vector<TensorSpec> inputs);
    void NoteUncounted(const Frame &done, const std::string &type);
    Frame NewFrame(const Thread &thread, const void *owner, Kind kind) const;
    std::shared_ptr<profiler::ModuleCall> CallOf(nn::Module *module, const std::shared_ptr<profiler::ModuleCall> &in);
    int FindModule(nn::Module *module);
    void Remember(autograd::Function *function, const Frame &done, const Cost &cost);
    bool Recall(autograd::Function *function, Thread &thread, Frame *frame);
    void SetActive(bool active);

    const ProfilerOptions options_;
    const uint64_t id_;
    const int64_t epoch_;
    const bool one_model_;
    std::unordered_set<const nn::Module *> tree_;  // of the one model
    PeakWatch *const memory_;                      // null: not watched

    std::atomic<bool> active_{false};
    std::atomic<uint64_t> generation_{0};  // of uninterrupted recording
    std::atomic<size_t> num_events_{0};

    mutable std::mutex mutex_;  // guards what follows; taken after a thread's own
    std::vector<std::pair<std::thread::id, std::unique_ptr<Thread>>> threads_;
    std::vector<profiler::Place> places_;
    std::map<std::pair<int, int>, int> place_of_;  // parent and module
    std::vector<KnownModule> modules_;
    std::unordered_map<const nn::Module *, int> module_of_;
    std::unordered_map<const autograd::Function *, Pending> pending_;
    size_t purge_at_ = 1024;
    std::set<std::string> uncounted_;
    std::vector<profiler::StepSpan> steps_;
    int64_t step_ = 0;
    int64_t step_start_ = 0;
    int64_t active_since_ = 0;
    int64_t wall_ns_ = 0;
    bool stopped_ = false;
};

}  // namespace infini_train::utils
