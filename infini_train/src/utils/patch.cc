#include "infini_train/include/utils/patch.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {
namespace {

using Dims = std::vector<int64_t>;

bool CanExpand(const Dims &from, const Dims &to) {
    if (from.size() > to.size()) {
        return false;
    }
    return std::equal(from.rbegin(), from.rend(), to.rbegin(), [](int64_t a, int64_t b) { return a == b || a == 1; });
}

int64_t FromEnd(int64_t i, int64_t size, const char *what) {
    if (i < -size || i >= size) {
        Throw<IndexError>("Positions: {} {} is out of range for {}", what, i, size);
    }
    return i < 0 ? i + size : i;
}

// The chosen indices of one dimension.
struct Chosen {
    int64_t dim;
    std::vector<int64_t> indices;
};

std::vector<Chosen> Resolve(const std::vector<Positions> &at, const Dims &dims) {
    std::vector<Chosen> chosen;
    for (const Positions &positions : at) {
        const int64_t dim = FromEnd(positions.dim(), static_cast<int64_t>(dims.size()), "dimension");
        if (std::any_of(chosen.begin(), chosen.end(), [&](const Chosen &other) { return other.dim == dim; })) {
            Throw<ValueError>("Patch: expected positions of different dimensions, got two of dimension {}", dim);
        }
        chosen.push_back({dim, positions.Resolve(dims[static_cast<size_t>(dim)])});
    }
    return chosen;
}

// `values`, one for each index of `dim`, as a tensor that broadcasts along the other dimensions.
template <typename T>
TensorPtr Along(const Dims &dims, int64_t dim, const std::vector<T> &values, Device device) {
    Dims shape(dims.size(), 1);
    shape[static_cast<size_t>(dim)] = dims[static_cast<size_t>(dim)];
    return Tensor::FromVector(values, shape, device);
}

// True at the chosen positions.
TensorPtr Mask(const std::vector<Chosen> &chosen, const Tensor &activation) {
    TensorPtr mask;
    for (const auto &[dim, indices] : chosen) {
        std::vector<bool> along(static_cast<size_t>(activation.Dim(dim)));
        for (const int64_t index : indices) {
            along[static_cast<size_t>(index)] = true;
        }
        const auto next = Along(activation.Dims(), dim, along, activation.GetDevice());
        mask = mask == nullptr ? next : mask->And(next);
    }
    return mask;
}

// The values of a tensor of the chosen positions' shape, put where they belong in one of the activation's shape;
// elsewhere stands anything.
TensorPtr Spread(TensorPtr region, const std::vector<Chosen> &chosen, const Tensor &activation) {
    for (const auto &[dim, indices] : chosen) {
        std::vector<int64_t> from(static_cast<size_t>(activation.Dim(dim)));
        for (size_t i = 0; i < indices.size(); ++i) {
            from[static_cast<size_t>(indices[i])] = static_cast<int64_t>(i);
        }
        Dims dims = region->Dims();
        dims[static_cast<size_t>(dim)] = activation.Dim(dim);
        region = region->Gather(dim, Along(dims, dim, from, activation.GetDevice())->Expand(dims)->Contiguous());
    }
    return region;
}

void CheckKind(const Tensor &replacement, const Tensor &activation) {
    if (replacement.Dtype() != activation.Dtype()) {
        Throw<DtypeError>("Patch: the activation is of {}, its replacement of {}", ToString(activation.Dtype()),
                          ToString(replacement.Dtype()));
    }
    if (replacement.GetDevice() != activation.GetDevice()) {
        Throw<DeviceError>("Patch: the activation is on {}, its replacement on {}", activation.GetDevice().ToString(),
                           replacement.GetDevice().ToString());
    }
}

// The activation with the replacement at the chosen positions.
TensorPtr Replaced(const TensorPtr &activation, const TensorPtr &replacement, const std::vector<Positions> &at) {
    CheckKind(*replacement, *activation);
    const Dims &dims = activation->Dims();
    const auto chosen = Resolve(at, dims);
    Dims region = dims;
    for (const auto &[dim, indices] : chosen) {
        region[static_cast<size_t>(dim)] = static_cast<int64_t>(indices.size());
    }
    if (!CanExpand(replacement->Dims(), dims) && !CanExpand(replacement->Dims(), region)) {
        Throw<ShapeError>("Patch: the activation is {}{}, to which the replacement {} can't be broadcast",
                          FormatDims(dims), at.empty() ? "" : ", the chosen positions " + FormatDims(region),
                          FormatDims(replacement->Dims()));
    }
    if (at.empty()) {
        return replacement->Dims() == dims ? replacement : replacement->Expand(dims)->Contiguous();
    }
    const bool whole = CanExpand(replacement->Dims(), dims);
    const auto spread = whole ? replacement : Spread(replacement->Expand(region), chosen, *activation);
    return spread->Where(Mask(chosen, *activation), activation);
}

TensorList TensorsOf(const ActivationCache &cache, const std::string &path, const PatchTarget &target) {
    const auto kind = target.input ? ActivationKind::kInput : ActivationKind::kOutput;
    TensorList tensors;
    for (size_t call = 0; call < std::max<size_t>(cache.NumCalls(path), 1); ++call) {
        const auto all = cache.Get(path, kind, static_cast<int64_t>(call));
        if (target.index >= all.size() || all[target.index] == nullptr) {
            Throw<IndexError>("Patch: the cache holds no {} {} of '{}'", target.input ? "input" : "output",
                              target.index, path);
        }
        tensors.push_back(all[target.index]);
    }
    return tensors;
}

// All dimensions but the last, unless some are given.
Dims MeanDims(const Dims &given, int64_t num_dims) {
    Dims dims = given;
    for (int64_t dim = 0; given.empty() && dim + 1 < num_dims; ++dim) {
        dims.push_back(dim);
    }
    return dims;
}

TensorPtr MeanOver(const TensorPtr &tensor, const Dims &given) {
    const Dims dims = MeanDims(given, tensor->NumDims());
    return dims.empty() ? tensor : tensor->Mean(dims, /*keep_dim=*/true);  // no dims would mean all
}

// The mean of all elements that lie in the same place of any of the tensors.
TensorPtr MeanOfAll(const TensorList &tensors, const Dims &given) {
    const autograd::NoGradGuard no_grad;
    TensorPtr sum;
    int64_t count = 0;
    for (const auto &tensor : tensors) {
        const auto mean = MeanOver(tensor->Detach()->To(DataType::kFLOAT64), given);
        const int64_t weight = mean->NumElements() == 0 ? 0 : tensor->NumElements() / mean->NumElements();
        sum = sum == nullptr ? mean->Mul(weight) : sum->Add(mean->Mul(weight));
        count += weight;
    }
    return sum->Div(count)->To(tensors.front()->Dtype());
}

}  // namespace

