// Hooks on what modules save and load. The order, and what may be edited, are those of PyTorch 2.15's
// register_state_dict_pre_hook, register_state_dict_post_hook, register_load_state_dict_pre_hook and
// register_load_state_dict_post_hook.

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
using test::Leaf;
using test::MakeModule;
using test::Of;
using test::Thrown;
using test::Values;
using Log = std::vector<std::string>;

std::string Keys(const nn::StateDict &state) {
    std::string keys;
    for (const auto &[name, tensor] : state) {
        keys += " " + name;
    }
    return keys;
}

std::shared_ptr<nn::Linear> Linear(float weight) {
    auto linear = std::make_shared<nn::Linear>(1, 1, /*bias=*/false, test::TestDevice());
    linear->parameter("weight")->Detach()->Fill_(weight);
    return linear;
}

// a.weight and b.0.weight
std::shared_ptr<test::Lambda> Net(float a = 1, float b = 2) {
    const auto net = MakeModule([](const TensorList &x) { return x; }, "Net");
    net->RegisterModule("a", Linear(a));
    net->RegisterModule("b", std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{Linear(b)}));
    return net;
}

TEST(StateDictHook, OrderAndPrefixes) {
    const auto net = Net();
    Log log;
    for (const auto &[path, module] : net->NamedModules()) {
        module->RegisterStateDictPreHook(
            [&log](nn::Module *, const std::string &prefix) { log.push_back("save pre '" + prefix + "'"); });
        module->RegisterStateDictPostHook([&log](nn::Module *, nn::StateDict &state, const std::string &prefix) {
            log.push_back("save post '" + prefix + "'" + Keys(state));
        });
        module->RegisterLoadStateDictPreHook([&log](nn::Module *, nn::StateDict &, const std::string &prefix) {
            log.push_back("load pre '" + prefix + "'");
        });
        module->RegisterLoadStateDictPostHook([&log](nn::Module *, nn::LoadReport &, const std::string &prefix) {
            log.push_back("load post '" + prefix + "'");
        });
    }
    const auto state = net->StateDict();
    EXPECT_EQ(log, (Log{"save pre ''", "save pre 'a.'", "save post 'a.' a.weight", "save pre 'b.'", "save pre 'b.0.'",
                        "save post 'b.0.' a.weight b.0.weight", "save post 'b.' a.weight b.0.weight",
                        "save post '' a.weight b.0.weight"}));
    log.clear();
    net->LoadStateDict(state);
    // PyTorch's order among the pre hooks and among the post hooks; here all values are checked and loaded in between.
    EXPECT_EQ(log, (Log{"load pre ''", "load pre 'a.'", "load pre 'b.'", "load pre 'b.0.'", "load post 'a.'",
                        "load post 'b.0.'", "load post 'b.'", "load post ''"}));
}

TEST(StateDictHook, PreHookPreparesTheModule) {
    const auto net = Net();
    net->module("a")->RegisterStateDictPreHook([](nn::Module *module, const std::string &) {
        module->parameter("weight")->Mul_(5);  // unrecorded, or this would be an error
    });
    EXPECT_EQ(Values(net->StateDict().at("a.weight")), (Floats{5}));
}

TEST(StateDictHook, PostHookAddsChangesAndDrops) {
    const auto net = Net();
    net->module("b.0")->RegisterStateDictPostHook([](nn::Module *, nn::StateDict &state, const std::string &prefix) {
        state[prefix + "scale"] = Of({7});
        state[prefix + "weight"] = state.at(prefix + "weight")->Mul(10);
    });
    net->RegisterStateDictPostHook(
        [](nn::Module *, nn::StateDict &state, const std::string &) { state.erase("a.weight"); });
    const auto state = net->StateDict();
    EXPECT_EQ(Keys(state), " b.0.scale b.0.weight");
    EXPECT_EQ(Values(state.at("b.0.scale")), (Floats{7}));
    EXPECT_EQ(Values(state.at("b.0.weight")), (Floats{20}));
    EXPECT_EQ(Values(net->module("b.0")->parameter("weight")), (Floats{2}));
    // A part asked for itself has its own prefix, and what it loads is not what its hooks make of what it saves.
    EXPECT_EQ(Keys(net->module("b")->StateDict()), " 0.scale 0.weight");
    const auto report = net->LoadStateDict(state, /*strict=*/false);
    EXPECT_EQ(report.missing, (Log{"a.weight"}));
    EXPECT_EQ(report.unexpected, (Log{"b.0.scale"}));
}

