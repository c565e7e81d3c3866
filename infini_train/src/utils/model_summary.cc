#include "infini_train/include/utils/model_summary.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/flops.h"
#include "infini_train/include/utils/global_function_hook_registry.h"
#include "infini_train/include/utils/global_module_hook_registry.h"
#include "infini_train/include/utils/table.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {
namespace {

// Puts back what a forward may change besides its outputs.
class StateGuard {
public:
    explicit StateGuard(const nn::Module &model) : generator_(DefaultGenerator().GetState()) {
        for (const auto &buffer : model.Buffers()) {
            buffers_.push_back({buffer, buffer->Detach()->Clone(), buffer->Version()});
        }
    }
    ~StateGuard() {
        DefaultGenerator().SetState(generator_);
        for (const Buffer &buffer : buffers_) {
            if (buffer.tensor->Version() != buffer.version) {
                buffer.tensor->Copy_(buffer.values);
            }
        }
    }
    StateGuard(const StateGuard &) = delete;
    StateGuard &operator=(const StateGuard &) = delete;

private:
    struct Buffer {
        TensorPtr tensor, values;
        uint32_t version;
    };
    const autograd::NoGradGuard no_grad_;
    const Generator::State generator_;
    std::vector<Buffer> buffers_;
};

// What the hooks see of one forward in this thread.
class Recorder {
public:
    struct Seen {
        int64_t calls = 0, activation_bytes = 0, flops = 0;  // of the module alone
        std::vector<std::vector<int64_t>> output_dims;
    };

    explicit Recorder(nn::Module &model) {
        for (const auto &[path, module] : model.NamedModules()) {
            seen_.emplace(module.get(), Seen());
        }
        auto &modules = GlobalModuleHookRegistry::Instance();
        auto &functions = GlobalFunctionHookRegistry::Instance();
        const HookOptions begins{.prepend = true}, ends{.prepend = true, .always_call = true};
        hooks_.Add(modules.RegisterModuleForwardPreHook(
            [this](nn::Module *module, const TensorList &) { Here() ? Enter(module) : void(); }, begins));
        hooks_.Add(modules.RegisterModuleForwardHook(
            [this](nn::Module *module, const TensorList &, const TensorList &outputs) {
                Here() ? Leave(module, outputs) : void();
            },
            ends));
        hooks_.Add(functions.RegisterFunctionForwardPreHook(
            [this](autograd::Function *function, const TensorList &) { Here() ? Enter(*function) : void(); }, begins,
            autograd::FunctionDepth::kAll));
        hooks_.Add(functions.RegisterFunctionForwardHook(
            [this](autograd::Function *function, const TensorList &inputs, const TensorList &outputs) {
                Here() ? Leave(*function, inputs, outputs) : void();
            },
            ends, autograd::FunctionDepth::kAll));
    }

    Seen Of(const nn::Module *module) const {
        const auto found = seen_.find(module);
        return found == seen_.end() ? Seen() : found->second;
    }
    const std::set<std::string> &uncounted() const { return uncounted_; }

private:
    // An operator under way, and the memory of what it has called so far.
    struct Operator {
        bool is_part;   // of one whose costs are known
        bool is_known;  // its own costs
        bool has_parts = false;
        std::vector<std::weak_ptr<Storage>> outputs = {};
    };

    bool Here() const { return std::this_thread::get_id() == thread_; }

    void Enter(nn::Module *module) {
        if (seen_.contains(module)) {
            modules_.push_back(module);
        }
    }
    void Leave(nn::Module *module, const TensorList &outputs) {
        if (modules_.empty() || modules_.back() != module) {
            return;
        }
        modules_.pop_back();
        Seen &seen = seen_[module];
        ++seen.calls;
        seen.output_dims.clear();
        for (const auto &output : outputs) {
            seen.output_dims.push_back(output == nullptr ? std::vector<int64_t>() : output->Dims());
        }
    }

    // An operator whose costs are known counts as one; one whose costs aren't is the sum of what it calls.
    void Enter(const autograd::Function &function) {
        const bool is_part = !operators_.empty() && (operators_.back().is_part || operators_.back().is_known);
        if (!operators_.empty()) {
            operators_.back().has_parts = true;
        }
        operators_.push_back({is_part, HasCost(function.type())});
    }
    void Leave(const autograd::Function &function, const TensorList &inputs, const TensorList &outputs) {
        if (operators_.empty()) {
            return;
        }
        const Operator done = std::move(operators_.back());
        operators_.pop_back();
        if (done.is_part || modules_.empty() || outputs.empty()) {
            return;
        }
        Seen &seen = seen_[modules_.back()];
        seen.flops += ForwardCost(DescribeCall(function, inputs, outputs)).flops;
        if (!done.is_known && !done.has_parts) {
            uncounted_.insert(function.type());
        }
        for (const auto &output : outputs) {
            if (output == nullptr || SharesMemory(*output, inputs) || MadeInside(*output, done)) {
                continue;
            }
            seen.activation_bytes += static_cast<int64_t>(output->SizeInBytes());
            if (!operators_.empty()) {
                operators_.back().outputs.push_back(output->storage());
            }
        }
    }

