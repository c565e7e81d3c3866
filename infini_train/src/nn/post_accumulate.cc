#include "infini_train/src/nn/post_accumulate.h"

#include <unordered_set>
#include <utility>

#include "infini_train/include/autograd/accumulate.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"

namespace infini_train::nn {

using autograd::AfterLeaf;
using autograd::GraphTask;
using infini_train::internal::HookState;

struct PostAccumulateWatch::Pass {
    bool begun = false;
    bool accumulated = false;  // whether any gradient was
    size_t modules = 0;        // in the tree: an inner module has fewer than an outer one
    std::unordered_set<const Tensor *> pending;
};

PostAccumulateWatch::PostAccumulateWatch(Module *module, std::weak_ptr<const bool> alive,
                                         std::weak_ptr<ModuleHooks> hooks)
    : module_(module), alive_(std::move(alive)), hooks_(std::move(hooks)) {}

PostAccumulateWatch::~PostAccumulateWatch() {
    Unsubscribe();
}

std::shared_ptr<Module> PostAccumulateWatch::FindModule() {
    std::lock_guard lock(mutex_);
    if (!is_shared_ && !alive_.expired()) {
        shared_ = module_->weak_from_this();
        is_shared_ = !shared_.expired();
    }
    if (is_shared_) {
        return shared_.lock();
    }
    return alive_.expired() ? nullptr : std::shared_ptr<Module>(std::shared_ptr<void>(), module_);
}

bool PostAccumulateWatch::Subscribe(const void *to, const std::function<std::shared_ptr<HookHandle>()> &subscribe) {
    std::lock_guard lock(mutex_);
    auto &handle = subscriptions_[to];
    if (handle != nullptr && handle->IsActive()) {
        return false;
    }
    handle = subscribe();
    if (subscriptions_.size() > tidy_at_) {
        std::erase_if(subscriptions_, [](const auto &entry) { return !entry.second->IsActive(); });
        tidy_at_ = 2 * subscriptions_.size();
    }
    return true;
}

void PostAccumulateWatch::Unsubscribe() {
    decltype(subscriptions_) subscriptions;
    {
        std::lock_guard lock(mutex_);
        subscriptions.swap(subscriptions_);
    }
    for (const auto &[to, handle] : subscriptions) {
        handle->Remove();
    }
}

void PostAccumulateWatch::Start(Module &module) {
    SubscribeTo(module);
    Listen(module);
}

bool PostAccumulateWatch::SubscribeTo(Module &module) {
    return Subscribe(&module, [&] {
        return module.hooks_->post_accumulate.Get().watchers.Add([weak = weak_from_this()](Module *told) {
            if (const auto watch = weak.lock()) {
                watch->Listen(*told);
            }
        });
    });
}

void PostAccumulateWatch::Listen(Module &module) {
    if (&module == module_) {
        FindModule();
    }
    for (const auto &[name, parameter] : module.parameters_) {
        if (parameter == nullptr || !parameter->requires_grad() || !parameter->is_leaf()) {
            continue;
        }
        const Tensor *leaf = parameter.get();
        Subscribe(leaf, [&] {
            auto &watchers = autograd::GetMeta(*leaf)->leaf_hooks->watchers.Get();
            return watchers.Add([weak = weak_from_this(), leaf](GraphTask &task, bool accumulated, auto *after) {
                if (const auto watch = weak.lock()) {
                    watch->OnLeaf(leaf, task, accumulated, after);
                }
            });
        });
    }
    for (const auto &[name, child] : module.children_) {
        if (SubscribeTo(*child)) {
            Listen(*child);
        }
    }
}

void PostAccumulateWatch::Begin(Module &module, const Tensor *leaf, const GraphTask &task, Pass *pass) {
    pass->begun = true;
    module.Visit("", [&](const std::string &, Module &inner) {
        ++pass->modules;
        Listen(inner);  // the pass may come to parameters that are new
        for (const auto &[name, parameter] : inner.parameters_) {
            if (parameter == nullptr) {
                continue;
            }
            const auto accumulator = autograd::FindAccumulator(*parameter);
            if (parameter.get() == leaf || (accumulator != nullptr && task.Awaits(*accumulator))) {
                pass->pending.insert(parameter.get());
            }
        }
    });
}

void PostAccumulateWatch::OnLeaf(const Tensor *leaf, GraphTask &task, bool accumulated, std::vector<AfterLeaf> *after) {
    const auto module = FindModule();
    const auto hooks = hooks_.lock();
    if (module == nullptr || hooks == nullptr || hooks->post_accumulate.Get().hooks.empty()) {
        Unsubscribe();
        return;
    }
    auto &pass = task.KeptFor<Pass>(key_);
    if (!pass.begun) {
        Begin(*module, leaf, task, &pass);
    }
    if (pass.pending.erase(leaf) == 0) {
        return;
    }
    pass.accumulated = pass.accumulated || accumulated;
    if (pass.pending.empty() && pass.accumulated) {
        after->push_back(
            {pass.modules, [self = shared_from_this(), last_id = task.last_hook_id()] { self->Run(last_id); }});
    }
}

void PostAccumulateWatch::Run(uint64_t last_id) {
    const auto module = FindModule();
    const auto hooks = hooks_.lock();
    if (module == nullptr || hooks == nullptr) {
        return;
    }
    hooks->post_accumulate.Get().hooks.ForEach(last_id, [&](const ModuleHook &hook, const HookState &state) {
        const auto describe = [&] {
            return fmt::format("post-accumulate hook{} of {}", autograd::QuotedName(state), module->Describe());
        };
        WithContext(describe, [&] { hook(module.get()); });
    });
}

std::shared_ptr<HookHandle> Module::RegisterPostAccumulateGradHook(ModuleHook hook, const HookOptions &options) {
    if (hook == nullptr) {
        Throw<ValueError>("{}: expected a post-accumulate hook to call, got an empty function", Describe());
    }
    auto handle = hooks_->post_accumulate.Get().hooks.Add(std::move(hook), options);
    WatchParameters();
    return handle;
}

void Module::WatchParameters() {
    PostAccumulateHooks &hooks = hooks_->post_accumulate.Get();
    std::shared_ptr<PostAccumulateWatch> watch;
    {
        std::lock_guard lock(hooks.mutex);
        if (hooks.watch == nullptr) {
            hooks.watch = std::make_shared<PostAccumulateWatch>(this, alive_, hooks_);
        }
        watch = hooks.watch;
    }
    watch->Start(*this);
}

void Module::TellWatchers() {
    if (hooks_->IsWatched()) {
        hooks_->post_accumulate.Find()->watchers.ForEach(
            UINT64_MAX, [this](const ModuleHook &tell, const HookState &) { tell(this); });
    }
}

}  // namespace infini_train::nn
