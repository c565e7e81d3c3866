// Globs against hand-worked answers, then selections on a small transformer, hooks on it, and the messages.

#include "infini_train/include/utils/module_pattern.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/utils/glob.h"
#include "test/support/modules.h"
#include "test/support/tensors.h"
#include "test/utils/tiny_transformer.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
using test::Thrown;
using test::TinyTransformer;
using test::Values;
using Names = std::vector<std::string>;

Names Matched(nn::Module &model, const utils::ModuleSelector &selector) {
    Names names;
    for (const auto &[path, module] : utils::MatchModules(model, selector)) {
        names.push_back(path);
    }
    return names;
}

TEST(Glob, OneName) {
    struct Case {
        const char *pattern, *text;
        bool matches;
    };
    for (const auto &[pattern, text, matches] : {
             Case{"attn", "attn", true},   Case{"attn", "attn2", false},    Case{"*", "anything", true},
             Case{"*", "", true},          Case{"a*n", "attn", true},       Case{"a*n", "attn2", false},
             Case{"*t*t*", "attn", true},  Case{"*t*t*t", "attn", false},   Case{"a**n", "attn", true},
             Case{"fc?", "fc1", true},     Case{"fc?", "fc", false},        Case{"fc[12]", "fc2", true},
             Case{"fc[12]", "fc3", false}, Case{"[0-9]", "7", true},        Case{"[0-9]", "x", false},
             Case{"[!0-9]", "x", true},    Case{"[!0-9]", "7", false},      Case{"[]a]", "]", true},
             Case{"[a-]", "-", true},      Case{"[!]a]", "]", false},       Case{"a[*]b", "a*b", true},
             Case{"a[*]b", "axb", false},  Case{"*[0-9]", "layer12", true},
         }) {
        EXPECT_EQ(utils::MatchGlob(pattern, text), matches) << pattern << " on " << text;
    }
}

TEST(Glob, Paths) {
    const auto match = [](const std::string &pattern, const std::string &path) {
        return utils::MatchPath(utils::SplitPath(pattern), utils::SplitPath(path));
    };
    EXPECT_TRUE(match("blocks.*.attn", "blocks.0.attn"));
    EXPECT_FALSE(match("blocks.*.attn", "blocks.0.1.attn"));
    EXPECT_FALSE(match("blocks.*.attn", "blocks.attn"));
    EXPECT_TRUE(match("**", ""));
    EXPECT_FALSE(match("*", ""));
    EXPECT_TRUE(match("", ""));
    EXPECT_FALSE(match("", "a"));
    EXPECT_TRUE(match("a.**", "a"));
    EXPECT_TRUE(match("a.**", "a.b.c"));
    EXPECT_FALSE(match("a.**", "b.a"));
    EXPECT_TRUE(match("**.fc", "fc"));
    EXPECT_TRUE(match("**.fc", "a.b.fc"));
    EXPECT_FALSE(match("**.fc", "a.fc.b"));
    EXPECT_TRUE(match("a.**.b.**.c", "a.b.c"));
    EXPECT_TRUE(match("a.**.b.**.c", "a.x.b.b.y.z.c"));
    EXPECT_FALSE(match("a.**.b.**.c", "a.x.y.c"));
    EXPECT_TRUE(match("**.*", "a"));
    EXPECT_FALSE(match("**.*", ""));
    EXPECT_TRUE(match("**.**.a", "a"));
}

TEST(Glob, ManyStarsAreFast) {
    std::string text(2000, 'a');
    EXPECT_FALSE(utils::MatchGlob("*a*a*a*a*a*a*a*a*a*a*a*b", text));
    std::vector<std::string> names(200, "a"), pattern;
    for (int i = 0; i < 30; ++i) {
        pattern.insert(pattern.end(), {"**", "a"});
    }
    pattern.emplace_back("b");
    EXPECT_FALSE(utils::MatchPath(pattern, names));
}

TEST(Glob, Braces) {
    EXPECT_EQ(utils::ExpandBraces("x"), (Names{"x"}));
    EXPECT_EQ(utils::ExpandBraces("{a,b}.c"), (Names{"a.c", "b.c"}));
    EXPECT_EQ(utils::ExpandBraces("{a,b{1,2}}{,.c}"), (Names{"a", "a.c", "b1", "b1.c", "b2", "b2.c"}));
    EXPECT_EQ(utils::ExpandBraces("[{]"), (Names{"[{]"}));
}

TEST(Glob, Distance) {
    EXPECT_EQ(utils::GlobDistance("kitten", "sitting"), 3U);  // Levenshtein's own measure
    EXPECT_EQ(utils::GlobDistance("", "abc"), 3U);
    EXPECT_EQ(utils::GlobDistance("abc", ""), 3U);
    EXPECT_EQ(utils::GlobDistance("blocks.*.atn", "blocks.10.attn"), 1U);
    EXPECT_EQ(utils::GlobDistance("a?c", "abc"), 0U);
    EXPECT_EQ(utils::GlobDistance("*", "abc"), 0U);
    EXPECT_EQ(utils::GlobDistance("*", "a.bc"), 1U);
    EXPECT_EQ(utils::GlobDistance("**", "a.bc"), 0U);
}

