#include <algorithm>
#include <memory>

#include "infini_train/include/utils/graph_dump.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/glob.h"

namespace infini_train::utils {
namespace {

constexpr char kFunctionColour[] = "#dce8f5";
constexpr char kLeafColour[] = "#d8eed6";
constexpr char kResultColour[] = "#2f5d8c";
constexpr char kHookColour[] = "#fde3b8";
constexpr char kFaultColour[] = "#f6c9c4";
constexpr char kLineColour[] = "#9aa7b4";

// For text between tags.
std::string Html(const std::string &text) {
    std::string escaped;
    for (const char c : text) {
        switch (c) {
            case '&':
                escaped += "&amp;";
                break;
            case '<':
                escaped += "&lt;";
                break;
            case '>':
                escaped += "&gt;";
                break;
            case '"':
                escaped += "&quot;";
                break;
            default:
                escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
    }
    return escaped;
}

std::string Quoted(const std::string &text) {
    std::string quoted = "\"";
    for (const char c : text) {
        quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
    return quoted + "\"";
}

std::string Bytes(size_t bytes) {
    constexpr const char *kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) {
        return fmt::format("{} B", bytes);
    }
    auto size = static_cast<double>(bytes) / 1024;
    size_t unit = 0;
    while (size >= 1024 && unit < 3) {
        size /= 1024;
        ++unit;
    }
    return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string Text(const GraphDump::Value &value) {
    return FormatDims(value.dims) + " " + ToString(value.dtype);
}

std::string Count(size_t count, const char *what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string Row(const std::string &text, const char *colour, bool title) {
    return fmt::format(R"(<TR><TD ALIGN="{}" BGCOLOR="{}">{}{}{}</TD></TR>)", title ? "CENTER" : "LEFT", colour,
                       title ? "<B>" : R"(<FONT POINT-SIZE="9">)", Html(text), title ? "</B>" : "</FONT>");
}

}  // namespace

// Writes the text from the nodes.
class GraphDump::DotWriter {
public:
    explicit DotWriter(const GraphDump &dump) : dump_(dump) {
        for (size_t i = 0; i < dump_.nodes_.size() && dump_.options_.clusters; ++i) {
            if (dump_.nodes_[i].leaf.empty()) {
                root_.Find(dump_.nodes_[i].module)->nodes.push_back(i);
            }
        }
        for (size_t i = 0; i < dump_.nodes_.size(); ++i) {
            const Node &node = dump_.nodes_[i];
            if (!dump_.options_.clusters) {
                root_.nodes.push_back(i);
            } else if (!node.leaf.empty()) {
                root_.Nearest(node.leaf)->nodes.push_back(i);
            }
        }
    }

    std::string Write() {
        text_ = "digraph autograd {\n";
        Line("graph [rankdir=TB, labelloc=t, fontname=\"Helvetica\", fontsize=11, nodesep=0.3, ranksep=0.35, label=" +
             Quoted(Summary()) + "];");
        Line("node [shape=plain, fontname=\"Helvetica\", fontsize=11];");
        Line("edge [fontname=\"Helvetica\", fontsize=9, color=\"#5b6770\", fontcolor=\"#5b6770\", arrowsize=0.7];");
        WriteCluster(root_, "");
        for (size_t i = 0; i < dump_.results_.size(); ++i) {
            const Result &result = dump_.results_[i];
            Line(fmt::format(
                "r{} [shape=box, height=0.3, style=\"filled,rounded\", color=\"{}\", fontcolor=white, label={}];", i,
                kResultColour, Quoted(result.name)));
        }
        for (size_t i = 0; i < dump_.results_.size(); ++i) {
            WriteEdge(dump_.results_[i].input, fmt::format("r{}", i), Text(dump_.results_[i].value));
        }
        for (size_t i = 0; i < dump_.nodes_.size(); ++i) {
            WriteInputs(i);
        }
        const size_t hidden = dump_.num_functions_ + dump_.num_leaves_ - dump_.nodes_.size();
        if (hidden > 0) {
            Line(fmt::format("more [shape=note, style=dashed, label=\"{} not shown\"];", Count(hidden, "node")));
        }
        return text_ + "}\n";
    }

private:
    // What one module holds; in the order in which it was found.
    struct Cluster {
        Cluster *Find(const std::string &path) {
            Cluster *cluster = this;
            std::string so_far;
            for (const auto &name : SplitPath(path)) {
                so_far += (so_far.empty() ? "" : ".") + name;
                auto found = std::find_if(cluster->inner.begin(), cluster->inner.end(),
                                          [&](const auto &entry) { return entry->path == so_far; });
                if (found == cluster->inner.end()) {
                    cluster->inner.push_back(std::make_unique<Cluster>());
                    cluster->inner.back()->path = so_far;
                    found = cluster->inner.end() - 1;
                }
                cluster = found->get();
            }
            return cluster;
        }
        // The innermost there is that a leaf of that name belongs to.
        Cluster *Nearest(const std::string &leaf) {
            for (const auto &cluster : inner) {
                if (leaf.starts_with(cluster->path + ".")) {
                    return cluster->Nearest(leaf);
                }
            }
            return this;
        }

        std::string path;
        std::vector<size_t> nodes;
        std::vector<std::unique_ptr<Cluster>> inner;
    };

    void Line(const std::string &line) { text_ += indent_ + line + "\n"; }

    std::string Summary() const {
        std::string summary = fmt::format(
            "{}, {}, {} saved for the backward pass", Count(dump_.num_functions_, "function"),
            dump_.num_leaves_ == 1 ? "1 leaf" : fmt::format("{} leaves", dump_.num_leaves_), Bytes(dump_.saved_bytes_));
        const size_t all = dump_.num_functions_ + dump_.num_leaves_;
        if (all > dump_.nodes_.size()) {
            summary += fmt::format("; the {} nearest to the result are shown", Count(dump_.nodes_.size(), "node"));
        }
        return summary;
    }

    void WriteCluster(const Cluster &cluster, const std::string &outer) {
        if (!cluster.path.empty()) {
            Line("subgraph " + Quoted("cluster_" + cluster.path) + " {");
            indent_ += "    ";
            const std::string name = outer.empty() ? cluster.path : cluster.path.substr(outer.size() + 1);
            Line(fmt::format("label={}; labeljust=l; style=rounded; color=\"{}\"; fontcolor=\"{}\";", Quoted(name),
                             kLineColour, kResultColour));
        }
        for (const auto &inner : cluster.inner) {
            WriteCluster(*inner, cluster.path);
        }
        for (const size_t i : cluster.nodes) {
            WriteNode(i);
        }
        if (!cluster.path.empty()) {
            indent_.resize(indent_.size() - 4);
            Line("}");
        }
    }

    void WriteNode(size_t i) {
        const Node &node = dump_.nodes_[i];
        const bool is_leaf = !node.leaf.empty();
        const char *const colour = is_leaf ? kLeafColour : kFunctionColour;
        std::string rows = Row(is_leaf ? node.leaf : node.type, colour, /*title=*/true);
        if (is_leaf) {
            rows += Row(Text(node.outputs[0]), "white", false);
        }
        for (const Saved &saved : node.saved) {
            rows += Row(fmt::format("saved {}: {}, {}{}", saved.name, Text(saved.value),
                                    saved.packed ? "packed" : Bytes(saved.bytes),
                                    saved.changed ? ", changed in place since" : ""),
                        saved.changed ? kFaultColour : "white", false);
        }
        if (node.freed) {
            rows += Row("freed", kFaultColour, false);
        }
        for (const Hooks &hooks : node.hooks) {
            std::string names;
            for (const auto &name : hooks.names) {
                names += (names.empty() ? ": " : ", ") + name;
            }
            rows += Row(hooks.kind.starts_with("retained") ? hooks.kind
                                                           : Count(hooks.count, (hooks.kind + " hook").c_str()) + names,
                        kHookColour, false);
        }
        Line(fmt::format(
            R"(n{} [label=<<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="3" COLOR="{}">{}</TABLE>>];)",
            i, kLineColour, rows));
    }

    void WriteInputs(size_t i) {
        const Node &node = dump_.nodes_[i];
        bool cut = false;
        for (size_t k = 0; k < node.inputs.size(); ++k) {
            const Input &input = node.inputs[k];
            if (input.node == kNotShown) {
                cut = true;
            } else if (input.node != kNowhere) {
                const Value &value = dump_.nodes_[input.node].outputs[input.output];
                // Where there are several inputs, which of them it is.
                const std::string which = node.inputs.size() > 1 ? fmt::format("{}: ", k) : "";
                WriteEdge(input, fmt::format("n{}", i), which + Text(value));
            }
        }
        if (cut) {
            Line(fmt::format("more -> n{} [style=dashed];", i));
        }
    }

    void WriteEdge(const Input &input, const std::string &to, const std::string &label) {
        if (input.node == kNotShown) {
            Line(fmt::format("more -> {} [style=dashed];", to));
        } else {
            Line(fmt::format("n{} -> {} [label={}];", input.node, to, Quoted(label)));
        }
    }

    const GraphDump &dump_;
    Cluster root_;
    std::string text_;
    std::string indent_ = "    ";
};

std::string GraphDump::ToDot() const {
    return DotWriter(*this).Write();
}

}  // namespace infini_train::utils
