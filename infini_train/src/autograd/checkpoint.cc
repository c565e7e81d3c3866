#include "infini_train/include/autograd/checkpoint.h"

#include <algorithm>
#include <any>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/anomaly_mode.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/autocast.h"
#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/autograd/tensor_packer.h"
#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/core/random_tape.h"

namespace infini_train::autograd {
namespace {

thread_local bool is_recomputing = false;

// Ends a recomputation that has all it needs. No std::exception, so that nothing takes it for an error.
struct StopRecomputation {};

// Stands in the graph for a tensor that isn't kept; the value is its position among those that the function saved.
using Placeholder = std::shared_ptr<const size_t>;

// What is known of a tensor that the function saved.
struct Slot {
    std::weak_ptr<const size_t> placeholder;  // gone if nothing in the graph needs the tensor any more
    std::string saver;
    std::vector<int64_t> dims;
    DataType dtype;
    Device device;
    uint32_t version;
    bool is_input;  // shares its memory with an input; that the second call is given may have another version

    Slot(const Tensor &tensor, const Function &saver, bool is_input = false)
        : saver(saver.type()),
          dims(tensor.Dims()),
          dtype(tensor.Dtype()),
          device(tensor.GetDevice()),
          version(tensor.Version()),
          is_input(is_input) {}

    std::string Describe() const {
        return fmt::format("{} of shape {} on {}, saved by {}", ToString(dtype), FormatDims(dims), device.ToString(),
                           saver);
    }
    // How the tensor of the second call differs; empty if it doesn't.
    std::string Difference(const Slot &again) const {
        if (saver != again.saver || dims != again.dims || dtype != again.dtype || device != again.device) {
            return fmt::format("is {}, in the forward pass it was {}", again.Describe(), Describe());
        }
        if (!is_input && version != again.version) {
            return fmt::format("({}) is at version {}, in the forward pass it was at {}: it was changed in place since",
                               Describe(), again.version, version);
        }
        return {};
    }
};

// The saved tensors of one recomputation, by position, each with its version.
struct Recomputed {
    struct Value {
        TensorPtr tensor;
        uint32_t version = 0;
    };
    std::vector<Value> values;
    size_t left = 0;

    TensorPtr Get(size_t position, const Function &saver) const {
        const Value &value = values[position];
        if (value.tensor->Version() != value.version) {
            Throw<AutogradError>(
                "{}: a tensor of shape {} that it saved for its backward pass was changed in place since by what a "
                "checkpoint computed (it is at version {}, version {} was saved)",
                saver.type(), FormatDims(value.tensor->Dims()), value.tensor->Version(), value.version);
        }
        return value.tensor;
    }
    bool Has(size_t position) const { return position < values.size() && values[position].tensor != nullptr; }
};

// In force while the function is called again: fills a Recomputed.
class Recomputation : public TensorPacker {
public:
    Recomputation(const std::vector<Slot> &slots, const CheckpointOptions &options) : slots_(slots), options_(options) {
        result_.values.resize(slots.size());
        for (size_t i = 0; i < slots.size(); ++i) {
            end_ = slots[i].placeholder.expired() ? end_ : i + 1;
        }
    }

    std::any Pack(const TensorPtr &tensor, const Function &saver) override {
        const size_t position = count_++;
        if (position < slots_.size()) {
            const Slot &slot = slots_[position];
            if (options_.check_determinism) {
                const std::string difference = slot.Difference(Slot(*tensor, saver));
                if (!difference.empty()) {
                    Fail(fmt::format("saved tensor {} of {} {}", position + 1, slots_.size(), difference));
                }
            }
            if (!slot.placeholder.expired()) {
                result_.values[position] = {tensor, tensor->Version()};
                ++result_.left;
            }
        }
        // A function that catches everything isn't stopped a second time.
        if (options_.early_stop && count_ == end_) {
            throw StopRecomputation();
        }
        return tensor;
    }
    TensorPtr Unpack(const std::any &packed, const Function & /*saver*/) override {
        return std::any_cast<TensorPtr>(packed);  // for a backward pass within the function
    }

