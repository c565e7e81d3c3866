#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

/// Hooks of modules, functions and tensors share what is here: the handle that a registration returns, and the list
/// that holds the hooks and runs them.
///
///     auto handle = module->RegisterForwardPostHook([](nn::Module *module, const TensorList &in, const TensorList
///     &out) {
///         std::cout << module->type() << " gave " << out.size() << " tensors\n";
///     });
///     ...
///     handle->Remove();
namespace infini_train {

/// Names a registered hook. Dropping the handle leaves the hook in place; it may outlive what it was registered on. All
/// methods are safe from any thread, also while the hook runs, and do nothing once the hook is gone.
class INFINI_TRAIN_EXPORT HookHandle {
public:
    virtual ~HookHandle() = default;

    /// Takes the hook off. It is skipped from now on, also by a pass that is under way.
    virtual void Remove() = 0;

    /// Skips the hook until Enable, without losing its place in the order.
    virtual void Disable() {}
    virtual void Enable() {}
    /// False once removed, or while disabled.
    virtual bool IsActive() const { return false; }
    /// The name given at registration, else empty.
    virtual std::string Name() const { return {}; }
    /// How often the hook has been called.
    virtual uint64_t Calls() const { return 0; }
};

/// What may be said at a hook's registration.
struct HookOptions {
    std::string name = {};     ///< stands in error messages
    bool prepend = false;      ///< runs before those that are registered already
    bool always_call = false;  ///< runs also when the hooked thing threw; see docs/hooks.md
    bool enabled = true;       ///< whether it starts enabled
    uint64_t max_calls = 0;    ///< removes itself after so many calls; 0 means never
};

/// What a hook over a list of tensors says: nothing (unchanged), or the list that takes the place of what it was given.
using HookResult = std::optional<TensorList>;

namespace internal {

/// Ids grow with every registration anywhere, so that a pass can tell the hooks that were added after it began.
INFINI_TRAIN_EXPORT uint64_t NextHookId();
INFINI_TRAIN_EXPORT uint64_t LatestHookId();

struct HookState {
    HookState(uint64_t id, const HookOptions &options)
        : id(id),
          max_calls(options.max_calls),
          always_call(options.always_call),
          name(options.name),
          enabled(options.enabled) {}

    bool IsWaiting() const {
        return !removed.load(std::memory_order_acquire) && enabled.load(std::memory_order_acquire);
    }

    const uint64_t id;
    const uint64_t max_calls;
    const bool always_call;
    const std::string name;
    std::atomic<bool> enabled;
    std::atomic<bool> removed{false};
    std::atomic<uint64_t> calls{0};
};

// A registered hook; what it is beyond that only its list knows.
struct INFINI_TRAIN_EXPORT HookEntryBase {
    explicit HookEntryBase(std::shared_ptr<HookState> state) : state(std::move(state)) {}
    virtual ~HookEntryBase();
    // The same hook registered once more.
    virtual std::shared_ptr<const HookEntryBase> CopyAs(std::shared_ptr<HookState> copy) const = 0;

    const std::shared_ptr<HookState> state;
};

template <typename HookType>
struct HookEntry : HookEntryBase {
    HookEntry(std::shared_ptr<HookState> state, HookType hook)
        : HookEntryBase(std::move(state)), hook(std::move(hook)) {}
    std::shared_ptr<const HookEntryBase> CopyAs(std::shared_ptr<HookState> copy) const override {
        return std::make_shared<HookEntry>(std::move(copy), hook);
    }

    const HookType hook;
};

// The hooks of one list, of whatever type. It is copied on every change; who runs it reads the copy that was current
// when it began, and only counts itself as a reader, since running hooks must be cheap. What changes leave behind is
// freed once nobody reads.
class INFINI_TRAIN_EXPORT HookStore {
public:
    using Entries = std::vector<std::shared_ptr<const HookEntryBase>>;

    /// The entries that were current at the beginning of the scope; the store lives as long.
    class INFINI_TRAIN_EXPORT Reading {
    public:
        explicit Reading(HookStore *store);
        ~Reading();
        Reading(const Reading &) = delete;
        Reading &operator=(const Reading &) = delete;

        const Entries &entries() const { return *entries_; }

