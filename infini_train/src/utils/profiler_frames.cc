// What the profiler's hooks do: a stack of frames for each thread.

#include <algorithm>

#include "infini_train/include/core/device_backend.h"

#include "infini_train/src/utils/profiler_recorder.h"

namespace infini_train::utils {

using profiler::kNoPlace;
using profiler::Sums;

Profiler::Recorder::Frame Profiler::Recorder::NewFrame(const Thread &thread, const void *owner, Kind kind) const {
    Frame frame;
    frame.owner = owner;
    frame.kind = kind;
    if (!thread.frames.empty()) {
        const Frame &outer = thread.frames.back();
        frame.phase = outer.phase;
        frame.is_part = outer.is_part || outer.is_known;
        frame.call = outer.call;
    }
    return frame;
}

int64_t Profiler::Recorder::Enter(Thread **thread) {
    if (!options_.device.IsCPU()) {
        GetDeviceBackend(options_.device).Synchronize();
    }
    const int64_t now = Now();
    *thread = &ThisThread();
    return now;
}

void Profiler::Recorder::Push(Thread &thread, Frame frame, int64_t entered) {
    Frame *outer = thread.frames.empty() ? nullptr : &thread.frames.back();
    if (memory_ != nullptr) {
        const auto [live, peak] = memory_->Read(&thread.watcher);
        if (outer != nullptr) {
            outer->peak = std::max(outer->peak, peak);
        }
        frame.live = frame.peak = live;
    }
    frame.start = Now();
    thread.log.profiler_ns += frame.start - entered;
    if (outer != nullptr) {
        outer->has_parts = true;
        outer->profiler_ns += frame.start - entered;
    }
    thread.frames.push_back(std::move(frame));
}

bool Profiler::Recorder::Pop(Thread &thread, const void *owner, Kind kind, Frame *done) {
    auto &frames = thread.frames;
    // Those above it never ended: the recording, or their hooks, began or stopped in between.
    const auto found = std::find_if(frames.rbegin(), frames.rend(),
                                    [&](const Frame &frame) { return frame.owner == owner && frame.kind == kind; });
    if (found == frames.rend()) {
        return false;
    }
    *done = std::move(*found);
    frames.erase(std::next(found).base(), frames.end());
    return true;
}

void Profiler::Recorder::Finish(Thread &thread, Frame done, int64_t entered, const std::string &type,
                                std::vector<TensorSpec> inputs) {
    Frame *outer = thread.frames.empty() ? nullptr : &thread.frames.back();
    size_t live = 0;
    if (memory_ != nullptr) {
        const auto reading = memory_->Read(&thread.watcher);
        live = reading.live;
        done.peak = std::max(done.peak, reading.peak);
        thread.log.peak = std::max(thread.log.peak, done.peak);
    }
    const int64_t total = entered - done.start - done.profiler_ns;
    const int place = done.call == nullptr ? kNoPlace : done.call->place;
    if (!done.is_part) {
        const bool counts = done.kind != Kind::kModule || done.phase == ProfilePhase::kForward;
        const Sums sums{counts ? 1 : 0, total,     total - done.inside,
                        done.cost,      done.peak, done.peak - std::min(done.peak, done.live)};
        (done.kind == Kind::kModule ? thread.log.modules[{place, done.phase}]
                                    : thread.log.operators[{place, done.phase, type}])
            .Add(sums);
    }
    if (options_.trace && num_events_++ < options_.max_events) {
        thread.log.events.push_back({done.kind, done.phase, done.is_part, place, static_cast<int>(thread.frames.size()),
                                     done.start, entered - done.start, type, done.cost, done.live, live, done.peak,
                                     std::move(inputs)});
    }
    const int64_t spent = Now() - entered;
    thread.log.profiler_ns += spent;
    if (outer != nullptr) {
        outer->peak = std::max(outer->peak, done.peak);
        outer->inside += done.is_part ? done.inside : total;
        outer->profiler_ns += done.profiler_ns + spent;
    }
}

// Runs `body(thread, entered)` if the recorder is active, with the thread locked.
template <typename Body>
void Profiler::Recorder::InThread(Body &&body) {
    if (!IsActive()) {
        return;
    }
    Thread *thread = nullptr;
    const int64_t entered = Enter(&thread);
    const std::lock_guard lock(thread->mutex);
    const uint64_t generation = generation_;
    if (!IsActive()) {
        return;  // stopped meanwhile
    }
    if (std::exchange(thread->generation, generation) != generation) {
        thread->frames.clear();
        thread->last_backward = nullptr;
        thread->last_backward_known = false;
    }
    body(*thread, entered);
}

void Profiler::Recorder::BeginModule(nn::Module *module) {
    InThread([&](Thread &thread, int64_t entered) {
        if (one_model_ && thread.frames.empty() && !tree_.contains(module)) {
            return;
        }
        Frame frame = NewFrame(thread, module, Kind::kModule);
        frame.call = CallOf(module, frame.call);
        Push(thread, std::move(frame), entered);
    });
}

void Profiler::Recorder::EndModule(nn::Module *module) {
    InThread([&](Thread &thread, int64_t entered) {
        Frame done;
        if (Pop(thread, module, Kind::kModule, &done)) {
            Finish(thread, std::move(done), entered, {}, {});
        }
    });
}

void Profiler::Recorder::BeginForward(autograd::Function *function) {
    InThread([&](Thread &thread, int64_t entered) {
        if (one_model_ && thread.frames.empty()) {
            return;
        }
        Frame frame = NewFrame(thread, function, Kind::kForward);
        frame.is_known = HasCost(function->type());
        Push(thread, std::move(frame), entered);
    });
}

void Profiler::Recorder::EndForward(autograd::Function *function, const TensorList &inputs, const TensorList &outputs) {
    InThread([&](Thread &thread, int64_t entered) {
        Frame done;
        if (!Pop(thread, function, Kind::kForward, &done)) {
            return;
        }
        OperatorCall call;
        if (!outputs.empty()) {  // otherwise it failed
            call = DescribeCall(*function, inputs, outputs);
            done.cost = done.is_part ? Cost() : ForwardCost(call);
            const bool is_recorded = std::any_of(outputs.begin(), outputs.end(), [&](const TensorPtr &output) {
                return output != nullptr && output->requires_grad() && output->grad_fn().get() == function;
            });
            if (is_recorded) {
                Remember(function, done, BackwardCost(call));
            }
        }
        NoteUncounted(done, function->type());
        if (!options_.trace || !options_.shapes) {
            call.inputs.clear();
        }
        Finish(thread, std::move(done), entered, function->type(), std::move(call.inputs));
    });
}

void Profiler::Recorder::BeginBackward(autograd::Function *function) {
    InThread([&](Thread &thread, int64_t entered) {
        Frame frame = NewFrame(thread, function, Kind::kBackward);
        frame.phase = ProfilePhase::kBackward;
        frame.is_known = HasCost(function->type());
        if (!Recall(function, thread, &frame)) {
            return;
        }
        if (frame.is_part) {
            frame.cost = {};
        }
        Push(thread, std::move(frame), entered);
    });
}

void Profiler::Recorder::EndBackward(autograd::Function *function) {
    InThread([&](Thread &thread, int64_t entered) {
        Frame done;
        if (Pop(thread, function, Kind::kBackward, &done)) {
            NoteUncounted(done, function->type());
            Finish(thread, std::move(done), entered, function->type(), {});
        }
    });
}

void Profiler::Recorder::NoteUncounted(const Frame &done, const std::string &type) {
    if (!done.is_known && !done.is_part && !done.has_parts) {
        const std::lock_guard lock(mutex_);
        uncounted_.insert(type);
    }
}

void Profiler::Recorder::BeginOptimizer(Optimizer *optimizer) {
    InThread([&](Thread &thread, int64_t entered) {
        Frame frame = NewFrame(thread, optimizer, Kind::kOptimizer);
        frame.phase = ProfilePhase::kOptimizer;
        Push(thread, std::move(frame), entered);
    });
}

void Profiler::Recorder::EndOptimizer(Optimizer *optimizer) {
    InThread([&](Thread &thread, int64_t entered) {
        Frame done;
        if (Pop(thread, optimizer, Kind::kOptimizer, &done)) {
            Finish(thread, std::move(done), entered, optimizer->type() + ".Step", {});
        }
    });
}

}  // namespace infini_train::utils
