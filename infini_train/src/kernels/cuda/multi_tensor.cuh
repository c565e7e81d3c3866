#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "infini_train/src/kernels/clip_grad.h"
#include "infini_train/src/kernels/cuda/floats.cuh"
#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/cuda/types.cuh"
#include "infini_train/src/kernels/optimizer.h"

// Kernels over lists of tensors: their elements, as if they lay one behind the other, fall into pieces, one a block. As
// many items as fit a kernel's parameters share a launch.

namespace infini_train::cuda {

inline constexpr int64_t kPiece = 4096;

/// Where an item's elements are among all.
struct ListedTensor {
    int64_t begin, num_elements;
};
__host__ __device__ inline ListedTensor Listed(const kernels::FlatGrad &grad) {
    return {grad.begin, grad.num_elements};
}
template <typename Update>
__host__ __device__ inline ListedTensor Listed(const Update &update) {
    return {update.tensors.begin, update.tensors.num_elements};
}

/// Calls `run(item, begin, end)` for the parts of items that make up the block's piece.
template <typename Item, typename Run>
__device__ __forceinline__ void ForPiece(const Chunk<Item> &chunk, Run &&run) {
    const ListedTensor last = Listed(chunk.items[chunk.count - 1]);
    const int64_t begin = Listed(chunk.items[0]).begin + static_cast<int64_t>(blockIdx.x) * kPiece;
    const int64_t all = last.begin + last.num_elements;
    const int64_t end = begin + kPiece < all ? begin + kPiece : all;
    // The last item that begins at or before `begin`.
    int item = 0;
    for (int above = chunk.count; above - item > 1;) {
        const int middle = (item + above) / 2;
        (Listed(chunk.items[middle]).begin <= begin ? item : above) = middle;
    }
    for (int64_t i = begin; i < end; ++item) {
        const ListedTensor at = Listed(chunk.items[item]);
        const int64_t stop = at.begin + at.num_elements < end ? at.begin + at.num_elements : end;
        run(chunk.items[item], i - at.begin, stop - at.begin);
        i = stop;
    }
}

/// Calls `launch(chunk, pieces)` for a list that isn't empty, a chunk at a time.
template <typename Item, typename F>
void ForChunks(std::span<const Item> list, F &&launch) {
    Upload(list, [&](const Chunk<Item> &chunk, size_t /*first*/) {
        const ListedTensor last = Listed(chunk.items[chunk.count - 1]);
        const int64_t elements = last.begin + last.num_elements - Listed(chunk.items[0]).begin;
        launch(chunk, static_cast<unsigned>((elements + kPiece - 1) / kPiece));
    });
}

}  // namespace infini_train::cuda
