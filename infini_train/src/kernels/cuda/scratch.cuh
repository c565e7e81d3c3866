#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cuda_runtime.h>

#include "infini_train/src/cuda/scratch.h"

namespace infini_train::cuda {

/// A part of a list of any length that goes to a kernel by value, among its parameters, which are limited to 4 KB.
template <typename T, int kBytes = 3584>
struct Chunk {
    static constexpr int kCapacity = kBytes / static_cast<int>(sizeof(T));
    T items[kCapacity];
    int count;
};

/// Calls `launch(const Chunk<T> &chunk, size_t first)` for one chunk of the list after the other; `first` is the place
/// of the chunk's first item in the list.
template <typename T, typename F>
void Upload(std::span<const T> list, F &&launch) {
    Chunk<T> chunk{};
    for (size_t first = 0; first < list.size(); first += chunk.count) {
        const size_t left = list.size() - first;
        chunk.count = left < Chunk<T>::kCapacity ? static_cast<int>(left) : Chunk<T>::kCapacity;
        for (int i = 0; i < chunk.count; ++i) {
            chunk.items[i] = list[first + i];
        }
        launch(chunk, first);
    }
}

}  // namespace infini_train::cuda
