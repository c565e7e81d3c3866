#include "infini_train/src/utils/profiler_recorder.h"

#include <algorithm>
#include <chrono>

#include "infini_train/include/autograd/accumulate.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/utils/global_function_hook_registry.h"
#include "infini_train/include/utils/global_module_hook_registry.h"

namespace infini_train::utils {

using profiler::kNoPlace;
using profiler::ModuleCall;
using profiler::Sums;

namespace {

int64_t SteadyNanoseconds() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

uint64_t NextId() {
    static std::atomic<uint64_t> last{0};
    return ++last;
}

}  // namespace

void profiler::Sums::Add(const Sums &other) {
    calls += other.calls;
    total += other.total;
    own += other.own;
    cost += other.cost;
    peak = std::max(peak, other.peak);
    growth = std::max(growth, other.growth);
}

Profiler::Recorder::Recorder(nn::Module *model, const ProfilerOptions &options)
    : options_(options),
      id_(NextId()),
      epoch_(SteadyNanoseconds()),
      one_model_(model != nullptr),
      memory_(options.memory ? &PeakWatch::Of(options.device) : nullptr) {
    if (model != nullptr) {
        for (const auto &[path, module] : model->NamedModules()) {
            tree_.insert(module.get());
        }
    }
    SetActive(options_.skip_steps <= 0);
}

Profiler::Recorder::~Recorder() {
    Stop();
}

void Profiler::Recorder::AddHooks(HookGroup *hooks) {
    // The hooks begin before all others and end before all others, so that what those do is seen.
    const HookOptions begins{.name = "profiler", .prepend = true};
    const HookOptions ends{.name = "profiler", .prepend = true, .always_call = true};
    const auto self = shared_from_this();
    auto &modules = GlobalModuleHookRegistry::Instance();
    hooks->Add(modules.RegisterModuleForwardPreHook(
        [self](nn::Module *module, const TensorList &) { self->BeginModule(module); }, begins));
    hooks->Add(modules.RegisterModuleForwardHook(
        [self](nn::Module *module, const TensorList &, const TensorList &) { self->EndModule(module); }, ends));
    auto &functions = GlobalFunctionHookRegistry::Instance();
    hooks->Add(functions.RegisterFunctionForwardPreHook(
        [self](autograd::Function *function, const TensorList &) { self->BeginForward(function); }, begins,
        autograd::FunctionDepth::kAll));
    hooks->Add(functions.RegisterFunctionForwardHook(
        [self](autograd::Function *function, const TensorList &inputs, const TensorList &outputs) {
            self->EndForward(function, inputs, outputs);
        },
        ends, autograd::FunctionDepth::kAll));
    hooks->Add(functions.RegisterFunctionBackwardPreHook(
        [self](autograd::Function *function, const TensorList &) { self->BeginBackward(function); }, begins));
    hooks->Add(functions.RegisterFunctionBackwardHook(
        [self](autograd::Function *function, const TensorList &, const TensorList &) { self->EndBackward(function); },
        ends));
    if (!one_model_) {
        auto &optimizers = GlobalOptimizerHooks();
        hooks->Add(
            optimizers.RegisterStepPreHook([self](Optimizer *optimizer) { self->BeginOptimizer(optimizer); }, begins));
        hooks->Add(
            optimizers.RegisterStepPostHook([self](Optimizer *optimizer) { self->EndOptimizer(optimizer); }, ends));
    }
}

int64_t Profiler::Recorder::Now() const {
    return SteadyNanoseconds() - epoch_;
}

void Profiler::Recorder::SetActive(bool active) {
    const int64_t now = Now();
    if (active == IsActive()) {
        return;
    }
    if (active) {
        ++generation_;
        active_since_ = now;
    } else {
        wall_ns_ += now - active_since_;
    }
    active_ = active;
}

void Profiler::Recorder::Step() {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
        return;
    }
    const int64_t now = Now();
    if (IsActive()) {
        steps_.push_back({step_, step_start_, now});
    }
    ++step_;
    step_start_ = now;
    const int64_t recorded = step_ - options_.skip_steps;
    SetActive(recorded >= 0 && (options_.max_steps <= 0 || recorded < options_.max_steps));
}

void Profiler::Recorder::Stop() {
    std::vector<Thread *> threads;
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(stopped_, true)) {
            return;
        }
        SetActive(false);
        for (const auto &[id, thread] : threads_) {
            threads.push_back(thread.get());
        }
        pending_.clear();
    }
    for (Thread *thread : threads) {
        const std::lock_guard lock(thread->mutex);  // waits for a hook that is running
        thread->frames.clear();
        thread->last_backward = nullptr;
        if (memory_ != nullptr) {
            memory_->Remove(&thread->watcher);
        }
    }
}

Profiler::Recorder::Snapshot Profiler::Recorder::Take(bool with_events) const {
    Snapshot snapshot;
    std::vector<const Thread *> threads;
    {
        const std::lock_guard lock(mutex_);
        for (const auto &[id, thread] : threads_) {
            threads.push_back(thread.get());
        }
    }
    for (const Thread *thread : threads) {
        const std::lock_guard lock(thread->mutex);
        profiler::ThreadLog &log = snapshot.threads.emplace_back();
        log.number = thread->log.number;
        log.operators = thread->log.operators;
        log.modules = thread->log.modules;
        log.profiler_ns = thread->log.profiler_ns;
        log.peak = thread->log.peak;
        if (with_events) {
            log.events = thread->log.events;
        }
    }
    // Later than the threads, so that every place that they name is there.
    const std::lock_guard lock(mutex_);
    snapshot.places = places_;
    for (const KnownModule &module : modules_) {
        snapshot.modules.push_back(module.name);
    }
    snapshot.steps = steps_;
    snapshot.uncounted = uncounted_;
    snapshot.wall_ns = wall_ns_ + (IsActive() ? Now() - active_since_ : 0);
    snapshot.dropped_events = num_events_ > options_.max_events ? num_events_ - options_.max_events : 0;
    return snapshot;
}

