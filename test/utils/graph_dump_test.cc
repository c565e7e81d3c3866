// The graph as data, its text, and whether Graphviz reads that; the graphs are worked out by hand.

#include "infini_train/include/utils/graph_dump.h"

#include <algorithm>
#include <any>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/anomaly_mode.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/saved_tensor.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/tensor.h"

#include "test/support/temp_dir.h"
#include "test/support/tensors.h"
#include "test/utils/tiny_transformer.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Leaf;
using test::Of;
using test::Thrown;
using utils::GraphDump;
using Names = std::vector<std::string>;

GraphDump::Node Find(const GraphDump &dump, const std::string &type_or_leaf) {
    const auto found = std::find_if(dump.nodes().begin(), dump.nodes().end(), [&](const GraphDump::Node &node) {
        return node.leaf == type_or_leaf || (node.leaf.empty() && node.type == type_or_leaf);
    });
    if (found == dump.nodes().end()) {
        throw std::runtime_error("no node " + type_or_leaf);
    }
    return *found;
}

size_t Count(const std::string &text, const std::string &part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

TEST(GraphDump, NodesEdgesShapesAndSavedTensors) {
    auto w = Leaf({1, 2, 3});
    auto x = Of({4, 5, 6});
    const auto loss = w->Mul(x)->Square()->Sum();
    const GraphDump dump(loss, {.names = {{"w", w}, {"x", x}}});
    EXPECT_EQ(dump.num_functions(), 3U);
    EXPECT_EQ(dump.num_leaves(), 1U);
    ASSERT_EQ(dump.nodes().size(), 4U);

    const auto &sum = dump.nodes()[0], &square = dump.nodes()[1], &mul = dump.nodes()[2], &leaf = dump.nodes()[3];
    EXPECT_EQ(sum.type, "Sum");
    ASSERT_EQ(sum.outputs.size(), 1U);
    EXPECT_TRUE(sum.outputs[0].dims.empty());
    ASSERT_EQ(sum.inputs.size(), 1U);
    EXPECT_EQ(sum.inputs[0].node, 1U);

    EXPECT_EQ(square.type, "Square");
    ASSERT_EQ(square.saved.size(), 1U);
    EXPECT_EQ(square.saved[0].name, "input 0");
    EXPECT_EQ(square.saved[0].value.dims, std::vector<int64_t>{3});
    EXPECT_EQ(square.saved[0].bytes, 12U);

    EXPECT_EQ(mul.type, "Mul");
    ASSERT_EQ(mul.inputs.size(), 2U);
    EXPECT_EQ(mul.inputs[0].node, 3U);
    EXPECT_EQ(mul.inputs[1].node, GraphDump::kNowhere);
    for (const auto &saved : mul.saved) {
        EXPECT_TRUE(saved.name == "w" || saved.name == "x") << saved.name;
    }
    EXPECT_TRUE(std::any_of(mul.saved.begin(), mul.saved.end(), [](const auto &saved) { return saved.name == "x"; }));

    EXPECT_EQ(leaf.type, "AccumulateGrad");
    EXPECT_EQ(leaf.leaf, "w");
    EXPECT_EQ(leaf.outputs[0].dtype, DataType::kFLOAT32);
    EXPECT_FALSE(sum.freed || square.freed || mul.freed || leaf.freed);
}

TEST(GraphDump, TheWholeText) {
    auto w = Tensor::FromVector<double>({1, 2}, {{1, 2}})->RequiresGrad();
    w->RegisterHook([](const TensorPtr &) {}, {.name = "a<b"});
    const auto y = w->Mul(w);
    const GraphDump dump(y, {.names = {{"w \"1\"", w}}});
    const std::string table = R"(<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="3" COLOR="#9aa7b4">)";
    const auto row = [](const std::string &text, const std::string &colour) {
        return R"(<TR><TD ALIGN="LEFT" BGCOLOR=")" + colour + R"("><FONT POINT-SIZE="9">)" + text + "</FONT></TD></TR>";
    };
    const std::string saved = row("saved w &quot;1&quot;: (1, 2) float64, 16 B", "white");
    EXPECT_EQ(dump.ToDot(),
              R"(digraph autograd {
    graph [rankdir=TB, labelloc=t, fontname="Helvetica", fontsize=11, nodesep=0.3, ranksep=0.35, )"
              R"(label="1 function, 1 leaf, 0 B saved for the backward pass"];
    node [shape=plain, fontname="Helvetica", fontsize=11];
    edge [fontname="Helvetica", fontsize=9, color="#5b6770", fontcolor="#5b6770", arrowsize=0.7];
    n0 [label=<)" +
                  table + R"(<TR><TD ALIGN="CENTER" BGCOLOR="#dce8f5"><B>Mul</B></TD></TR>)" + saved + saved +
                  R"(</TABLE>>];
    n1 [label=<)" +
                  table + R"(<TR><TD ALIGN="CENTER" BGCOLOR="#d8eed6"><B>w &quot;1&quot;</B></TD></TR>)" +
                  row("(1, 2) float64", "white") + row("1 tensor hook: a&lt;b", "#fde3b8") + R"(</TABLE>>];
    r0 [shape=box, height=0.3, style="filled,rounded", color="#2f5d8c", fontcolor=white, label="result"];
    n0 -> r0 [label="(1, 2) float64"];
    n1 -> n0 [label="0: (1, 2) float64"];
    n1 -> n0 [label="1: (1, 2) float64"];
}
)");
}