// The classical use: a checkpoint with the names of an older version.
TEST(StateDictHook, LoadPreHookRenames) {
    const auto net = Net();
    net->module("b.0")->RegisterLoadStateDictPreHook(
        [](nn::Module *, nn::StateDict &state, const std::string &prefix) {
            if (auto entry = state.extract(prefix + "kernel")) {
                entry.key() = prefix + "weight";
                state.insert(std::move(entry));
            }
        },
        {.name = "rename"});
    const nn::StateDict old = {{"a.weight", Of({3}, {1, 1})}, {"b.0.kernel", Of({4}, {1, 1})}};
    const auto report = net->LoadStateDict(old);
    EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
    EXPECT_EQ(Values(net->module("a")->parameter("weight")), (Floats{3}));
    EXPECT_EQ(Values(net->module("b.0")->parameter("weight")), (Floats{4}));
    EXPECT_EQ(Keys(old), " a.weight b.0.kernel");  // the caller's is untouched
}

TEST(StateDictHook, LoadPreHookOfAParentReachesItsChildren) {
    const auto net = Net();
    net->RegisterLoadStateDictPreHook([](nn::Module *, nn::StateDict &state, const std::string &) {
        state.erase("version");
        state["a.weight"] = state.at("a.weight")->Mul(2);
    });
    std::string seen;
    net->module("a")->RegisterLoadStateDictPreHook(
        [&](nn::Module *, nn::StateDict &state, const std::string &) { seen = Keys(state); });
    net->LoadStateDict({{"a.weight", Of({3}, {1, 1})}, {"b.0.weight", Of({4}, {1, 1})}, {"version", Of({1})}});
    EXPECT_EQ(seen, " a.weight b.0.weight");
    EXPECT_EQ(Values(net->module("a")->parameter("weight")), (Floats{6}));
}

TEST(StateDictHook, LoadPostHookClearsWhatIsNoError) {
    const auto net = Net();
    auto handle = net->module("a")->RegisterLoadStateDictPostHook(
        [](nn::Module *module, nn::LoadReport &report, const std::string &prefix) {
            EXPECT_EQ(prefix, "a.");
            EXPECT_EQ(report.missing, (Log{"a.weight"}));
            EXPECT_EQ(report.unexpected, (Log{"extra"}));
            module->parameter("weight")->Fill_(9);
            report.missing.clear();
            report.unexpected.clear();
        });
    const nn::StateDict state = {{"b.0.weight", Of({4}, {1, 1})}, {"extra", Of({1})}};
    const auto report = net->LoadStateDict(state);
    EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
    EXPECT_EQ(Values(net->module("a")->parameter("weight")), (Floats{9}));
    EXPECT_EQ(Values(net->module("b.0")->parameter("weight")), (Floats{4}));
    handle->Remove();
    EXPECT_EQ(Thrown<ValueError>([&] { net->LoadStateDict(state); }),
              "Net: the state dict doesn't fit:\n  missing: a.weight\n  unexpected: extra");
}

TEST(StateDictHook, LoadPostHookSeesTheLoadedValuesAndMayComplain) {
    const auto net = Net();
    net->RegisterLoadStateDictPostHook([](nn::Module *module, nn::LoadReport &report, const std::string &) {
        if (module->module("a")->parameter("weight")->Item<float>() < 0) {
            report.unexpected.push_back("a.weight below 0");
        }
    });
    net->LoadStateDict({{"a.weight", Of({5}, {1, 1})}, {"b.0.weight", Of({6}, {1, 1})}});
    const nn::StateDict bad = {{"a.weight", Of({-1}, {1, 1})}, {"b.0.weight", Of({8}, {1, 1})}};
    EXPECT_EQ(Thrown<ValueError>([&] { net->LoadStateDict(bad); }),
              "Net: the state dict doesn't fit:\n  unexpected: a.weight below 0");
    // Where PyTorch leaves the values of what it refused.
    EXPECT_EQ(Values(net->module("a")->parameter("weight")), (Floats{5}));
    EXPECT_EQ(Values(net->module("b.0")->parameter("weight")), (Floats{6}));
    EXPECT_EQ(net->LoadStateDict(bad, /*strict=*/false).unexpected, (Log{"a.weight below 0"}));
    EXPECT_EQ(Values(net->module("b.0")->parameter("weight")), (Floats{8}));
}

