#include "infini_train/include/utils/graph_dump.h"

#include <fstream>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "infini_train/include/autograd/accumulate.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/backward_hook.h"

namespace infini_train::utils {
namespace {

using autograd::AccumulateGrad;
using autograd::Edge;
using autograd::Function;
using autograd::FunctionAccess;

// `blocks.0.fc (Linear)` gives the path; the root is described by its type alone.
std::string PathOf(const std::string &description) {
    const size_t open = description.rfind(" (");
    return open == std::string::npos ? std::string() : description.substr(0, open);
}

template <typename Hook>
void AddHooks(const std::string &kind, const HookList<Hook> &list, std::vector<GraphDump::Hooks> *hooks) {
    if (list.empty()) {
        return;
    }
    GraphDump::Hooks found{kind, list.size(), {}};
    // Wanting none of them runs none and counts no call.
    const auto look = [&](const infini_train::internal::HookState &state) {
        if (!state.name.empty()) {
            found.names.push_back(state.name);
        }
        return false;
    };
    list.ForEachIf(UINT64_MAX, look, [](const Hook &, const infini_train::internal::HookState &) {});
    hooks->push_back(std::move(found));
}

}  // namespace

// Walks the graph.
class GraphDump::Collector {
public:
    explicit Collector(GraphDump *dump) : dump_(*dump) {
        for (const auto &[name, tensor] : dump_.options_.names) {
            if (tensor != nullptr) {
                by_tensor_.emplace(tensor.get(), name);
                by_storage_.emplace(tensor->storage().get(), name);
            }
        }
    }

    void Run(const TensorList &results) {
        for (size_t i = 0; i < results.size(); ++i) {
            AddResult(results[i], results.size() == 1 ? "result" : fmt::format("result {}", i));
        }
        // Breadth first, so that what is shown is what is nearest.
        for (size_t next = 0; next < functions_.size(); ++next) {
            Visit(functions_[next]);
        }
        for (const auto &[storage, bytes] : saved_) {
            dump_.saved_bytes_ += leaf_storages_.contains(storage) ? 0 : bytes;
        }
    }

private:
    void AddResult(const TensorPtr &tensor, const std::string &fallback) {
        if (tensor == nullptr) {
            throw ValueError("GraphDump: expected a tensor, got null");
        }
        if (!tensor->requires_grad()) {
            Throw<AutogradError>("GraphDump: the tensor {} requires no gradient, so it has no graph",
                                 FormatDims(tensor->Dims()));
        }
        const auto name = by_tensor_.find(tensor.get());
        const Edge edge = autograd::GradientEdge(tensor);
        dump_.results_.push_back(
            {name == by_tensor_.end() ? fallback : name->second, {tensor->Dims(), tensor->Dtype()}, Reach(edge)});
    }

    // The node of the function that an edge leads to, which will be visited.
    Input Reach(const Edge &edge) {
        if (edge.function == nullptr) {
            return {};
        }
        const auto [found, is_new] = positions_.emplace(edge.function.get(), functions_.size());
        if (is_new) {
            functions_.push_back(edge.function);
        }
        const bool shown = found->second < dump_.options_.max_nodes;
        return {shown ? found->second : kNotShown, static_cast<size_t>(edge.output_idx)};
    }

    void Visit(const std::shared_ptr<Function> function) {
        const auto *leaf = dynamic_cast<const AccumulateGrad *>(function.get());
        ++(leaf == nullptr ? dump_.num_functions_ : dump_.num_leaves_);
        Node node;
        for (const Edge &edge : function->next_edges()) {
            node.inputs.push_back(Reach(edge));
        }
        for (const auto &saved : FunctionAccess::Saved(*function)) {
            AddSaved(*function, saved.Inspect(), &node);
        }
        if (leaf != nullptr) {
            leaf_storages_.insert(leaf->leaf()->storage().get());
        }
        if (dump_.nodes_.size() == dump_.options_.max_nodes) {
            return;
        }
        Describe(*function, leaf, &node);
        dump_.nodes_.push_back(std::move(node));
    }

    void Describe(const Function &function, const AccumulateGrad *leaf, Node *node) const {
        node->type = function.type();
        const auto hooked = nn::AsBackwardHookNode(function);
        node->module = PathOf(hooked ? hooked->module : function.module_path());
        node->freed = FunctionAccess::Freed(function);
        for (size_t i = 0; i < function.num_outputs(); ++i) {
            const auto &output = FunctionAccess::Output(function, static_cast<int>(i));
            node->outputs.push_back({output.layout->dims, output.dtype});
        }
        if (leaf != nullptr) {
            const auto name = by_tensor_.find(leaf->leaf().get());
            node->leaf = name == by_tensor_.end() ? "leaf" : name->second;
        }
        if (dump_.options_.hooks) {
            AddAllHooks(function, leaf, &node->hooks);
        }
    }