TEST(GraphDump, ParametersByNameAndModulesAsBoxes) {
    test::TinyTransformer model;
    const auto tokens = Tensor::FromVector<int64_t>({1, 2, 3}, {{1, 3}});
    TensorPtr loss;
    {
        const autograd::AnomalyModeGuard modules_are_known;
        loss = model({tokens})[0]->Sum();
    }
    const GraphDump dump(loss, model);
    EXPECT_EQ(dump.num_leaves(), model.Parameters().size());
    for (const auto &[name, parameter] : model.NamedParameters()) {
        EXPECT_EQ(Find(dump, name).outputs[0].dims, parameter->Dims()) << name;
    }
    EXPECT_EQ(Find(dump, "Softmax").module, "blocks.1.attn");
    EXPECT_EQ(Find(dump, "Gelu").module, "blocks.1.mlp.1");
    EXPECT_EQ(Find(dump, "Sum").module, "");

    const auto text = dump.ToDot();
    // Boxes within boxes, each once, and a parameter in its module's.
    for (const char *box : {"blocks", "blocks.0", "blocks.0.attn", "blocks.0.attn.qkv", "blocks.1.mlp.2", "head"}) {
        EXPECT_EQ(Count(text, "subgraph \"cluster_" + std::string(box) + "\" {"), 1U) << box;
    }
    const auto head = text.substr(text.find("cluster_head"));
    EXPECT_TRUE(Contains(head.substr(0, head.find("\n    }")), "head.bias"));
    // The same graph gives the same text, whatever addresses its objects have.
    TensorPtr again;
    {
        const autograd::AnomalyModeGuard modules_are_known;
        again = model({tokens})[0]->Sum();
    }
    EXPECT_EQ(GraphDump(again, model).ToDot(), text);
    EXPECT_EQ(Count(GraphDump(again, model, {.clusters = false}).ToDot(), "subgraph"), 0U);
}