    static bool SharesMemory(const Tensor &output, const TensorList &inputs) {
        return std::any_of(inputs.begin(), inputs.end(), [&](const TensorPtr &input) {
            return input != nullptr && input->storage() == output.storage();
        });
    }
    static bool MadeInside(const Tensor &output, const Operator &op) {
        return std::any_of(op.outputs.begin(), op.outputs.end(),
                           [&](const std::weak_ptr<Storage> &storage) { return storage.lock() == output.storage(); });
    }

    const std::thread::id thread_ = std::this_thread::get_id();
    std::unordered_map<const nn::Module *, Seen> seen_;
    std::vector<nn::Module *> modules_;  // that are being called
    std::vector<Operator> operators_;
    std::set<std::string> uncounted_;
    HookGroup hooks_;
};

// Makes the rows, parents before their children.
class TreeWalk {
public:
    TreeWalk(const Recorder &recorder, std::vector<ModuleSummary> *rows) : recorder_(recorder), rows_(*rows) {}

    void Visit(const nn::Module &module, const std::string &path, const std::string &name, int64_t depth) {
        const size_t at = rows_.size();
        ModuleSummary row;
        row.path = path;
        row.name = name;
        row.type = module.type();
        row.depth = depth;
        const auto [known, is_new] = paths_.emplace(&module, path);
        if (!is_new) {
            row.is_shared = true;
            row.same_as = known->second;
            rows_.push_back(std::move(row));
            return;
        }
        const Recorder::Seen &seen = recorder_.Of(&module);
        row.calls = seen.calls;
        row.output_dims = seen.output_dims;
        row.activation_bytes = seen.activation_bytes;
        row.flops = seen.flops;
        CountTensors(module, &row);
        rows_.push_back(std::move(row));
        for (const auto &[child_name, child] : module.NamedChildren()) {
            const size_t child_row = rows_.size();
            Visit(*child, path.empty() ? child_name : path + "." + child_name, child_name, depth + 1);
            rows_[at].activation_bytes += rows_[child_row].activation_bytes;
            rows_[at].flops += rows_[child_row].flops;
        }
    }

private:
    void CountTensors(const nn::Module &module, ModuleSummary *row) {
        for (const auto &[name, parameter] : module.NamedParameters()) {
            const int64_t count = parameter->NumElements();
            const auto bytes = static_cast<int64_t>(parameter->SizeInBytes());
            row->parameters += count;
            row->parameter_bytes += bytes;
            if (parameter->requires_grad()) {
                row->trainable_parameters += count;
                row->gradient_bytes += bytes;
            }
            if (name.find('.') == std::string::npos) {
                row->own_parameters += count;
                row->tied_parameters += parameters_.insert(parameter.get()).second ? 0 : count;
            }
        }
        for (const auto &buffer : module.Buffers()) {
            row->buffer_bytes += static_cast<int64_t>(buffer->SizeInBytes());
        }
    }

    const Recorder &recorder_;
    std::vector<ModuleSummary> &rows_;
    std::unordered_map<const nn::Module *, std::string> paths_;
    std::unordered_set<const Tensor *> parameters_;  // of the rows so far
};

TensorPtr ZerosFor(const nn::Module &model, const std::vector<int64_t> &dims, std::optional<DataType> dtype) {
    const TensorList parameters = model.Parameters();
    const Device device = parameters.empty() ? Device() : parameters.front()->GetDevice();
    if (!dtype) {
        const auto found = std::find_if(parameters.begin(), parameters.end(),
                                        [](const TensorPtr &tensor) { return IsFloatingPoint(tensor->Dtype()); });
        dtype = found == parameters.end() ? DataType::kFLOAT32 : (*found)->Dtype();
    }
    return Tensor::Zeros(dims, *dtype, device);
}

// 61,706
std::string Grouped(int64_t value) {
    std::string digits = std::to_string(value);
    for (auto at = std::ssize(digits) - 3; at > 0; at -= 3) {
        digits.insert(static_cast<size_t>(at), ",");
    }
    return digits;
}

std::string OutputText(const ModuleSummary &row) {
    if (row.is_shared) {
        return "as " + (row.same_as.empty() ? row.type : row.same_as);
    }
    std::string text = row.calls == 0 ? "not called" : "";
    for (const auto &dims : row.output_dims) {
        text += (text.empty() ? "" : ", ") + FormatDims(dims);
    }
    return row.calls > 1 ? fmt::format("{} x{}", text, row.calls) : text;
}

// The branches of the tree in front of each row's name.
class Branches {
public:
    Branches(const std::vector<ModuleSummary> &rows, bool utf8) : rows_(rows), utf8_(utf8) {}