Positions Positions::Range(int64_t dim, int64_t start, std::optional<int64_t> end) {
    Positions positions(dim);
    positions.start_ = start;
    positions.end_ = end;
    return positions;
}

Positions Positions::Indices(int64_t dim, std::vector<int64_t> indices) {
    Positions positions(dim);
    positions.picked_ = std::move(indices);
    return positions;
}

Positions Positions::Heads(int64_t num_heads, std::vector<int64_t> heads, int64_t dim) {
    if (num_heads < 1) {
        Throw<ValueError>("Positions: expected at least one head, got {}", num_heads);
    }
    Positions positions = Indices(dim, std::move(heads));
    positions.num_heads_ = num_heads;
    return positions;
}

std::vector<int64_t> Positions::Resolve(int64_t size) const {
    std::vector<int64_t> indices;
    if (!picked_) {
        const int64_t start = start_ < 0 ? start_ + size : start_;
        const int64_t end = !end_ ? size : *end_ < 0 ? *end_ + size : *end_;
        if (start < 0 || end > size || start >= end) {
            Throw<IndexError>("Positions: expected a range within 0 to {} that isn't empty, got {} to {}", size, start,
                              end);
        }
        for (int64_t i = start; i < end; ++i) {
            indices.push_back(i);
        }
        return indices;
    }
    const int64_t blocks = num_heads_ == 0 ? size : num_heads_;
    if (size % std::max<int64_t>(blocks, 1) != 0) {
        Throw<ShapeError>("Positions: {} heads don't divide a dimension of {}", num_heads_, size);
    }
    const int64_t width = blocks == 0 ? 0 : size / blocks;
    for (const int64_t picked : *picked_) {
        const int64_t block = FromEnd(picked, blocks, num_heads_ == 0 ? "index" : "head");
        for (int64_t i = 0; i < width; ++i) {
            indices.push_back(block * width + i);
        }
    }
    auto sorted = indices;
    std::sort(sorted.begin(), sorted.end());
    if (sorted.empty() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
        throw ValueError("Positions: expected at least one index, and none of them twice");
    }
    return indices;
}

Replacement::Replacement(TensorPtr value) {
    if (value == nullptr) {
        throw ValueError("Patch: expected a tensor to replace the activation with, got null");
    }
    // A copy each time: what comes after the module may change in place what it is given.
    make_ = [value = std::move(value)](const std::string &, const PatchTarget &) -> Source {
        return [value](const TensorPtr &, size_t) { return value->Clone(); };
    };
}

