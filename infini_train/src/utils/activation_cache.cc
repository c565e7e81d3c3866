#include "infini_train/include/utils/activation_cache.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {
namespace {

constexpr size_t kMaxNamesInMessage = 20;

const char *NameOf(ActivationKind kind) {
    constexpr std::array kNames = {"inputs", "outputs", "gradients of inputs", "gradients of outputs"};
    return kNames[static_cast<size_t>(kind)];
}

// What is kept of one tensor; nothing for null.
struct Kept {
    Kept() = default;
    Kept(const TensorPtr &activation, Keep keep) {
        if (activation == nullptr) {
            return;
        }
        const autograd::NoGradGuard no_grad;
        if (keep == Keep::kStatistics) {
            statistics = ComputeStatistics(*activation);
        } else {
            tensor = keep == Keep::kClone ? activation->Detach()->Clone() : activation;
            version = tensor->Version();
        }
    }

    TensorPtr tensor;
    uint32_t version = 0;
    std::optional<TensorStatistics> statistics;
};

struct Call {
    std::vector<Kept> &of(ActivationKind kind) { return kept[static_cast<size_t>(kind)]; }
    const std::vector<Kept> &of(ActivationKind kind) const { return kept[static_cast<size_t>(kind)]; }

    std::array<std::vector<Kept>, 4> kept;
    bool returned = false;
};

std::vector<Kept> KeepAll(const TensorList &tensors, Keep keep) {
    std::vector<Kept> kept;
    kept.reserve(tensors.size());
    for (const auto &tensor : tensors) {
        kept.emplace_back(tensor, keep);
    }
    return kept;
}

}  // namespace

// What is collected, and what the hooks do.
class ActivationCache::Recording : public std::enable_shared_from_this<ActivationCache::Recording> {
public:
    Recording(const NamedModuleList &modules, const ActivationCacheOptions &options)
        : options_(options), calls_(modules.size()) {
        for (const auto &[path, module] : modules) {
            names_.push_back(path);
        }
    }

    const ActivationCacheOptions &options() const { return options_; }

    void Begin(bool clear) {
        std::lock_guard lock(mutex_);
        if (thread_ != std::thread::id()) {
            Throw<AutogradError>("ActivationCache: a recording is under way{}; stop it first, or use another cache",
                                 thread_ == std::this_thread::get_id() ? "" : " in another thread");
        }
        thread_ = std::this_thread::get_id();
        if (clear) {
            ClearLocked();
        }
    }

    // Ends the recording, if there is one, after `release()`.
    template <typename Release>
    void End(Release &&release) {
        {
            std::lock_guard lock(mutex_);
            if (thread_ == std::thread::id()) {
                return;
            }
            if (thread_ != std::this_thread::get_id()) {
                throw AutogradError("ActivationCache: another thread began the recording, and has to stop it");
            }
        }
        release();  // no other thread begins a recording before that is done
        std::lock_guard lock(mutex_);
        thread_ = {};
    }

    void Clear() {
        std::lock_guard lock(mutex_);
        ClearLocked();
    }

    HookResult OnInputs(size_t module, const TensorList &inputs) {
        if (!Records()) {
            return std::nullopt;
        }
        TensorList watched = inputs;
        // A gradient of an input's other uses doesn't pass through an object of the module's own.
        for (auto &input : watched) {
            input = Watchable(input) ? input->View(input->Dims()) : input;
        }
        auto kept = KeepAll(watched, options_.keep);
        const size_t call = Store(module, kNewCall, ActivationKind::kInput, std::move(kept));
        return Watch(module, call, ActivationKind::kInputGradient, watched);
    }

    HookResult OnOutputs(size_t module, const TensorList &inputs, const TensorList &outputs) {
        if (!Records()) {
            return std::nullopt;
        }
        TensorList watched = outputs;
        for (auto &output : watched) {
            const bool passed_through = std::find(inputs.begin(), inputs.end(), output) != inputs.end();
            if (Watchable(output) && (passed_through || output->is_leaf())) {
                output = output->View(output->Dims());
            }
        }
        auto kept = KeepAll(watched, options_.keep);
        const size_t call =
            Store(module, options_.inputs ? kOpenCall : kNewCall, ActivationKind::kOutput, std::move(kept));
        return Watch(module, call, ActivationKind::kOutputGradient, watched);
    }

    std::vector<std::string> Names() const {
        std::lock_guard lock(mutex_);
        return NamesLocked();
    }

    size_t NumCalls(const std::string &name) const {
        std::lock_guard lock(mutex_);
        const auto found = std::find(names_.begin(), names_.end(), name);
        return found == names_.end() ? 0 : calls_[static_cast<size_t>(found - names_.begin())].size();
    }