TEST(ModulePattern, SelectsByPath) {
    TinyTransformer model;
    EXPECT_EQ(Matched(model, "blocks.*.attn"), (Names{"blocks.0.attn", "blocks.1.attn"}));
    EXPECT_EQ(Matched(model, "*"), (Names{"embed", "blocks", "head"}));
    EXPECT_EQ(Matched(model, ""), (Names{""}));
    EXPECT_EQ(Matched(model, "blocks.1.{norm,mlp}"), (Names{"blocks.1.norm", "blocks.1.mlp"}));
    EXPECT_EQ(Matched(model, "blocks.[1-9].mlp.*"), (Names{"blocks.1.mlp.0", "blocks.1.mlp.1", "blocks.1.mlp.2"}));
    EXPECT_EQ(Matched(model, "blocks.0.**"),
              (Names{"blocks.0", "blocks.0.norm", "blocks.0.attn", "blocks.0.attn.qkv", "blocks.0.attn.mix",
                     "blocks.0.mlp", "blocks.0.mlp.0", "blocks.0.mlp.1", "blocks.0.mlp.2"}));
    EXPECT_EQ(utils::MatchModules(model, "**").size(), model.NamedModules().size());
    EXPECT_EQ(utils::MatchModules(model, "head")[0].second, model.module("head"));
}

TEST(ModulePattern, SelectsByType) {
    TinyTransformer model;
    EXPECT_EQ(Matched(model, ":Attention"), (Names{"blocks.0.attn", "blocks.1.attn"}));
    EXPECT_EQ(Matched(model, "blocks.0.**:{Linear,*Norm}"),
              (Names{"blocks.0.norm", "blocks.0.attn.qkv", "blocks.0.attn.mix", "blocks.0.mlp.0", "blocks.0.mlp.2"}));
    EXPECT_EQ(Matched(model, utils::ModuleSelector::OfType<nn::Linear>("blocks.1.**")),
              (Names{"blocks.1.attn.qkv", "blocks.1.attn.mix", "blocks.1.mlp.0", "blocks.1.mlp.2"}));
    // By dynamic_cast: a base class selects what derives from it.
    EXPECT_EQ(Matched(model, utils::ModuleSelector::OfType<nn::NumberedModules>()),
              (Names{"blocks", "blocks.0.mlp", "blocks.1.mlp"}));
    Names linears;
    for (const auto &[path, linear] : utils::ModulesOfType<nn::Linear>(model)) {
        linears.push_back(path + " " + std::to_string(linear->in_features()));
    }
    EXPECT_EQ(linears,
              (Names{"blocks.0.attn.qkv 8", "blocks.0.attn.mix 8", "blocks.0.mlp.0 8", "blocks.0.mlp.2 16",
                     "blocks.1.attn.qkv 8", "blocks.1.attn.mix 8", "blocks.1.mlp.0 8", "blocks.1.mlp.2 16", "head 8"}));
    EXPECT_TRUE(utils::ModulesOfType<nn::Dropout>(model).empty());
}

TEST(ModulePattern, SelectsBySeveralPatternsAndByPredicate) {
    TinyTransformer model;
    EXPECT_EQ(Matched(model, {"head", "embed"}), (Names{"embed", "head"}));
    EXPECT_EQ(Matched(model, {"blocks.0.**", "!**:Linear", "!blocks.0"}),
              (Names{"blocks.0.norm", "blocks.0.attn", "blocks.0.mlp", "blocks.0.mlp.1"}));
    EXPECT_EQ(Matched(model, [](const std::string &path,
                                const nn::Module &module) { return module.has_parameter("bias") && path.size() < 5; }),
              (Names{"head"}));
}

TEST(ModulePattern, SharedModulesAreFoundUnderEachPathButOnce) {
    auto shared = std::make_shared<nn::Relu>();
    auto model = test::MakeModule([](const TensorList &inputs) { return inputs; }, "Net");
    model->RegisterModule("first", shared);
    model->RegisterModule("second", shared);
    EXPECT_EQ(Matched(*model, "second"), (Names{"second"}));
    EXPECT_EQ(Matched(*model, "*"), (Names{"first"}));
    EXPECT_TRUE(utils::MatchModules(*model, utils::ModuleSelector({"*", "!second"}).Optional()).empty());
}