    private:
        HookStore *const store_;
        const Entries *entries_;
    };

    HookStore();
    ~HookStore();
    HookStore(const HookStore &) = delete;
    HookStore &operator=(const HookStore &) = delete;

    size_t size() const { return size_.load(std::memory_order_acquire); }

    void Insert(std::shared_ptr<const HookEntryBase> entry, bool prepend);
    /// Appends the hooks that `other` has, under states of their own.
    void InsertCopies(HookStore *other);
    void Erase(const HookState *state);

    /// Whether the hook of `state` runs once it has been reached: counts the call, and takes the hook off at its last.
    bool CountCall(HookState *state);

    /// The owner goes: `self` is let go of once nobody reads.
    void Abandon(const std::shared_ptr<HookStore> &self);

private:
    // Calls `edit(&entries)` on a copy, which then becomes the current one.
    template <typename Edit>
    void Change(Edit &&edit);
    void FreeLeftovers();

    std::atomic<const Entries *> current_;  // owned
    std::atomic<size_t> size_{0};
    std::atomic<size_t> readers_{0};
    // Set before `readers_` is looked at, as readers leave before they look at it: one of the two sees the other.
    std::atomic<bool> has_leftovers_{false};
    std::mutex mutex_;  // guards changes and what follows
    std::vector<std::unique_ptr<const Entries>> leftovers_;
    std::shared_ptr<HookStore> self_;
};

// The handle of an entry. It holds neither the hook nor what the hook is registered on.
class INFINI_TRAIN_EXPORT HookEntryHandle : public HookHandle {
public:
    HookEntryHandle(std::weak_ptr<HookStore> store, std::shared_ptr<HookState> state)
        : store_(std::move(store)), state_(std::move(state)) {}

    void Remove() override;
    void Disable() override { state_->enabled.store(false); }
    void Enable() override { state_->enabled.store(true); }
    bool IsActive() const override { return !state_->removed.load() && state_->enabled.load() && !store_.expired(); }
    std::string Name() const override { return state_->name; }
    uint64_t Calls() const override { return state_->calls.load(); }

private:
    std::weak_ptr<HookStore> store_;
    std::shared_ptr<HookState> state_;
};

template <typename T>
struct IsStdFunction : std::false_type {};
template <typename S>
struct IsStdFunction<std::function<S>> : std::true_type {};

template <typename F>
bool IsNullCallable(const F &callable) {
    if constexpr (std::is_pointer_v<F> || IsStdFunction<F>::value) {
        return callable == nullptr;
    } else {
        return false;
    }
}

}  // namespace internal

/// The handle of a hook of the type: the same class for all.
template <typename HookType>
using HookHandleImpl = internal::HookEntryHandle;

/// The hooks of one kind that are registered on one thing, in the order in which they run. Registering, removing and
/// running are safe from several threads at once. A copy holds the same hooks under handles of nobody.
template <typename HookType>
class HookList {
public:
    HookList() : store_(std::make_shared<internal::HookStore>()) {}
    ~HookList() { store_->Abandon(store_); }
    HookList(const HookList &other) : HookList() { store_->InsertCopies(other.store_.get()); }
    HookList &operator=(const HookList &) = delete;

    bool empty() const { return store_->size() == 0; }
    size_t size() const { return store_->size(); }

    std::shared_ptr<HookHandle> Add(HookType hook, const HookOptions &options = {}) {
        auto state = std::make_shared<internal::HookState>(internal::NextHookId(), options);
        store_->Insert(std::make_shared<internal::HookEntry<HookType>>(state, std::move(hook)), options.prepend);
        return std::make_shared<internal::HookEntryHandle>(store_, std::move(state));
    }

