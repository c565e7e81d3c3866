#include "infini_train/include/common/hook.h"

namespace infini_train::internal {
namespace {
std::atomic<uint64_t> latest_hook_id{0};
}  // namespace

uint64_t NextHookId() {
    return latest_hook_id.fetch_add(1, std::memory_order_relaxed) + 1;
}
uint64_t LatestHookId() {
    return latest_hook_id.load(std::memory_order_relaxed);
}

}  // namespace infini_train::internal
