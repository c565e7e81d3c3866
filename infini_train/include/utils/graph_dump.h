#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::utils {

struct GraphDumpOptions {
    bool saved_tensors = true;  ///< what the functions have saved for their backward pass
    bool hooks = true;
    bool clusters = true;    ///< a box around what belongs to one module
    size_t max_nodes = 400;  ///< those nearest to the results are shown, the others counted
    /// Names of tensors, leaves or others: a module's NamedParameters().
    std::vector<std::pair<std::string, TensorPtr>> names = {};
};

/// The autograd graph of some tensors: as data, and as Graphviz's text, for `dot -Tsvg graph.dot -o graph.svg`.
///
///     utils::GraphDump(loss, *model).Save("graph.dot");
///
/// The text depends on the graph alone: the same graph gives the same text in every run. Which module a function was
/// applied in is known of functions that were recorded under an autograd::AnomalyModeGuard. The graph must not be
/// recorded, or run backward, by another thread meanwhile.
class INFINI_TRAIN_EXPORT GraphDump {
public:
    /// A tensor that goes through the graph.
    struct Value {
        std::vector<int64_t> dims;
        DataType dtype = DataType::kFLOAT32;
    };
    /// One tensor that a function has saved.
    struct Saved {
        std::string name;  ///< `fc.weight`, `view of fc.weight`, `input 0`, `output 0`, else `tensor`
        Value value;
        size_t bytes = 0;      ///< of its elements
        bool packed = false;   ///< by a saved-tensor hook: whether and where its elements exist isn't known
        bool changed = false;  ///< in place since: the backward pass will throw
    };
    /// The hooks of one kind.
    struct Hooks {
        std::string kind;                ///< `backward pre`, `tensor (output 0)`, `module backward post`, ...
        size_t count = 0;                ///< also those that are disabled
        std::vector<std::string> names;  ///< of those that are enabled and have one
    };
    /// Where the gradient of an input goes.
    struct Input {
        size_t node = kNowhere;  ///< position in nodes(), kNowhere, or kNotShown
        size_t output = 0;       ///< which of that node's outputs the input is
    };
    /// A function, or a leaf.
    struct Node {
        std::string type;    ///< `Linear`; of a leaf `AccumulateGrad`
        std::string module;  ///< the path of the module that it was applied in; empty for the root and if not known
        std::string leaf;    ///< a leaf's name, `leaf` if it has none; empty for a function
        std::vector<Value> outputs;
        std::vector<Input> inputs;
        std::vector<Saved> saved;
        std::vector<Hooks> hooks;
        bool freed = false;  ///< what it had saved is gone: a backward pass went through
    };
    static constexpr size_t kNowhere = SIZE_MAX;       ///< the input needs no gradient
    static constexpr size_t kNotShown = SIZE_MAX - 1;  ///< beyond max_nodes

    /// Throws ValueError for no tensors or null, AutogradError for a tensor that requires no gradient.
    explicit GraphDump(const TensorList &results, GraphDumpOptions options = {});
    explicit GraphDump(const TensorPtr &result, GraphDumpOptions options = {})
        : GraphDump(TensorList{result}, std::move(options)) {}
    /// With the names of the model's parameters and buffers, besides those of the options.
    GraphDump(const TensorPtr &result, const nn::Module &model, GraphDumpOptions options = {});

    /// The nodes that are shown, nearest to the results first.
    const std::vector<Node> &nodes() const { return nodes_; }
    /// Of the whole graph, shown or not.
    size_t num_functions() const { return num_functions_; }
    size_t num_leaves() const { return num_leaves_; }
    /// The bytes that the graph's saved tensors hold on to, each block of memory counted once. Those of leaves, which
    /// are there anyway, and packed tensors don't count.
    size_t saved_bytes() const { return saved_bytes_; }

    std::string ToDot() const;
    /// Writes the text to a file. Throws IoError.
    void Save(const std::string &path) const;

private:
    class Collector;
    class DotWriter;
    struct Result {
        std::string name;
        Value value;
        Input input;
    };

    GraphDumpOptions options_;
    std::vector<Result> results_;
    std::vector<Node> nodes_;
    size_t num_functions_ = 0, num_leaves_ = 0, saved_bytes_ = 0;
};

}  // namespace infini_train::utils