    std::vector<Kept> Get(const std::string &name, ActivationKind kind, std::optional<int64_t> call) const {
        const bool gradient = kind == ActivationKind::kInputGradient || kind == ActivationKind::kOutputGradient;
        const bool input = kind == ActivationKind::kInput || kind == ActivationKind::kInputGradient;
        if ((gradient && !options_.gradients) || (input && !options_.inputs)) {
            Throw<IndexError>("ActivationCache: the {} aren't collected; ask for them in ActivationCacheOptions",
                              NameOf(kind));
        }
        std::lock_guard lock(mutex_);
        const Call &found = FindCall(name, call);
        if (!input && !found.returned) {
            Throw<IndexError>("ActivationCache: there are no {} of '{}', which didn't return", NameOf(kind), name);
        }
        return found.of(kind);
    }

    size_t MemoryBytes() const {
        std::lock_guard lock(mutex_);
        std::unordered_set<const Storage *> seen;
        size_t bytes = 0;
        for (const auto &calls : calls_) {
            for (const Call &call : calls) {
                for (const auto &list : call.kept) {
                    for (const Kept &kept : list) {
                        if (kept.tensor != nullptr && seen.insert(kept.tensor->storage().get()).second) {
                            bytes += kept.tensor->storage()->bytes();
                        }
                    }
                }
            }
        }
        return bytes;
    }

private:
    static constexpr size_t kNewCall = SIZE_MAX;
    static constexpr size_t kOpenCall = SIZE_MAX - 1;  // the latest that hasn't returned

    bool Records() const {
        std::lock_guard lock(mutex_);
        return thread_ == std::this_thread::get_id();
    }

    bool Watchable(const TensorPtr &tensor) const {
        return options_.gradients && autograd::GradMode::IsEnabled() && tensor != nullptr && tensor->requires_grad();
    }

    // Gives back which call it is.
    size_t Store(size_t module, size_t which, ActivationKind kind, std::vector<Kept> kept) {
        std::lock_guard lock(mutex_);
        auto &calls = calls_[module];
        size_t call = calls.size();
        if (which == kOpenCall) {
            while (call > 0 && calls[call - 1].returned) {
                --call;
            }
            // None is open if the cache was cleared, or the recording begun, inside of the module.
            call = call == 0 ? calls.size() : call - 1;
        }
        if (call == calls.size()) {
            calls.emplace_back();
        }
        calls[call].returned = kind == ActivationKind::kOutput;
        calls[call].of(kind) = std::move(kept);
        return call;
    }

    HookResult Watch(size_t module, size_t call, ActivationKind kind, const TensorList &tensors) {
        if (!options_.gradients) {
            return std::nullopt;
        }
        uint64_t generation = 0;
        {
            std::lock_guard lock(mutex_);
            generation = generation_;
            calls_[module][call].of(kind).resize(tensors.size());
        }
        for (size_t i = 0; i < tensors.size(); ++i) {
            if (Watchable(tensors[i])) {
                tensors[i]->RegisterHook(
                    [weak = weak_from_this(), generation, module, call, kind, i](const TensorPtr &gradient) {
                        if (const auto self = weak.lock()) {
                            self->OnGradient(generation, module, call, kind, i, gradient);
                        }
                    },
                    {.name = "activation cache"});
            }
        }
        return tensors;
    }

    void OnGradient(uint64_t generation, size_t module, size_t call, ActivationKind kind, size_t i,
                    const TensorPtr &gradient) {
        Kept kept(gradient, options_.keep);
        std::lock_guard lock(mutex_);
        if (generation == generation_) {  // else what it belongs to was cleared
            calls_[module][call].of(kind)[i] = std::move(kept);
        }
    }

    void ClearLocked() {
        ++generation_;
        for (auto &calls : calls_) {
            calls.clear();
        }
    }

    std::vector<std::string> NamesLocked() const {
        std::vector<std::string> names;
        for (size_t i = 0; i < names_.size(); ++i) {
            if (!calls_[i].empty()) {
                names.push_back(names_[i]);
            }
        }
        return names;
    }

    std::string NamesForMessage() const {
        const auto names = NamesLocked();
        std::string text;
        for (size_t i = 0; i < std::min(names.size(), kMaxNamesInMessage); ++i) {
            text += (i == 0 ? "'" : ", '") + names[i] + "'";
        }
        if (names.size() > kMaxNamesInMessage) {
            text += fmt::format(" and {} more", names.size() - kMaxNamesInMessage);
        }
        return text.empty() ? "none" : text;
    }