    void AddSaved(const Function &function, const autograd::SavedTensor::Info &info, Node *node) {
        if (info.tensor == nullptr && !info.packed) {
            return;  // null was saved
        }
        Saved saved{SavedName(function, info), {info.dims, info.dtype}, SizeOf(info.dtype), info.packed, info.changed};
        for (const int64_t dim : info.dims) {
            saved.bytes *= static_cast<size_t>(dim);
        }
        if (info.tensor != nullptr) {
            saved_.emplace(info.tensor->storage().get(), info.tensor->storage()->bytes());
        }
        if (dump_.options_.saved_tensors) {
            node->saved.push_back(std::move(saved));
        }
    }

    std::string SavedName(const Function &function, const autograd::SavedTensor::Info &info) const {
        if (info.is_output) {
            return fmt::format("output {}", info.output_idx);
        }
        if (info.tensor == nullptr) {
            return "tensor";
        }
        if (const auto name = by_tensor_.find(info.tensor.get()); name != by_tensor_.end()) {
            return name->second;
        }
        if (const auto name = by_storage_.find(info.tensor->storage().get()); name != by_storage_.end()) {
            return "view of " + name->second;
        }
        if (info.tensor->requires_grad()) {
            const Edge saved = autograd::GradientEdge(info.tensor);
            const auto &edges = function.next_edges();
            for (size_t i = 0; i < edges.size(); ++i) {
                if (edges[i].function == saved.function && edges[i].output_idx == saved.output_idx) {
                    return fmt::format("input {}", i);
                }
            }
        }
        return "tensor";
    }

    static void AddAllHooks(const Function &function, const AccumulateGrad *leaf, std::vector<Hooks> *hooks) {
        if (leaf != nullptr) {
            if (const auto *meta = autograd::GetMeta(*leaf->leaf()); meta != nullptr && meta->leaf_hooks != nullptr) {
                AddHooks("tensor", meta->leaf_hooks->tensor, hooks);
                AddHooks("post-accumulate", meta->leaf_hooks->post_accumulate, hooks);
            }
        }
        if (auto *own = FunctionAccess::FindHooks(function)) {
            for (size_t i = 0; i < function.num_outputs(); ++i) {
                if (const auto *output = own->FindOutput(i)) {
                    AddHooks(fmt::format("tensor (output {})", i), output->tensor, hooks);
                    if (!output->retains_grad.expired()) {
                        hooks->push_back({fmt::format("retained gradient (output {})", i), 1, {}});
                    }
                }
            }
            AddHooks("forward pre", own->forward_pre, hooks);
            AddHooks("forward post", own->forward_post, hooks);
            AddHooks("backward pre", own->backward_pre, hooks);
            AddHooks("backward post", own->backward_post, hooks);
        }
        if (const auto module = nn::AsBackwardHookNode(function)) {
            if (module->is_output) {
                AddHooks("module backward pre", module->hooks->backward_pre, hooks);
            } else {
                AddHooks("module backward post", module->hooks->backward_post, hooks);
            }
        }
    }

    GraphDump &dump_;
    std::unordered_map<const Tensor *, std::string> by_tensor_;
    std::unordered_map<const Storage *, std::string> by_storage_;
    std::vector<std::shared_ptr<Function>> functions_;  // in the order in which they were reached
    std::unordered_map<const Function *, size_t> positions_;
    std::unordered_map<const Storage *, size_t> saved_;  // bytes
    std::unordered_set<const Storage *> leaf_storages_;
};

GraphDump::GraphDump(const TensorList &results, GraphDumpOptions options) : options_(std::move(options)) {
    if (results.empty()) {
        throw ValueError("GraphDump: expected at least one tensor");
    }
    Collector(this).Run(results);
}

namespace {

GraphDumpOptions WithNamesOf(const nn::Module &model, GraphDumpOptions options) {
    for (const auto &named : {model.NamedParameters(), model.NamedBuffers()}) {
        options.names.insert(options.names.end(), named.begin(), named.end());
    }
    return options;
}

}  // namespace

GraphDump::GraphDump(const TensorPtr &result, const nn::Module &model, GraphDumpOptions options)
    : GraphDump(TensorList{result}, WithNamesOf(model, std::move(options))) {}

void GraphDump::Save(const std::string &path) const {
    std::ofstream file(path, std::ios::binary);
    file << ToDot();
    file.close();
    if (!file) {
        Throw<IoError>("GraphDump: can't write {}", path);
    }
}

}  // namespace infini_train::utils
