#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace infini_train::internal {

/// A list that mostly has one element, which then lies in the list itself: no allocation. Elements are contiguous.
template <typename T>
class ShortList {
public:
    ShortList() = default;
    ShortList(const ShortList &) = default;
    ShortList &operator=(const ShortList &) = default;
    ShortList(ShortList &&other) noexcept
        : first_(std::exchange(other.first_, T())),
          all_(std::exchange(other.all_, {})),
          size_(std::exchange(other.size_, 0)) {}
    ShortList &operator=(ShortList &&other) noexcept {
        first_ = std::exchange(other.first_, T());
        all_ = std::exchange(other.all_, {});
        size_ = std::exchange(other.size_, 0);
        return *this;
    }
    ~ShortList() = default;

    void reserve(size_t size) {
        if (size > 1) {
            all_.reserve(size);
        }
    }
    void push_back(T element) {
        if (size_ == 0) {
            first_ = std::move(element);
        } else {
            if (size_ == 1) {
                all_.push_back(std::exchange(first_, T()));
            }
            all_.push_back(std::move(element));
        }
        ++size_;
    }
    void clear() {
        first_ = T();
        all_.clear();
        size_ = 0;
    }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    const T *data() const { return size_ == 1 ? &first_ : all_.data(); }
    const T &operator[](size_t i) const { return data()[i]; }
    const T *begin() const { return data(); }
    const T *end() const { return data() + size_; }
    operator std::span<const T>() const { return {data(), size_}; }  // NOLINT(google-explicit-constructor)

private:
    T first_{};           // of a list of one
    std::vector<T> all_;  // of a longer one
    size_t size_ = 0;
};

}  // namespace infini_train::internal