    const Call &FindCall(const std::string &name, std::optional<int64_t> wanted) const {
        const auto found = std::find(names_.begin(), names_.end(), name);
        if (found == names_.end() || calls_[static_cast<size_t>(found - names_.begin())].empty()) {
            Throw<IndexError>("ActivationCache: '{}' {}; collected are: {}", name,
                              found == names_.end() ? "isn't among the chosen modules" : "wasn't called",
                              NamesForMessage());
        }
        const auto &calls = calls_[static_cast<size_t>(found - names_.begin())];
        const auto count = static_cast<int64_t>(calls.size());
        if (!wanted && count != 1) {
            Throw<IndexError>("ActivationCache: '{}' was called {} times; say which call is meant", name, count);
        }
        const int64_t call = wanted.value_or(0) < 0 ? *wanted + count : wanted.value_or(0);
        if (call < 0 || call >= count) {
            Throw<IndexError>("ActivationCache: '{}' was called {} times, there is no call {}", name, count, *wanted);
        }
        return calls[static_cast<size_t>(call)];
    }

    const ActivationCacheOptions options_;
    std::vector<std::string> names_;
    mutable std::mutex mutex_;              // guards what follows
    std::vector<std::vector<Call>> calls_;  // by module
    std::thread::id thread_;                // the one that records, if any
    uint64_t generation_ = 0;               // grows when the calls are cleared
};

ActivationCache::ActivationCache(nn::Module &model, const ModuleSelector &which, const ActivationCacheOptions &options)
    : model_(model.NamedModules().front().second),
      modules_(MatchModules(model, which)),
      recording_(std::make_shared<Recording>(modules_, options)) {}

ActivationCache::~ActivationCache() = default;
ActivationCache::ActivationCache(ActivationCache &&) noexcept = default;
ActivationCache &ActivationCache::operator=(ActivationCache &&) noexcept = default;

void ActivationCache::Register() {
    const HookOptions options{.name = "activation cache"};
    for (size_t i = 0; i < modules_.size(); ++i) {
        nn::Module &module = *modules_[i].second;
        if (recording_->options().inputs) {
            hooks_.Add(module.RegisterForwardPreHook(
                [recording = recording_, i](nn::Module *, const TensorList &inputs) {
                    return recording->OnInputs(i, inputs);
                },
                options));
        }
        hooks_.Add(module.RegisterForwardPostHook(
            [recording = recording_, i](nn::Module *, const TensorList &inputs, const TensorList &outputs) {
                return recording->OnOutputs(i, inputs, outputs);
            },
            options));
    }
}

TensorList ActivationCache::Run(const TensorList &inputs) {
    struct AtEnd {
        ~AtEnd() { cache->Stop(); }
        ActivationCache *cache;
    };
    recording_->Begin(/*clear=*/true);
    const AtEnd stop{this};
    Register();
    return (*model_)(inputs);
}

void ActivationCache::Start() {
    recording_->Begin(/*clear=*/false);
    Register();
}

void ActivationCache::Stop() {
    recording_->End([this] { hooks_.Remove(); });
}

void ActivationCache::Clear() {
    recording_->Clear();
}

std::vector<std::string> ActivationCache::Names() const {
    return recording_->Names();
}

bool ActivationCache::Contains(const std::string &name) const {
    return NumCalls(name) > 0;
}

size_t ActivationCache::NumCalls(const std::string &name) const {
    return recording_->NumCalls(name);
}

TensorPtr ActivationCache::operator[](const std::string &name) const {
    const TensorList outputs = Outputs(name);
    if (outputs.size() != 1) {
        Throw<IndexError>("ActivationCache: '{}' has {} outputs; use Outputs", name, outputs.size());
    }
    return outputs[0];
}

TensorList ActivationCache::Get(const std::string &name, ActivationKind kind, std::optional<int64_t> call) const {
    const auto all = recording_->Get(name, kind, call);
    if (recording_->options().keep == Keep::kStatistics) {
        Throw<IndexError>("ActivationCache: of the {} of '{}' only the statistics are kept", NameOf(kind), name);
    }
    TensorList tensors;
    for (const Kept &kept : all) {
        if (kept.tensor != nullptr && kept.tensor->Version() != kept.version) {
            Throw<AutogradError>(
                "ActivationCache: one of the {} of '{}', kept by reference, was changed in place since (it is at "
                "version {}, version {} was collected); keep clones",
                NameOf(kind), name, kept.tensor->Version(), kept.version);
        }
        tensors.push_back(kept.tensor);
    }
    return tensors;
}

std::vector<std::optional<TensorStatistics>> ActivationCache::Statistics(const std::string &name, ActivationKind kind,
                                                                         std::optional<int64_t> call) const {
    std::vector<std::optional<TensorStatistics>> statistics;
    if (recording_->options().keep == Keep::kStatistics) {
        for (const Kept &kept : recording_->Get(name, kind, call)) {
            statistics.push_back(kept.statistics);
        }
        return statistics;
    }
    for (const auto &tensor : Get(name, kind, call)) {
        statistics.push_back(tensor == nullptr ? std::nullopt : std::optional(ComputeStatistics(*tensor)));
    }
    return statistics;
}

size_t ActivationCache::MemoryBytes() const {
    return recording_->MemoryBytes();
}

}  // namespace infini_train::utils
