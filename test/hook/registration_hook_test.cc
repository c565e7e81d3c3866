// Hooks on the registration of parameters, buffers and modules. The order is that of PyTorch's
// torch.nn.modules.module.register_module_*_registration_hook.

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/global_module_hook_registry.h"

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

auto &Registry() {
    return utils::GlobalModuleHookRegistry::Instance();
}

std::shared_ptr<test::Lambda> Empty(const std::string &type = "M") {
    return MakeModule([](const TensorList &x) { return x; }, type);
}

TEST(RegistrationHook, SeesEveryPartBeforeItIsThere) {
    Log log;
    HookGroup group;
    group.Add(Registry().RegisterParameterRegistrationHook(
        [&](nn::Module *module, const std::string &name, const TensorPtr &parameter) {
            EXPECT_FALSE(module->has_parameter(name));
            log.push_back(module->type() + " parameter " + name + " " + std::to_string(parameter->NumElements()));
        }));
    group.Add(Registry().RegisterBufferRegistrationHook(
        [&](nn::Module *module, const std::string &name, const TensorPtr &buffer) {
            log.push_back(module->type() + " buffer " + name + " " + std::to_string(buffer->NumElements()));
        }));
    group.Add(Registry().RegisterModuleRegistrationHook(
        [&](nn::Module *module, const std::string &name, const std::shared_ptr<nn::Module> &child) {
            log.push_back(module->type() + " module " + name + " " + child->type());
        }));
    const auto norm = Empty("Norm");
    norm->RegisterBuffer("mean", Of({1, 2, 3}));
    norm->RegisterBuffer("none", nullptr);
    const auto net = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
        std::make_shared<nn::Linear>(2, 3, /*bias=*/false, test::TestDevice()), norm});
    EXPECT_EQ(log, (Log{"Norm buffer mean 3", "Linear parameter weight 6", "Sequential module 0 Linear",
                        "Sequential module 1 Norm"}));
    EXPECT_EQ(net->size(), 2U);
    EXPECT_EQ(log.size(), 4U);
    log.clear();
    const auto linear =
        std::make_shared<nn::Linear>(1, 1, /*bias=*/true, test::TestDevice())->Clone();  // copying registers nothing
    EXPECT_EQ(log, (Log{"Linear parameter weight 1", "Linear parameter bias 1"}));
    group.Remove();
    Empty()->RegisterParameter("w", Leaf(1));
    EXPECT_EQ(log.size(), 2U);
}

TEST(RegistrationHook, ReplacesEachSeeingTheOneBefore) {
    HookGroup group;
    group.Add(
        Registry().RegisterParameterRegistrationHook([](nn::Module *, const std::string &, const TensorPtr &parameter) {
            return parameter->Detach()->Mul(2)->RequiresGrad();
        }));
    group.Add(Registry().RegisterParameterRegistrationHook(
        [](nn::Module *, const std::string &name, const TensorPtr &parameter) {
            return name == "w" ? parameter->Detach()->Add(1)->RequiresGrad() : nullptr;
        }));
    group.Add(Registry().RegisterBufferRegistrationHook(
        [](nn::Module *, const std::string &, const TensorPtr &buffer) { return buffer->Mul(-1); }));
    const auto module = Empty();
    const auto w = module->RegisterParameter("w", Leaf({1, 2}));
    EXPECT_EQ(w, module->parameter("w"));
    EXPECT_EQ(Values(w), (Floats{3, 5}));
    EXPECT_TRUE(w->requires_grad());
    EXPECT_EQ(Values(module->RegisterParameter("v", Leaf(4))), (Floats{8}));
    module->RegisterBuffer("b", Of({7}));
    EXPECT_EQ(Values(module->buffer("b")), (Floats{-7}));
    module->RegisterParameter("none", nullptr);
    EXPECT_FALSE(module->has_parameter("none"));
}

