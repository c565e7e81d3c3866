#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/module_hook.h"

#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/autograd/meta.h"

namespace infini_train::nn {

/// Listens to the parameters of a module's tree for its post-accumulate hooks. At the first leaf that a pass is through
/// with, it asks which others the pass is still to come to, and waits for those. It also listens to the modules of the
/// tree, since parameters and modules may be added or replaced: each is looked at again when it is called.
class PostAccumulateWatch : public std::enable_shared_from_this<PostAccumulateWatch> {
public:
    /// `alive` expires with the module, `hooks` are the module's.
    PostAccumulateWatch(Module *module, std::weak_ptr<const bool> alive, std::weak_ptr<ModuleHooks> hooks);
    ~PostAccumulateWatch();
    PostAccumulateWatch(const PostAccumulateWatch &) = delete;
    PostAccumulateWatch &operator=(const PostAccumulateWatch &) = delete;

    /// Listens to all that is in the tree.
    void Start(Module &module);

private:
    struct Pass;  // what is known of one pass

    std::shared_ptr<Module> FindModule();
    bool Subscribe(const void *to, const std::function<std::shared_ptr<HookHandle>()> &subscribe);
    bool SubscribeTo(Module &module);
    void Unsubscribe();
    void Listen(Module &module);
    void OnLeaf(const Tensor *leaf, autograd::GraphTask &task, bool accumulated,
                std::vector<autograd::AfterLeaf> *after);
    void Begin(Module &module, const Tensor *leaf, const autograd::GraphTask &task, Pass *pass);
    void Run(uint64_t last_id);

    const uint64_t key_ = autograd::GraphTask::NewKey();
    Module *const module_;
    const std::weak_ptr<const bool> alive_;
    const std::weak_ptr<ModuleHooks> hooks_;
    std::mutex mutex_;              // guards what follows
    std::weak_ptr<Module> shared_;  // the module as soon as it is known to be owned by shared pointers
    bool is_shared_ = false;
    std::unordered_map<const void *, std::shared_ptr<HookHandle>> subscriptions_;  // by leaf or module
    size_t tidy_at_ = 64;
};

}  // namespace infini_train::nn
