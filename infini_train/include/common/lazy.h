#pragma once

#include <atomic>
#include <memory>

namespace infini_train::internal {

/// A T that whoever needs it first makes, from any thread; until then it costs a null pointer. A copy has a copy.
template <typename T>
class Lazy {
public:
    Lazy() = default;
    Lazy(const Lazy &other) {
        if (const T *value = other.Find()) {
            value_.store(new T(*value), std::memory_order_relaxed);
        }
    }
    Lazy &operator=(const Lazy &) = delete;
    ~Lazy() { delete value_.load(std::memory_order_relaxed); }

    /// Null as long as nobody has needed it.
    T *Find() const { return value_.load(std::memory_order_acquire); }
    T &Get() {
        T *value = Find();
        if (value == nullptr) {
            auto fresh = std::make_unique<T>();
            if (value_.compare_exchange_strong(value, fresh.get(), std::memory_order_acq_rel)) {
                value = fresh.release();
            }
        }
        return *value;
    }

private:
    std::atomic<T *> value_{nullptr};
};

}  // namespace infini_train::internal