TEST(GraphDump, HooksOfAllKinds) {
    auto fc = std::make_shared<nn::Linear>(2, 1);
    auto handle = fc->RegisterBackwardPreHook([](nn::Module *, const TensorList &) {}, {.name = "watch"});
    fc->RegisterBackwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {});
    auto weight = fc->parameter("weight");
    weight->RegisterHook([](const TensorPtr &) {});
    weight->RegisterPostAccumulateGradHook([](const TensorPtr &) {}, {.name = "step"});
    auto x = Tensor::Ones({1, 2})->RequiresGrad();
    const auto y = (*fc)({x})[0];
    const auto z = y->Square();
    z->RetainGrad();
    z->RegisterHook([](const TensorPtr &) {}, {.name = "one"});
    auto disabled = z->RegisterHook([](const TensorPtr &) {}, {.name = "two", .enabled = false});
    auto counted = z->grad_fn()->RegisterBackwardPreHook([](autograd::Function *, const TensorList &) {});
    z->grad_fn()->RegisterBackwardPostHook([](autograd::Function *, const TensorList &, const TensorList &) {},
                                           {.name = "after"});
    const GraphDump dump(z, *fc);
    const auto described = [&](const std::string &node) {
        Names result;
        for (const auto &hooks : Find(dump, node).hooks) {
            std::string text = hooks.kind + " " + std::to_string(hooks.count);
            for (const auto &name : hooks.names) {
                text += " " + name;
            }
            result.push_back(text);
        }
        return result;
    };
    EXPECT_EQ(described("weight"), (Names{"tensor 1", "post-accumulate 1 step"}));
    EXPECT_EQ(described("bias"), (Names{}));
    EXPECT_EQ(described("Square"), (Names{"tensor (output 0) 2 one", "retained gradient (output 0) 1", "backward pre 1",
                                          "backward post 1 after"}));
    EXPECT_EQ(described("ModuleOutput"), (Names{"module backward pre 1 watch"}));
    EXPECT_EQ(described("ModuleInput"), (Names{"module backward post 1"}));
    EXPECT_EQ(counted->Calls(), 0U) << "looking is not calling";
    EXPECT_TRUE(Contains(dump.ToDot(), "2 tensor (output 0) hooks: one"));
    EXPECT_TRUE(Find(GraphDump(z, *fc, {.hooks = false}), "Square").hooks.empty());
}

TEST(GraphDump, SavedTensorsPackedChangedFreedAndCounted) {
    auto x = Leaf({1, 2, 3, 4});
    const auto y = x->Mul(2);
    const auto z = y->Exp()->Mul(y->Square());
    // Exp saves its output, Square y; Mul saves both operands, of which Exp's output is there already.
    EXPECT_EQ(GraphDump(z).saved_bytes(), 3 * 16U);
    EXPECT_EQ(Find(GraphDump(z), "Exp").saved[0].name, "output 0");
    EXPECT_TRUE(Find(GraphDump(z, {.saved_tensors = false}), "Exp").saved.empty());
    y->Detach()->Fill(1);
    EXPECT_TRUE(Find(GraphDump(z), "Square").saved[0].changed);
    EXPECT_TRUE(Contains(GraphDump(z).ToDot(), "changed in place since"));

    const auto t = x->Square()->Sum();
    t->Backward();
    const GraphDump freed(t);
    EXPECT_TRUE(Find(freed, "Square").freed);
    EXPECT_TRUE(Find(freed, "Square").saved.empty());
    EXPECT_FALSE(Find(freed, "leaf").freed);
    EXPECT_EQ(freed.saved_bytes(), 0U);

    TensorPtr packed;
    {
        const autograd::SavedTensorHooksGuard guard([](const TensorPtr &tensor) { return std::any(tensor); },
                                                    [](const std::any &any) { return std::any_cast<TensorPtr>(any); });
        packed = x->Square();
    }
    const auto saved = Find(GraphDump(packed), "Square").saved;
    ASSERT_EQ(saved.size(), 1U);
    EXPECT_TRUE(saved[0].packed);
    EXPECT_EQ(saved[0].value.dims, std::vector<int64_t>{4});
    EXPECT_EQ(GraphDump(packed).saved_bytes(), 0U);
}

TEST(GraphDump, ViewsOfNamedTensorsAreRecognised) {
    auto w = Tensor::Ones({2, 3})->RequiresGrad();
    auto x = Tensor::Ones({3, 2});
    const GraphDump dump(w->Mul(x->Transpose(0, 1)), {.names = {{"x", x}}});
    const auto saved = Find(dump, "Mul").saved;
    EXPECT_TRUE(std::any_of(saved.begin(), saved.end(), [](const auto &one) { return one.name == "view of x"; }));
}

