#include "infini_train/include/common/hook.h"

#include <algorithm>

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

HookEntryBase::~HookEntryBase() = default;

HookStore::HookStore() : current_(new Entries) {}

HookStore::~HookStore() {
    delete current_.load();
}

HookStore::Reading::Reading(HookStore *store) : store_(store) {
    store->readers_.fetch_add(1);
    entries_ = store->current_.load();
}

HookStore::Reading::~Reading() {
    if (store_->readers_.fetch_sub(1) == 1 && store_->has_leftovers_.load()) {
        store_->FreeLeftovers();
    }
}

template <typename Edit>
void HookStore::Change(Edit &&edit) {
    {
        std::lock_guard lock(mutex_);
        auto entries = std::make_unique<Entries>(*current_.load());
        edit(entries.get());
        leftovers_.reserve(leftovers_.size() + 1);
        size_.store(entries->size(), std::memory_order_release);
        leftovers_.emplace_back(current_.exchange(entries.release()));
        has_leftovers_.store(true);
    }
    FreeLeftovers();
}

void HookStore::Insert(std::shared_ptr<const HookEntryBase> entry, bool prepend) {
    Change([&](Entries *entries) { entries->insert(prepend ? entries->begin() : entries->end(), std::move(entry)); });
}

void HookStore::InsertCopies(HookStore *other) {
    const Reading reading(other);
    Change([&](Entries *entries) {
        for (const auto &entry : reading.entries()) {
            const HookOptions options{entry->state->name, false, entry->state->always_call,
                                      entry->state->enabled.load(), entry->state->max_calls};
            entries->push_back(entry->CopyAs(std::make_shared<HookState>(NextHookId(), options)));
        }
    });
}

void HookStore::Erase(const HookState *state) {
    Change([&](Entries *entries) {
        std::erase_if(*entries, [&](const auto &entry) { return entry->state.get() == state; });
    });
}

bool HookStore::CountCall(HookState *state) {
    const uint64_t call = state->calls.fetch_add(1, std::memory_order_relaxed) + 1;
    if (state->max_calls == 0 || call < state->max_calls) {
        return true;
    }
    if (call > state->max_calls) {
        return false;
    }
    if (!state->removed.exchange(true)) {
        Erase(state);
    }
    return true;
}

void HookStore::Abandon(const std::shared_ptr<HookStore> &self) {
    if (readers_.load() != 0) {
        {
            std::lock_guard lock(mutex_);
            self_ = self;
            has_leftovers_.store(true);
        }
        FreeLeftovers();
    }
}

void HookStore::FreeLeftovers() {
    // Freed after the lock: a hook's captures may do anything when they go.
    std::vector<std::unique_ptr<const Entries>> leftovers;
    std::shared_ptr<HookStore> self;
    std::lock_guard lock(mutex_);
    if (readers_.load() == 0) {
        leftovers = std::exchange(leftovers_, {});
        self = std::exchange(self_, nullptr);
        has_leftovers_.store(false);
    }
}

void HookEntryHandle::Remove() {
    if (!state_->removed.exchange(true)) {
        if (auto store = store_.lock()) {
            store->Erase(state_.get());
        }
    }
}

}  // namespace infini_train::internal