    /// Calls `visit(hook, state)` for each hook that is enabled, not removed, and registered no later than `last_id`
    /// (hooks that a pass adds wait for the next pass).
    template <typename Visit>
    void ForEach(uint64_t last_id, Visit &&visit) const {
        ForEachIf(
            last_id, [](const internal::HookState &) { return true; }, std::forward<Visit>(visit));
    }
    /// The same for those alone for which `wanted(state)`.
    template <typename Wanted, typename Visit>
    void ForEachIf(uint64_t last_id, Wanted &&wanted, Visit &&visit) const {
        if (empty()) {
            return;
        }
        // The list may go while its hooks run; what is read lives on.
        internal::HookStore *const store = store_.get();
        const internal::HookStore::Reading reading(store);
        for (const auto &entry : reading.entries()) {
            internal::HookState &state = *entry->state;
            if (state.id <= last_id && state.IsWaiting() && wanted(std::as_const(state)) && store->CountCall(&state)) {
                visit(static_cast<const internal::HookEntry<HookType> &>(*entry).hook, std::as_const(state));
            }
        }
    }

private:
    std::shared_ptr<internal::HookStore> store_;
};

namespace internal {

/// Turns any callable over `Args` into one that returns a HookResult. The callable may return nothing, a TensorList
/// (empty: unchanged), an optional one, or a tensor (null: unchanged) where the list has one element.
template <typename... Args, typename F>
std::function<HookResult(Args...)> MakeListHook(F &&callable) {
    using Callable = std::decay_t<F>;
    static_assert(std::is_invocable_v<Callable &, Args...>,
                  "the hook can't be called with what this kind of hook gets");
    using R = std::invoke_result_t<Callable &, Args...>;
    if (IsNullCallable<Callable>(callable)) {
        throw ValueError("Hook: expected a callable, got an empty function");
    }
    if constexpr (std::is_void_v<R>) {
        return [callable = Callable(std::forward<F>(callable))](Args... args) mutable -> HookResult {
            callable(args...);
            return std::nullopt;
        };
    } else if constexpr (std::is_same_v<R, HookResult>) {
        return Callable(std::forward<F>(callable));
    } else {
        static_assert(std::is_convertible_v<R, TensorList> || std::is_convertible_v<R, TensorPtr>,
                      "a hook returns nothing, a tensor, a list of tensors or an optional list");
        return [callable = Callable(std::forward<F>(callable))](Args... args) mutable -> HookResult {
            if constexpr (std::is_convertible_v<R, TensorList>) {
                TensorList list = callable(args...);
                return list.empty() ? HookResult() : HookResult(std::move(list));
            } else {
                TensorPtr tensor = callable(args...);
                return tensor == nullptr ? HookResult() : HookResult(TensorList{std::move(tensor)});
            }
        };
    }
}

}  // namespace internal

/// Removes its hook at the end of the scope, also when that is left by an exception.
class INFINI_TRAIN_EXPORT ScopedHook {
public:
    ScopedHook() = default;
    explicit ScopedHook(std::shared_ptr<HookHandle> handle) : handle_(std::move(handle)) {}
    ~ScopedHook() { Remove(); }
    ScopedHook(ScopedHook &&other) noexcept : handle_(std::move(other.handle_)) {}
    ScopedHook &operator=(ScopedHook &&other) noexcept {
        if (this != &other) {
            Remove();
            handle_ = std::move(other.handle_);
        }
        return *this;
    }

    void Remove() {
        if (auto handle = std::exchange(handle_, nullptr)) {
            handle->Remove();
        }
    }
    const std::shared_ptr<HookHandle> &handle() const { return handle_; }

private:
    std::shared_ptr<HookHandle> handle_;
};

/// Several hooks that are disabled, enabled and removed together; removes them at the end of the scope.
class INFINI_TRAIN_EXPORT HookGroup {
public:
    HookGroup() = default;
    ~HookGroup() { Remove(); }
    HookGroup(HookGroup &&) noexcept = default;
    HookGroup &operator=(HookGroup &&other) noexcept {
        if (this != &other) {
            Remove();
            handles_ = std::move(other.handles_);
        }
        return *this;
    }

    void Add(std::shared_ptr<HookHandle> handle) { handles_.push_back(std::move(handle)); }
    size_t size() const { return handles_.size(); }
    const std::vector<std::shared_ptr<HookHandle>> &handles() const { return handles_; }
    void Disable() {
        for (const auto &handle : handles_) {
            handle->Disable();
        }
    }
    void Enable() {
        for (const auto &handle : handles_) {
            handle->Enable();
        }
    }
    void Remove() {
        for (const auto &handle : std::exchange(handles_, {})) {
            handle->Remove();
        }
    }

private:
    std::vector<std::shared_ptr<HookHandle>> handles_;
};

}  // namespace infini_train
