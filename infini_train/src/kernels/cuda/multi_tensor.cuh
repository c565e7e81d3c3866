#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "infini_train/src/kernels/clip_grad.h"
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

/// An element of a floating-point type that is known at run time, in what it is computed in: double for float64, float
/// for the others.
template <typename C>
__device__ __forceinline__ C LoadFloat(const void *data, DataType dtype, int64_t i) {
    if constexpr (std::is_same_v<C, double>) {
        return static_cast<const double *>(data)[i];
    } else {
        return dtype == DataType::kFLOAT32    ? static_cast<const float *>(data)[i]
               : dtype == DataType::kBFLOAT16 ? Load(static_cast<const __nv_bfloat16 *>(data)[i])
                                              : Load(static_cast<const __half *>(data)[i]);
    }
}
template <typename C>
__device__ __forceinline__ void StoreFloat(void *data, DataType dtype, int64_t i, C value) {
    if constexpr (std::is_same_v<C, double>) {
        static_cast<double *>(data)[i] = value;
    } else if (dtype == DataType::kFLOAT32) {
        static_cast<float *>(data)[i] = value;
    } else if (dtype == DataType::kBFLOAT16) {
        static_cast<__nv_bfloat16 *>(data)[i] = Store<__nv_bfloat16>(value);
    } else {
        static_cast<__half *>(data)[i] = Store<__half>(value);
    }
}

}  // namespace infini_train::cuda