Replacement::Replacement(const ActivationCache &cache) {
    // The patch keeps the tensors of its modules, not the cache: `cache` is read when the patch is made.
    make_ = [&cache](const std::string &path, const PatchTarget &target) -> Source {
        return [tensors = TensorsOf(cache, path, target), path](const TensorPtr &activation, size_t call) {
            if (call >= tensors.size()) {
                Throw<IndexError>("Patch: the cache holds {} calls of '{}', this is call {} since the model was called",
                                  tensors.size(), path, call);
            }
            if (tensors[call]->Dims() != activation->Dims()) {
                Throw<ShapeError>("Patch: the activation is {}, the one of the cache {}",
                                  FormatDims(activation->Dims()), FormatDims(tensors[call]->Dims()));
            }
            return tensors[call]->Clone();
        };
    };
}

Replacement Replacement::FromEdit(std::function<TensorPtr(const TensorPtr &)> edit) {
    return Replacement([edit = std::move(edit)](const std::string &, const PatchTarget &) -> Source {
        return [edit](const TensorPtr &activation, size_t) { return edit(activation); };
    });
}

Replacement ZeroAblation() {
    return Replacement([](const TensorPtr &activation) { return Tensor::ZerosLike(activation); });
}

Replacement MeanAblation(std::vector<int64_t> dims) {
    return Replacement([dims = std::move(dims)](const TensorPtr &activation) { return MeanOver(activation, dims); });
}

Replacement MeanAblation(const ActivationCache &cache, std::vector<int64_t> dims) {
    return Replacement([&cache, dims = std::move(dims)](const std::string &path, const PatchTarget &target) {
        return Replacement::Source([mean = MeanOfAll(TensorsOf(cache, path, target), dims)](const TensorPtr &, size_t) {
            return mean->Clone();
        });
    });
}

// What the hooks of one patch share.
class Patch::State {
public:
    State(PatchOptions options, std::vector<Replacement::Source> sources)
        : options_(std::move(options)), sources_(std::move(sources)) {}

    const PatchOptions &options() const { return options_; }
    uint64_t applications() const { return applications_.load(); }

    // The model begins a run in this thread.
    void BeginRun() {
        std::lock_guard lock(mutex_);
        calls_[std::this_thread::get_id()].assign(sources_.size(), 0);
    }

    HookResult Apply(size_t module, const TensorList &tensors) {
        const size_t call = NextCall(module);
        if (options_.call && static_cast<size_t>(*options_.call) != call) {
            return std::nullopt;
        }
        const size_t index = options_.target.index;
        if (index >= tensors.size() || tensors[index] == nullptr) {
            Throw<IndexError>("Patch: expected a tensor at {}, the module has {}{}", index, tensors.size(),
                              index < tensors.size() ? ", and null there" : "");
        }
        const auto replacement = sources_[module](tensors[index], call);
        if (replacement == nullptr) {
            return std::nullopt;
        }
        TensorList result = tensors;
        result[index] = Replaced(tensors[index], replacement, options_.at);
        applications_.fetch_add(1);
        return result;
    }

private:
    size_t NextCall(size_t module) {
        std::lock_guard lock(mutex_);
        auto &calls = calls_[std::this_thread::get_id()];
        calls.resize(sources_.size());
        return calls[module]++;
    }

    const PatchOptions options_;
    const std::vector<Replacement::Source> sources_;  // by module
    std::atomic<uint64_t> applications_{0};
    std::mutex mutex_;                                      // guards what follows
    std::map<std::thread::id, std::vector<size_t>> calls_;  // of each module, since the model was called
};

Patch::Patch(nn::Module &model, const ModuleSelector &which, const Replacement &replacement, PatchOptions options) {
    if (options.call && *options.call < 0) {
        Throw<ValueError>("Patch: expected a call from 0 on, got {}", *options.call);
    }
    const auto modules = MatchModules(model, which);
    std::vector<Replacement::Source> sources;
    for (const auto &[path, module] : modules) {
        sources.push_back(replacement.For(path, options.target));
    }
    state_ = std::make_shared<State>(std::move(options), std::move(sources));
    const HookOptions named{.name = state_->options().name};
    hooks_.Add(model.RegisterForwardPreHook([state = state_](nn::Module *, const TensorList &) { state->BeginRun(); },
                                            {.name = named.name, .prepend = true}));
    for (size_t i = 0; i < modules.size(); ++i) {
        nn::Module &module = *modules[i].second;
        if (state_->options().target.input) {
            hooks_.Add(module.RegisterForwardPreHook(
                [state = state_, i](nn::Module *, const TensorList &inputs) { return state->Apply(i, inputs); },
                named));
        } else {
            hooks_.Add(module.RegisterForwardPostHook(
                [state = state_, i](nn::Module *, const TensorList &, const TensorList &outputs) {
                    return state->Apply(i, outputs);
                },
                named));
        }
    }
}

uint64_t Patch::Applications() const {
    return state_->applications();
}

}  // namespace infini_train::utils