// A wrapper in the place of every Linear, as a quantiser or an adapter would do it.
TEST(RegistrationHook, WrapsModules) {
    ScopedHook hook(Registry().RegisterModuleRegistrationHook(
        [](nn::Module *module, const std::string &,
           const std::shared_ptr<nn::Module> &child) -> std::shared_ptr<nn::Module> {
            if (child->type() != nn::Linear::kType || module->type() == "Twice") {
                return nullptr;
            }
            auto wrapper = MakeModule([child](const TensorList &x) { return TensorList{(*child)(x)[0] * 2}; }, "Twice");
            wrapper->RegisterModule("inner", child);
            return wrapper;
        }));
    auto net = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
        std::make_shared<nn::Linear>(1, 1, /*bias=*/false, test::TestDevice())});
    net->module("0.inner")->parameter("weight")->Detach()->Fill_(3);
    EXPECT_EQ(net->module("0")->type(), "Twice");
    EXPECT_EQ(Values((*net)({Of({5}, {1, 1})})[0]), (Floats{30}));
}

TEST(RegistrationHook, WrongReplacementsAndExceptions) {
    const auto module = Empty();
    {
        ScopedHook hook(Registry().RegisterParameterRegistrationHook(
            [](nn::Module *, const std::string &, const TensorPtr &parameter) { return parameter * 2; },
            {.name = "twice"}));
        const auto text = Thrown<ValueError>([&] { module->RegisterParameter("w", Leaf(1)); });
        EXPECT_TRUE(Contains(text, "M: parameter 'w' must be a leaf, it is an output of")) << text;
        EXPECT_TRUE(Contains(text, "[parameter registration hook 'twice']")) << text;
        EXPECT_FALSE(module->has_parameter("w"));
    }
    {
        ScopedHook hook(Registry().RegisterModuleRegistrationHook(
            [](nn::Module *, const std::string &, const auto &) -> std::shared_ptr<nn::Module> { return Empty(); }));
        const auto text = Thrown<ValueError>([&] {
            module->RegisterModule("fc", std::make_shared<nn::Linear>(1, 1, /*bias=*/true, test::TestDevice()));
        });
        EXPECT_EQ(text, "M: the module 'fc' must be what it was declared as, got M [module registration hook]");
        EXPECT_TRUE(module->NamedChildren().empty());
        const std::shared_ptr<nn::Module> any = std::make_shared<nn::Linear>(1, 1, /*bias=*/true, test::TestDevice());
        EXPECT_EQ(module->RegisterModule("any", any)->type(), "M");
    }
    {
        ScopedHook hook(Registry().RegisterBufferRegistrationHook(
            [](nn::Module *, const std::string &, const TensorPtr &) { throw std::runtime_error("boom"); }));
        EXPECT_EQ(Thrown<std::runtime_error>([&] { module->RegisterBuffer("b", Of({1})); }),
                  "boom [buffer registration hook]");
    }
    module->RegisterParameter("w", Leaf(1));
    module->RegisterBuffer("b", Of({1}));
    EXPECT_THROW(Registry().RegisterParameterRegistrationHook(
                     std::function<void(nn::Module *, const std::string &, const TensorPtr &)>()),
                 ValueError);
}

TEST(RegistrationHook, TakesTheNameItself) {
    ScopedHook hook(Registry().RegisterParameterRegistrationHook(
        [](nn::Module *module, const std::string &name, const TensorPtr &) {
            static_cast<test::Lambda *>(module)->RegisterBuffer(name, Of({1}));
        }));
    const auto module = Empty();
    EXPECT_EQ(Thrown<ValueError>([&] { module->RegisterParameter("w", Leaf(1)); }),
              "M: the name 'w' of a parameter is taken");
}

TEST(RegistrationHook, OptionsOfHandles) {
    Log log;
    const auto note = [&](const char *text) {
        return [&log, text](nn::Module *, const std::string &, const TensorPtr &) { log.push_back(text); };
    };
    HookGroup group;
    group.Add(Registry().RegisterParameterRegistrationHook(note("a")));
    group.Add(Registry().RegisterParameterRegistrationHook(note("first"), {.prepend = true}));
    group.Add(Registry().RegisterParameterRegistrationHook(note("once"), {.max_calls = 1}));
    const auto module = Empty();
    module->RegisterParameter("w", Leaf(1));
    group.handles()[0]->Disable();
    module->RegisterParameter("v", Leaf(1));
    EXPECT_EQ(log, (Log{"first", "a", "once", "first"}));
}

}  // namespace
}  // namespace infini_train