    Recomputed Finish() {
        if (failure_) {
            throw AutogradError(*failure_);  // the function caught the first one
        }
        if (count_ < end_ || (!options_.early_stop && options_.check_determinism && count_ != slots_.size())) {
            Fail(fmt::format("it saved {} tensors, the forward pass {}", count_, slots_.size()));
        }
        return std::move(result_);
    }

private:
    [[noreturn]] void Fail(const std::string &how) {
        failure_ = "Checkpoint: the recomputation differs from the forward pass: " + how;
        throw AutogradError(*failure_);
    }

    const std::vector<Slot> &slots_;
    const CheckpointOptions options_;
    size_t end_ = 0;  // one past the last position that is needed
    size_t count_ = 0;
    Recomputed result_;
    std::optional<std::string> failure_;
};

// Gives an input of the second call a place in a graph, as the first one had.
class CheckpointInput : public Function {
public:
    CheckpointInput() : Function("CheckpointInput") {}
    TensorList Forward(const TensorList &inputs) override { return {Alias(*inputs[0])}; }
    TensorList Backward(const TensorList &grad_outputs) override { return grad_outputs; }
};

// Sets a variable of this thread until the end of the scope.
class RecomputingScope {
public:
    RecomputingScope() : previous_(std::exchange(is_recomputing, true)) {}
    ~RecomputingScope() { is_recomputing = previous_; }
    RecomputingScope(const RecomputingScope &) = delete;
    RecomputingScope &operator=(const RecomputingScope &) = delete;

private:
    const bool previous_;
};

// One call of Checkpoint: what it takes to call the function again. As a function it has no place in the graph and
// never runs; it is what saves the inputs, so that packers around it apply to them. The graph holds it through the
// placeholders.
class CheckpointCall : public Function, public TensorPacker {
public:
    CheckpointCall(std::function<TensorList(const TensorList &)> function, const CheckpointOptions &options)
        : Function("Checkpoint"),
          function_(std::move(function)),
          options_(options),
          anomaly_mode_(AnomalyModeGuard::IsEnabled()),
          autocast_(GetAutocastState()) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList & /*grad_outputs*/) override { return {}; }

    std::any Pack(const TensorPtr &tensor, const Function &saver) override;
    TensorPtr Unpack(const std::any &packed, const Function &saver) override;
    void Release(const std::any &packed) override;

private:
    // Of an input, besides its value.
    struct InputInfo {
        bool requires_grad;
        bool is_leaf;
    };

    // What a pass has recomputed; null before.
    std::shared_ptr<Recomputed> &KeptIn(GraphTask &pass) const {
        return pass.KeptFor<std::shared_ptr<Recomputed>>(key_);
    }
    void SaveInputs(const TensorList &inputs);
    TensorList RestoreInputs() const;
    Recomputed CallAgain();
    Recomputed Recompute();