Profiler::Recorder::Thread &Profiler::Recorder::ThisThread() {
    struct Cached {
        uint64_t recorder = 0;
        Thread *thread = nullptr;
    };
    thread_local Cached cached;
    if (cached.recorder == id_) {
        return *cached.thread;
    }
    const std::lock_guard lock(mutex_);
    const auto self = std::this_thread::get_id();
    auto found = std::find_if(threads_.begin(), threads_.end(), [&](const auto &entry) { return entry.first == self; });
    if (found == threads_.end()) {
        found = threads_.insert(threads_.end(), {self, std::make_unique<Thread>()});
        found->second->log.number = static_cast<int>(threads_.size());
        if (memory_ != nullptr && !stopped_) {
            memory_->Add(&found->second->watcher);
        }
    }
    cached = {id_, found->second.get()};
    return *cached.thread;
}

// ---- Modules and the calls of them ----------------------------------------------------------------------------------

int Profiler::Recorder::FindModule(nn::Module *module) {
    const auto owner = module->weak_from_this();
    const bool is_owned = !owner.expired();
    const auto is_same = [&](const KnownModule &known) {
        // Without an owner to tell, another module may have come to lie at the same address.
        return known.is_owned ? !known.owner.expired()
                              : known.name.type == module->type() && known.name.path == module->path();
    };
    const auto found = module_of_.find(module);
    if (found != module_of_.end() && modules_[static_cast<size_t>(found->second)].module == module &&
        is_same(modules_[static_cast<size_t>(found->second)])) {
        return found->second;
    }
    profiler::ModuleName name{module->path(), module->type(), {}};
    // One that is gone is followed by its like: a module that is made for each step keeps its line.
    int alike = 0;
    for (size_t i = 0; i < modules_.size(); ++i) {
        KnownModule &known = modules_[i];
        if (known.name.path != name.path || known.name.type != name.type) {
            continue;
        }
        ++alike;
        if (known.is_owned && known.owner.expired()) {
            known.module = module;
            known.owner = owner;
            known.is_owned = is_owned;
            module_of_[module] = static_cast<int>(i);
            return static_cast<int>(i);
        }
    }
    name.name = name.path.empty() ? name.type : name.path + " (" + name.type + ")";
    if (alike > 0) {
        name.name += " #" + std::to_string(alike + 1);
    }
    const int fresh = static_cast<int>(modules_.size());
    modules_.push_back({module, owner, is_owned, std::move(name)});
    module_of_[module] = fresh;
    return fresh;
}

std::shared_ptr<ModuleCall> Profiler::Recorder::CallOf(nn::Module *module, const std::shared_ptr<ModuleCall> &in) {
    auto call = std::make_shared<ModuleCall>();
    call->parent = in;
    const std::lock_guard lock(mutex_);
    const std::pair<int, int> key{in == nullptr ? kNoPlace : in->place, FindModule(module)};
    const auto [found, is_new] = place_of_.emplace(key, static_cast<int>(places_.size()));
    if (is_new) {
        places_.push_back({key.first, key.second});
    }
    call->place = found->second;
    return call;
}

// ---- What functions leave for their backward pass -------------------------------------------------------------------

void Profiler::Recorder::Remember(autograd::Function *function, const Frame &done, const Cost &cost) {
    const std::lock_guard lock(mutex_);
    if (pending_.size() >= purge_at_) {
        std::erase_if(pending_, [](const auto &entry) { return entry.second.function.expired(); });
        purge_at_ = std::max<size_t>(1024, 2 * pending_.size());
    }
    pending_[function] = {function->weak_from_this(), done.call, cost};
}

bool Profiler::Recorder::Recall(autograd::Function *function, Thread &thread, Frame *frame) {
    if (const auto *accumulator = dynamic_cast<const autograd::AccumulateGrad *>(function)) {
        const TensorPtr &leaf = accumulator->leaf();
        if (leaf->grad() != nullptr) {  // added to: two numbers are read and one is written
            frame->cost = {leaf->NumElements(), 3 * static_cast<int64_t>(leaf->SizeInBytes())};
        }
        frame->call = thread.last_backward;
        return thread.last_backward_known || !one_model_;
    }
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(function);
    thread.last_backward_known = found != pending_.end() && !found->second.function.expired();
    thread.last_backward = nullptr;
    if (!thread.last_backward_known) {
        return !one_model_;
    }
    Pending &pending = found->second;
    frame->call = thread.last_backward = pending.call;
    frame->cost = pending.cost;
    ++pending.passes;
    for (ModuleCall *call = pending.call.get(); call != nullptr; call = call->parent.get()) {
        if (call->backward_passes < pending.passes) {
            call->backward_passes = pending.passes;
            ++thread.log.modules[{call->place, ProfilePhase::kBackward}].calls;
        }
    }
    return true;
}

}  // namespace infini_train::utils
