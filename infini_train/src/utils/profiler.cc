#include "infini_train/include/utils/profiler.h"

#include <algorithm>
#include <map>

#include "infini_train/src/utils/profiler_recorder.h"

namespace infini_train::utils {
namespace {

using profiler::Kind;
using profiler::Sums;

ProfileStats StatsOf(const Sums &sums) {
    return {sums.calls,
            sums.total,
            sums.own,
            sums.cost.flops,
            sums.cost.bytes,
            static_cast<int64_t>(sums.peak),
            static_cast<int64_t>(sums.growth)};
}

// The sums of one phase over the tree of places.
class PlaceSums {
public:
    template <typename Snapshot>
    PlaceSums(const Snapshot &snapshot, ProfilePhase phase)
        : places_(snapshot.places), own_(places_.size()), frames_(places_.size()) {
        for (const auto &log : snapshot.threads) {
            for (const auto &[key, sums] : log.operators) {
                if (std::get<1>(key) == phase && std::get<0>(key) >= 0) {
                    own_[static_cast<size_t>(std::get<0>(key))].Add(sums);
                }
            }
            for (const auto &[key, sums] : log.modules) {
                if (key.second == phase) {
                    frames_[static_cast<size_t>(key.first)].Add(sums);
                    own_[static_cast<size_t>(key.first)].own += sums.own;
                }
            }
        }
        // A place comes after the one above it.
        inclusive_ = own_;
        for (size_t i = places_.size(); i-- > 0;) {
            if (places_[i].parent >= 0) {
                inclusive_[static_cast<size_t>(places_[i].parent)].Add(inclusive_[i]);
            }
        }
    }

    // Of a module over all its places; where it is below itself it counts once.
    ProfileStats Of(int module) const {
        Sums all;
        for (size_t i = 0; i < places_.size(); ++i) {
            if (places_[i].module != module) {
                continue;
            }
            all.calls += frames_[i].calls;  // backward there are calls, but no time of the module as a whole
            all.own += own_[i].own;
            all.growth = std::max(all.growth, frames_[i].total > 0 ? frames_[i].growth : inclusive_[i].growth);
            all.peak = std::max({all.peak, frames_[i].peak, inclusive_[i].peak});
            if (!IsBelow(i, module)) {
                all.total += inclusive_[i].own;
                all.cost += inclusive_[i].cost;
            }
        }
        return StatsOf(all);
    }

private:
    bool IsBelow(size_t place, int module) const {
        for (int at = places_[place].parent; at >= 0; at = places_[static_cast<size_t>(at)].parent) {
            if (places_[static_cast<size_t>(at)].module == module) {
                return true;
            }
        }
        return false;
    }

    const std::vector<profiler::Place> &places_;
    std::vector<Sums> own_;     // of operators at each place, and of the module itself
    std::vector<Sums> frames_;  // of the module's calls
    std::vector<Sums> inclusive_;
};

}  // namespace

Profiler::Profiler(const ProfilerOptions &options) : recorder_(std::make_shared<Recorder>(nullptr, options)) {
    recorder_->AddHooks(&hooks_);
    if (!recorder_->IsActive()) {
        hooks_.Disable();
    }
}

Profiler::Profiler(nn::Module &model, const ProfilerOptions &options)
    : recorder_(std::make_shared<Recorder>(&model, options)) {
    recorder_->AddHooks(&hooks_);
    if (!recorder_->IsActive()) {
        hooks_.Disable();
    }
}

Profiler::~Profiler() {
    Stop();
}

void Profiler::Step() {
    recorder_->Step();
    if (recorder_->IsActive()) {
        hooks_.Enable();
    } else {
        hooks_.Disable();
    }
}

void Profiler::Stop() {
    hooks_.Remove();
    recorder_->Stop();
}

bool Profiler::IsRecording() const {
    return recorder_->IsActive();
}

std::vector<OperatorProfile> Profiler::Operators() const {
    const Recorder::Snapshot snapshot = recorder_->Take(/*with_events=*/false);
    std::map<std::pair<ProfilePhase, std::string>, Sums> sums;
    for (const auto &log : snapshot.threads) {
        for (const auto &[key, value] : log.operators) {
            sums[{std::get<1>(key), std::get<2>(key)}].Add(value);
        }
    }
    std::vector<OperatorProfile> result;
    for (const auto &[key, value] : sums) {
        result.push_back({key.second, key.first, StatsOf(value)});
    }
    std::stable_sort(result.begin(), result.end(), [](const OperatorProfile &a, const OperatorProfile &b) {
        return a.stats.self_ns > b.stats.self_ns;
    });
    return result;
}

std::vector<ModuleProfile> Profiler::Modules() const {
    const Recorder::Snapshot snapshot = recorder_->Take(/*with_events=*/false);
    const PlaceSums forward(snapshot, ProfilePhase::kForward), backward(snapshot, ProfilePhase::kBackward);
    std::vector<ModuleProfile> result;
    for (size_t i = 0; i < snapshot.modules.size(); ++i) {
        const auto &module = snapshot.modules[i];
        result.push_back(
            {module.path, module.type, module.name, forward.Of(static_cast<int>(i)), backward.Of(static_cast<int>(i))});
    }
    std::stable_sort(result.begin(), result.end(), [](const ModuleProfile &a, const ModuleProfile &b) {
        return a.forward.self_ns + a.backward.self_ns > b.forward.self_ns + b.backward.self_ns;
    });
    return result;
}

ProfileTotals Profiler::Totals() const {
    const Recorder::Snapshot snapshot = recorder_->Take(/*with_events=*/false);
    ProfileTotals totals;
    totals.wall_ns = snapshot.wall_ns;
    totals.steps = std::ssize(snapshot.steps);
    totals.dropped_events = snapshot.dropped_events;
    totals.uncounted.assign(snapshot.uncounted.begin(), snapshot.uncounted.end());
    for (const auto &log : snapshot.threads) {
        totals.profiler_ns += log.profiler_ns;
        totals.peak_bytes = std::max(totals.peak_bytes, static_cast<int64_t>(log.peak));
        for (const auto &[key, sums] : log.operators) {
            const ProfilePhase phase = std::get<1>(key);
            (phase == ProfilePhase::kForward    ? totals.forward_ns
             : phase == ProfilePhase::kBackward ? totals.backward_ns
                                                : totals.optimizer_ns) += sums.own;
            totals.flops += sums.cost.flops;
            totals.bytes += sums.cost.bytes;
        }
        for (const auto &[key, sums] : log.modules) {
            totals.module_ns += sums.own;
        }
    }
    return totals;
}

}  // namespace infini_train::utils