TEST(ModulePattern, NoMatchNamesWhatIsNear) {
    TinyTransformer model;
    const auto text = Thrown<IndexError>([&] { utils::MatchModules(model, "blocks.*.atn"); });
    EXPECT_EQ(text,
              "MatchModules: no module of Transformer matches 'blocks.*.atn'; near are: blocks.0.attn (Attention), "
              "blocks.1.attn (Attention), blocks.0.mlp (Sequential), blocks.1.mlp (Sequential), blocks.0 (Block)");
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] { utils::MatchModules(model, ":Linaer"); }),
                         "near are: blocks.0.attn.qkv (Linear), "));
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] {
                             utils::MatchModules(model, {"head", "haed"});
                         }),
                         "matches 'haed'"))
        << "each pattern has to match something";
    EXPECT_TRUE(Contains(Thrown<IndexError>([&] { utils::MatchModules(model, {"**", "!nothing"}); }), "'nothing'"));
    EXPECT_TRUE(
        Contains(Thrown<IndexError>([&] { utils::MatchModules(model, utils::ModuleSelector::OfType<nn::Dropout>()); }),
                 "no module of Transformer matches '**' and is of the C++ type asked for; near are: "));
    EXPECT_TRUE(utils::MatchModules(model, utils::ModuleSelector("nothing").Optional()).empty());
    EXPECT_TRUE(utils::MatchModules(model, utils::ModuleSelector::OfType<nn::Dropout>().Optional()).empty());
}

TEST(ModulePattern, Malformed) {
    for (const char *pattern :
         {"a[bc", "[!]", "{a,b", "a}", "a..b", ".a", "a.", "a**b", "blocks.a**", "[a.b]", ":{Linear", "{a}}"}) {
        EXPECT_FALSE(Thrown<ValueError>([&] { utils::ModuleSelector selector(pattern); }).empty()) << pattern;
    }
    EXPECT_FALSE(Thrown<ValueError>([] { utils::ModuleSelector selector("!a"); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { utils::ModuleSelector selector(Names{}); }).empty());
    std::string bomb;
    for (int i = 0; i < 40; ++i) {
        bomb += "{a,b}";
    }
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { utils::ModuleSelector selector(bomb); }), "more than 1024"));
}

TEST(ModulePattern, HooksOfAllKindsOnATree) {
    TinyTransformer model;
    std::vector<std::string> log;
    {
        auto hooks = utils::RegisterHooks(
            model, "blocks.*.attn",
            utils::ForwardPre([&](nn::Module *module, const TensorList &) { log.push_back("pre " + module->path()); }),
            utils::ForwardPost([&](nn::Module *module, const TensorList &, const TensorList &) {
                log.push_back("post " + module->path());
            }),
            utils::BackwardPre(
                [&](nn::Module *module, const TensorList &) { log.push_back("backward pre " + module->path()); }),
            utils::BackwardPost([&](nn::Module *module, const TensorList &,
                                    const TensorList &) { log.push_back("backward post " + module->path()); },
                                {.name = "last"}));
        EXPECT_EQ(hooks.size(), 8U);
        EXPECT_EQ(hooks.handles()[3]->Name(), "last");
        const auto tokens = Tensor::FromVector<int64_t>({1, 2, 3}, {{1, 3}});
        model({tokens})[0]->Sum()->Backward();
        EXPECT_EQ(log, (Names{"pre blocks.0.attn", "post blocks.0.attn", "pre blocks.1.attn", "post blocks.1.attn",
                              "backward pre blocks.1.attn", "backward post blocks.1.attn", "backward pre blocks.0.attn",
                              "backward post blocks.0.attn"}));
        hooks.Disable();
        model({tokens});
        EXPECT_EQ(log.size(), 8U);
    }
    model({Tensor::FromVector<int64_t>({1}, {{1, 1}})});
    EXPECT_EQ(log.size(), 8U);
}

TEST(ModulePattern, HooksReplaceAsThoseOfTheModuleDo) {
    auto model = std::make_shared<nn::Sequential>(std::make_shared<nn::Relu>(), std::make_shared<nn::Relu>());
    // A single tensor, an optional list and a mutable callable, whose copies count on their own.
    auto hooks = utils::RegisterHooks(
        *model, ":Relu", utils::ForwardPre([](nn::Module *, const TensorList &inputs) { return inputs[0]->Add(1); }),
        utils::ForwardPost([n = 0](nn::Module *, const TensorList &, const TensorList &outputs) mutable -> HookResult {
            ++n;
            return TensorList{outputs[0]->Mul(n)};
        }));
    EXPECT_EQ(Values((*model)({test::Of({1, 2})})[0]), (Floats{3, 4}));
    EXPECT_EQ(Values((*model)({test::Of({1, 2})})[0]), (Floats{10, 14}));  // 2 * (2 * (x + 1) + 1)
}

TEST(ModulePattern, NothingIsRegisteredIfNothingMatches) {
    TinyTransformer model;
    const auto nothing = [](nn::Module *, const TensorList &) {};
    EXPECT_FALSE(Thrown<IndexError>([&] {
                     auto hooks = utils::RegisterHooks(model, {"head", "nosuch"}, utils::ForwardPre(nothing));
                 }).empty());
    EXPECT_EQ(
        utils::RegisterHooks(model, utils::ModuleSelector("nosuch").Optional(), utils::ForwardPre(nothing)).size(), 0U);
}

}  // namespace
}  // namespace infini_train