    std::string Before(size_t i) const {
        std::string text;
        for (int64_t depth = 1; depth < rows_[i].depth; ++depth) {
            text += HasSibling(i, depth) ? (utf8_ ? "│ " : "| ") : "  ";
        }
        if (rows_[i].depth > 0) {
            text += HasSibling(i, rows_[i].depth) ? (utf8_ ? "├─" : "|-") : (utf8_ ? "└─" : "`-");
        }
        return text;
    }

private:
    // Whether the row's ancestor of that depth, or itself, has a sibling further down.
    bool HasSibling(size_t i, int64_t depth) const {
        for (size_t j = i + 1; j < rows_.size() && rows_[j].depth >= depth; ++j) {
            if (rows_[j].depth == depth) {
                return true;
            }
        }
        return false;
    }

    const std::vector<ModuleSummary> &rows_;
    const bool utf8_;
};

}  // namespace

ModelSummary::ModelSummary(nn::Module &model, const TensorList &inputs) {
    Run(model, inputs);
}

ModelSummary::ModelSummary(nn::Module &model, const std::vector<int64_t> &input_dims, std::optional<DataType> dtype) {
    Run(model, {ZerosFor(model, input_dims, dtype)});
}

void ModelSummary::Run(nn::Module &model, const TensorList &inputs) {
    for (const auto &input : inputs) {
        input_bytes_ += input == nullptr ? 0 : static_cast<int64_t>(input->SizeInBytes());
    }
    Recorder recorder(model);
    {
        const StateGuard guard(model);
        model(inputs);
    }
    TreeWalk(recorder, &rows_).Visit(model, "", "", 0);
    uncounted_.assign(recorder.uncounted().begin(), recorder.uncounted().end());
}

std::string ModelSummary::ToString(const Terminal &terminal, int64_t max_depth) const {
    Table table({"module", "output", "parameters", "activations", "FLOPs"},
                {Table::kLeft, Table::kLeft, Table::kRight, Table::kRight, Table::kRight});
    const Branches branches(rows_, terminal.utf8);
    for (size_t i = 0; i < rows_.size(); ++i) {
        const ModuleSummary &row = rows_[i];
        if (row.depth > max_depth) {
            continue;
        }
        const std::string name =
            branches.Before(i) + (row.name.empty() ? row.type : fmt::format("{} ({})", row.name, row.type));
        if (row.is_shared) {
            table.AddRow({name, OutputText(row), "", "", ""});
            continue;
        }
        const char *tied = row.tied_parameters > 0 ? " tied" : "";
        table.AddRow({name, OutputText(row), row.parameters == 0 ? "" : Grouped(row.parameters) + tied,
                      row.activation_bytes == 0 ? "" : FormatBytes(row.activation_bytes),
                      row.flops == 0 ? "" : FormatCount(static_cast<double>(row.flops))});
    }
    const ModuleSummary &all = total();
    std::string text = table.ToString(terminal);
    text += fmt::format("parameters   {}, {} trainable\n", Grouped(all.parameters), Grouped(all.trainable_parameters));
    text += fmt::format("memory       parameters {}, gradients {}, buffers {}, activations {}, inputs {}\n",
                        FormatBytes(all.parameter_bytes), FormatBytes(all.gradient_bytes),
                        FormatBytes(all.buffer_bytes), FormatBytes(all.activation_bytes), FormatBytes(input_bytes_));
    text += fmt::format("forward      {} FLOPs\n", Grouped(all.flops));
    if (!uncounted_.empty()) {
        text += fmt::format("not counted  {}\n", fmt::join(uncounted_, ", "));
    }
    return text;
}

std::ostream &operator<<(std::ostream &stream, const ModelSummary &summary) {
    return stream << summary.ToString();
}

}  // namespace infini_train::utils
