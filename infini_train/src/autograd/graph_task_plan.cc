// What a backward pass comes to: its nodes, which of them run, and how many gradients each waits for.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {

void GraphTask::Index::Clear() {
    std::fill(slots_.begin(), slots_.end(), std::pair<const Function *, uint32_t>());
    size_ = 0;
}

size_t GraphTask::Index::Slot(const Function *key) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = (reinterpret_cast<uintptr_t>(key) * 0x9e3779b97f4a7c15U >> 20) & mask;
    while (slots_[slot].first != nullptr && slots_[slot].first != key) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

uint32_t GraphTask::Index::Find(const Function *key) const {
    return slots_.empty() || slots_[Slot(key)].first == nullptr ? kNone : slots_[Slot(key)].second;
}

uint32_t GraphTask::Index::FindOrAdd(const Function *key, uint32_t value) {
    if (2 * (size_ + 1) > slots_.size()) {
        const auto old = std::exchange(slots_, {});
        slots_.resize(std::max<size_t>(64, 2 * old.size()));
        for (const auto &entry : old) {
            if (entry.first != nullptr) {
                slots_[Slot(entry.first)] = entry;
            }
        }
    }
    auto &entry = slots_[Slot(key)];
    if (entry.first == nullptr) {
        entry = {key, value};
        ++size_;
    }
    return entry.second;
}

uint32_t GraphTask::AddNode(const std::shared_ptr<Function> &function) {
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    const uint32_t node = index_.FindOrAdd(function.get(), fresh);
    if (node == fresh) {
        nodes_.emplace_back();
        Node &added = nodes_.back();
        added.function = function;
        if (auto &lists = workspace_->lists; !lists.empty()) {
            added.gradients = std::move(lists.back());
            lists.pop_back();
        }
        added.gradients.resize(function->num_outputs());
        ChooseStream(&added);
    }
    return node;
}

void GraphTask::ChooseStream(Node *node) {
    const Function &function = *node->function;
    const Device device = function.is_accumulator_ ? function.output_info(0).device : function.stream_.device();
    if (device.IsCPU()) {
        return;
    }
    const Stream callers = CurrentStream(device);
    node->stream = function.is_accumulator_ ? callers : function.stream_;
    if (node->stream != callers &&
        std::find(side_streams_.begin(), side_streams_.end(), node->stream) == side_streams_.end()) {
        side_streams_.push_back(node->stream);
    }
}

void GraphTask::CheckEdge(const Edge &edge) {
    if (edge.application != edge.function->application_) {
        Throw<AutogradError>(
            "{}: this output is of an earlier application of the function object, which was applied again "
            "since; make one object for each Apply",
            edge.function->type());
    }
}

void GraphTask::Discover(const std::vector<Edge> &roots) {
    for (const Edge &root : roots) {
        CheckEdge(root);
        AddNode(root.function);
    }
    // Nodes are appended while the loop goes over them.
    for (size_t i = 0; i < nodes_.size(); ++i) {
        const Function &function = *nodes_[i].function;
        nodes_[i].first_edge = edge_targets_.size();
        for (const Edge &edge : function.next_edges_) {
            if (edge.function != nullptr) {
                CheckEdge(edge);
            }
            edge_targets_.push_back(edge.function != nullptr ? AddNode(edge.function) : kNone);
        }
    }
}

void GraphTask::MarkPathsTo(const std::vector<Edge> &roots, const std::vector<Edge> &targets) {
    for (Node &node : nodes_) {
        node.executes = false;
    }
    for (size_t slot = 0; slot < targets.size(); ++slot) {
        CheckEdge(targets[slot]);
        const uint32_t node = index_.Find(targets[slot].function.get());
        if (node != kNone) {
            nodes_[node].captures.emplace_back(targets[slot].output_idx, slot);
        }
    }
    // Depth first; a node runs if one of those behind it captures or runs.
    struct Visit {
        uint32_t node;
        size_t next_edge;
    };
    std::vector<bool> seen(nodes_.size(), false);
    std::vector<Visit> stack;
    const auto enter = [&](uint32_t node) {
        if (node != kNone && !seen[node]) {
            seen[node] = true;
            stack.push_back({node, 0});
        }
    };
    for (const Edge &root : roots) {
        enter(index_.Find(root.function.get()));
        while (!stack.empty()) {
            Visit &visit = stack.back();
            Node &node = nodes_[visit.node];
            const auto behind = Targets(node);
            if (visit.next_edge < behind.size()) {
                enter(behind[visit.next_edge++]);
                continue;
            }
            node.executes = std::any_of(behind.begin(), behind.end(),
                                        [&](uint32_t next) { return next != kNone && IsWanted(next); });
            stack.pop_back();
        }
    }
}

void GraphTask::CountDependencies(const std::vector<Edge> &roots) {
    for (const Edge &root : roots) {
        ++nodes_[index_.Find(root.function.get())].dependencies;
    }
    for (const Node &node : nodes_) {
        if (!node.executes) {
            continue;
        }
        if (node.function->ctx_.freed_) {
            Throw<AutogradError>(
                "{}: its graph was freed by an earlier backward pass; pass retain_graph = true to that "
                "one to go through it again",
                node.function->type());
        }
        for (const uint32_t target : Targets(node)) {
            if (target != kNone && IsWanted(target)) {
                ++nodes_[target].dependencies;
            }
        }
    }
}

}  // namespace infini_train::autograd