TEST(GraphDump, SeveralResultsAndALeaf) {
    auto x = Leaf({1, 2});
    const auto parts = x->Split(1);
    const GraphDump dump(TensorList{parts[0]->Mul(2), parts[1], x});
    EXPECT_EQ(dump.num_functions(), 2U);
    const auto text = dump.ToDot();
    EXPECT_TRUE(Contains(text, "label=\"result 2\""));
    const GraphDump leaf(x, {.names = {{"x", x}}});
    EXPECT_EQ(leaf.num_functions(), 0U);
    EXPECT_TRUE(Contains(leaf.ToDot(), "n0 -> r0 [label=\"(2,) float32\"]"));
    EXPECT_TRUE(Contains(leaf.ToDot(), "label=\"x\"]"));
}

TEST(GraphDump, LargeGraphsAreCutWithANote) {
    auto y = Leaf(1);
    for (int i = 0; i < 20000; ++i) {
        y = y->Neg();
    }
    const GraphDump dump(y, {.max_nodes = 10});
    EXPECT_EQ(dump.num_functions(), 20000U);
    EXPECT_EQ(dump.num_leaves(), 1U);
    ASSERT_EQ(dump.nodes().size(), 10U);
    EXPECT_EQ(dump.nodes()[9].inputs[0].node, GraphDump::kNotShown);
    const auto text = dump.ToDot();
    EXPECT_TRUE(Contains(text,
                         "20000 functions, 1 leaf, 0 B saved for the backward pass; the 10 nodes nearest to the "
                         "result are shown"));
    EXPECT_TRUE(Contains(text, "more [shape=note, style=dashed, label=\"19991 nodes not shown\"];"));
    EXPECT_TRUE(Contains(text, "more -> n9 [style=dashed];"));
    EXPECT_TRUE(GraphDump(y, {.max_nodes = 0}).nodes().empty());
}

TEST(GraphDump, Errors) {
    EXPECT_EQ(Thrown<AutogradError>([] {
                  GraphDump dump(Of({1, 2}));
              }),
              "GraphDump: the tensor (2,) requires no gradient, so it has no graph");
    EXPECT_FALSE(Thrown<ValueError>([] { GraphDump dump{TensorPtr()}; }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { GraphDump dump{TensorList()}; }).empty());
    EXPECT_EQ(Thrown<IoError>([] { GraphDump(Leaf(1)).Save("/nonexistent/graph.dot"); }),
              "GraphDump: can't write /nonexistent/graph.dot");
}

TEST(GraphDump, GraphvizReadsIt) {
    if (std::system("dot -V >/dev/null 2>&1") != 0) {
        GTEST_SKIP() << "Graphviz's dot isn't installed: what it makes of the text is NOT checked";
    }
    test::TinyTransformer model;
    auto handle = model.module("blocks.0.attn")
                      ->RegisterBackwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {},
                                                 {.name = "<&\"\\>"});
    TensorPtr loss;
    {
        const autograd::AnomalyModeGuard modules_are_known;
        loss = model({Tensor::FromVector<int64_t>({1, 2, 3}, {{1, 3}})})[0]->Sum();
    }
    const test::TempDir dir;
    const std::filesystem::path folder = dir.path();
    const GraphDump dump(loss, model);
    dump.Save(folder / "graph.dot");
    const std::string command = "dot -Tsvg " + (folder / "graph.dot").string() + " -o " +
                                (folder / "graph.svg").string() + " 2>" + (folder / "messages").string();
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(std::filesystem::file_size(folder / "messages"), 0U);
    std::ifstream file(folder / "graph.svg");
    const std::string svg(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(Count(svg, "class=\"node\""), dump.nodes().size() + 1);  // and the result
    EXPECT_EQ(Count(svg, "class=\"cluster\""), Count(dump.ToDot(), "subgraph"));
}

}  // namespace
}  // namespace infini_train