TEST(StateDictHook, ExceptionsNameTheHookAndChangeNothing) {
    const auto net = Net();
    const auto state = Net(10, 20)->StateDict();
    const auto values = [&] {
        return Floats{net->module("a")->parameter("weight")->Item<float>(),
                      net->module("b.0")->parameter("weight")->Item<float>()};
    };
    const auto boom = [] { throw std::runtime_error("boom"); };
    const auto inner = net->module("b.0");
    {
        ScopedHook hook(inner->RegisterStateDictPreHook([&](nn::Module *, const std::string &) { boom(); }));
        EXPECT_EQ(Thrown<std::runtime_error>([&] { net->StateDict(); }), "boom [state dict pre hook of b.0 (Linear)]");
    }
    {
        ScopedHook hook(
            inner->RegisterStateDictPostHook([&](nn::Module *, nn::StateDict &, const std::string &) { boom(); }));
        EXPECT_EQ(Thrown<std::runtime_error>([&] { net->StateDict(); }), "boom [state dict post hook of b.0 (Linear)]");
    }
    {
        ScopedHook hook(inner->RegisterLoadStateDictPreHook(
            [&](nn::Module *, nn::StateDict &, const std::string &) { boom(); }, {.name = "x"}));
        EXPECT_EQ(Thrown<std::runtime_error>([&] { net->LoadStateDict(state); }),
                  "boom [load state dict pre hook 'x' of b.0 (Linear)]");
    }
    {
        ScopedHook hook(
            inner->RegisterLoadStateDictPostHook([&](nn::Module *, nn::LoadReport &, const std::string &) { boom(); }));
        EXPECT_EQ(Thrown<std::runtime_error>([&] { net->LoadStateDict(state); }),
                  "boom [load state dict post hook of b.0 (Linear)]");
    }
    EXPECT_EQ(values(), (Floats{1, 2}));
    net->LoadStateDict(state);
    EXPECT_EQ(values(), (Floats{10, 20}));
    EXPECT_EQ(Thrown<ValueError>([&] { inner->RegisterStateDictPreHook(nullptr); }),
              "b.0 (Linear): expected a state dict hook to call, got an empty function");
}

TEST(StateDictHook, MisfitsAreFoundAfterThePreHooks) {
    const auto net = Net();
    bool post = false;
    net->RegisterLoadStateDictPostHook([&](nn::Module *, nn::LoadReport &, const std::string &) { post = true; });
    net->RegisterLoadStateDictPreHook([](nn::Module *, nn::StateDict &state, const std::string &) {
        state["a.weight"] = Of({1, 2});
    });
    const auto text = Thrown<ValueError>([&] { net->LoadStateDict(Net()->StateDict()); });
    EXPECT_TRUE(Contains(text, "of other dims: a.weight (expected (1, 1), got (2,))")) << text;
    EXPECT_FALSE(post);
}

TEST(StateDictHook, SharedModulesClonesAndHandles) {
    const auto shared = Linear(1);
    const auto net = MakeModule([](const TensorList &x) { return x; }, "Net");
    net->RegisterModule("one", shared);
    net->RegisterModule("two", shared);
    Log prefixes;
    auto handle = shared->RegisterStateDictPostHook(
        [&](nn::Module *, nn::StateDict &, const std::string &prefix) { prefixes.push_back(prefix); },
        {.name = "note"});
    net->StateDict();
    EXPECT_EQ(prefixes, (Log{"one.", "two."}));  // under each name, as it is saved
    EXPECT_EQ(handle->Calls(), 2U);
    handle->Disable();
    net->StateDict();
    EXPECT_EQ(prefixes.size(), 2U);
    handle->Enable();

    const auto copy = shared->Clone();
    handle->Remove();
    prefixes.clear();
    shared->StateDict();
    EXPECT_TRUE(prefixes.empty());
    copy->StateDict();  // a clone has its own
    EXPECT_EQ(prefixes, (Log{""}));
}

// Parts that come into being while the tree is walked are saved and loaded with it.
TEST(StateDictHook, HooksThatRegister) {
    const auto net = Net();
    net->RegisterStateDictPreHook([](nn::Module *module, const std::string &) {
        auto *self = static_cast<test::Lambda *>(module);
        if (!self->has_parameter("late")) {
            self->RegisterParameter("late", Leaf(1));
        }
    });
    net->module("a")->RegisterStateDictPreHook(
        [weak = std::weak_ptr<test::Lambda>(net)](nn::Module *, const std::string &) {
            const auto root = weak.lock();
            if (root->NamedChildren().size() == 2) {
                root->RegisterModule("c", Linear(3));
            }
        });
    EXPECT_EQ(Keys(net->StateDict()), " a.weight b.0.weight c.weight late");
}

}  // namespace
}  // namespace infini_train