    const std::function<TensorList(const TensorList &)> function_;
    const CheckpointOptions options_;
    const bool anomaly_mode_;
    const AutocastState autocast_;
    const uint64_t key_ = GraphTask::NewKey();
    std::vector<InputInfo> input_infos_;
    const TensorList *inputs_ = nullptr;  // during the first call
    RandomTape tape_;
    std::vector<Slot> slots_;
};

void CheckpointCall::SaveInputs(const TensorList &inputs) {
    ctx_.SaveForBackward(inputs);
    auto &saved = FunctionAccess::Saved(*this);
    for (size_t i = 0; i < inputs.size(); ++i) {
        const bool some = inputs[i] != nullptr;
        input_infos_.push_back({some && inputs[i]->requires_grad(), some && inputs[i]->is_leaf()});
        if (some) {
            saved[i].LetGoOf(*inputs[i]);  // it may become part of what is computed from it
        }
    }
}

TensorList CheckpointCall::Forward(const TensorList &inputs) {
    SaveInputs(inputs);
    std::vector<uint32_t> versions;
    for (const auto &input : inputs) {
        versions.push_back(input != nullptr ? input->Version() : 0);
    }
    TensorList outputs;
    {
        const auto self = std::static_pointer_cast<CheckpointCall>(shared_from_this());
        const PackerScope packing(self);
        const RandomTape::Recording recording(&tape_);
        inputs_ = &inputs;
        outputs = function_(inputs);
        inputs_ = nullptr;
    }
    for (size_t i = 0; i < inputs.size() && !slots_.empty(); ++i) {
        if (inputs[i] != nullptr && inputs[i]->Version() != versions[i]) {
            Throw<AutogradError>(
                "Checkpoint: the function changed its input {} of shape {} in place, so it can't be computed again; "
                "use Clone in the function first",
                i, FormatDims(inputs[i]->Dims()));
        }
    }
    return outputs;
}

std::any CheckpointCall::Pack(const TensorPtr &tensor, const Function &saver) {
    const bool is_input = std::any_of(inputs_->begin(), inputs_->end(), [&](const TensorPtr &input) {
        return input != nullptr && input->storage() == tensor->storage();
    });
    Placeholder placeholder = std::make_shared<const size_t>(slots_.size());
    slots_.emplace_back(*tensor, saver, is_input).placeholder = placeholder;
    return placeholder;
}

TensorPtr CheckpointCall::Unpack(const std::any &packed, const Function &saver) {
    const size_t position = *std::any_cast<const Placeholder &>(packed);
    GraphTask *pass = GraphTask::Current();
    auto kept = pass != nullptr ? KeptIn(*pass) : nullptr;
    if (kept == nullptr || !kept->Has(position)) {
        // Once more if the pass has used it already; then for this use alone.
        auto again = std::make_shared<Recomputed>(Recompute());
        if (pass != nullptr && kept == nullptr) {
            KeptIn(*pass) = again;
        }
        kept = std::move(again);
    }
    return kept->Get(position, saver);
}

void CheckpointCall::Release(const std::any &packed) {
    GraphTask *pass = GraphTask::Current();
    const auto kept = pass != nullptr ? KeptIn(*pass) : nullptr;
    const size_t position = *std::any_cast<const Placeholder &>(packed);
    if (kept != nullptr && kept->Has(position)) {
        kept->values[position].tensor = nullptr;
        if (--kept->left == 0) {
            kept->values = {};
        }
    }
}

TensorList CheckpointCall::RestoreInputs() const {
    TensorList inputs;
    {
        const NoGradGuard no_grad;
        inputs = ctx_.GetSavedTensors();
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] != nullptr) {
            inputs[i] = Alias(*inputs[i]);
            inputs[i]->set_requires_grad(input_infos_[i].requires_grad);
            if (!input_infos_[i].is_leaf) {
                inputs[i] = std::make_shared<CheckpointInput>()->Apply({inputs[i]})[0];
            }
        }
    }
    return inputs;
}

Recomputed CheckpointCall::CallAgain() {
    const EnableGradGuard grad;
    const PackerScope none(nullptr);
    const TensorList inputs = RestoreInputs();
    CheckpointOptions options = options_;
    options.early_stop = options.early_stop || inputs_ != nullptr;  // a backward pass within the first call
    const auto recomputation = std::make_shared<Recomputation>(slots_, options);
    {
        const PackerScope packing(recomputation);
        const AnomalyModeGuard anomaly_mode(anomaly_mode_);
        const AutocastStateScope autocast(autocast_);
        const RecomputingScope recomputing;
        const FunctionScope outside(/*inside=*/false);
        const RandomTape::Replay replay(tape_);
        try {
            function_(inputs);
        } catch (const StopRecomputation &) {
        }
    }
    // The pass has no further use for what a checkpoint around this one has computed of the inputs.
    for (const SavedTensor &input : FunctionAccess::Saved(*this)) {
        input.Release();
    }
    return recomputation->Finish();
}

Recomputed CheckpointCall::Recompute() {
    return WithContext([] { return "in the recomputation of a checkpoint"; }, [this] { return CallAgain(); });
}

}  // namespace

bool IsRecomputing() {
    return is_recomputing;
}

TensorList Checkpoint(std::function<TensorList(const TensorList &)> function, const TensorList &inputs,
                      const CheckpointOptions &options) {
    if (function == nullptr) {
        throw ValueError("Checkpoint: expected a function, got an empty one");
    }
    if (!GradMode::IsEnabled()) {
        return function(inputs);
    }
    PackerState::CheckAllowed("Checkpoint");
    return std::make_shared<CheckpointCall>(std::move(function), options)->Forward(inputs);
}

}  // namespace infini_train::autograd
