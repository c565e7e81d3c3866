#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/philox.h"

#include "infini_train/src/kernels/attention.h"
#include "infini_train/src/kernels/cuda/floats.cuh"
#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/math.cuh"
#include "infini_train/src/kernels/cuda/random_shift.cuh"
#include "infini_train/src/kernels/cuda/reduce.cuh"

// Attention in tiles of kTile queries by kTile keys, which lie in shared memory in the type C that is computed in
// (float, or double for float64). The (T, S) scores are never made as a whole.

namespace infini_train::cuda {

/// A tensor (B, H, T, D) of any strides.
struct HeadRows {
    void *data = nullptr;
    int64_t batch = 0, head = 0, row = 0, column = 0;  // strides

    HeadRows() = default;
    explicit HeadRows(const ConstTensorRef &x)
        : data(const_cast<void *>(x.data)),
          batch(x.strides[0]),
          head(x.strides[1]),
          row(x.strides[2]),
          column(x.strides[3]) {}
    __device__ __forceinline__ int64_t At(int64_t b, int64_t h, int64_t t) const {
        return b * batch + h * head + t * row;
    }
};

struct AttentionProblem {
    int64_t batch, heads, group, queries, keys;  // `group` query heads share a key head
    int features, value_features;
    DataType dtype;
    double scale;
    bool is_causal;
    bool has_mask, mask_is_bool;
    HeadRows mask;
    bool drops, drops_all;
    uint32_t threshold;
    double keep_scale;
    RandomState random;

    AttentionProblem(const ConstTensorRef &query, const ConstTensorRef &key, const ConstTensorRef &value,
                     const ConstTensorRef &mask_ref, const kernels::AttentionSettings &settings)
        : batch(query.dims[0]),
          heads(query.dims[1]),
          group(key.dims[1] > 0 ? query.dims[1] / key.dims[1] : 1),
          queries(query.dims[2]),
          keys(key.dims[2]),
          features(static_cast<int>(query.dims[3])),
          value_features(static_cast<int>(value.dims[3])),
          dtype(query.dtype),
          scale(settings.scale),
          is_causal(settings.is_causal),
          has_mask(mask_ref.data != nullptr),
          mask_is_bool(mask_ref.dtype == DataType::kBOOL),
          mask(mask_ref.data != nullptr ? HeadRows(mask_ref) : HeadRows()),
          drops(settings.dropout_p > 0),
          random(settings.draw) {
        const double exact = std::nearbyint(settings.dropout_p * 0x1p32);
        drops_all = exact >= 0x1p32;
        threshold = drops_all ? 0 : static_cast<uint32_t>(exact);
        keep_scale = settings.dropout_p < 1 ? 1 / (1 - settings.dropout_p) : 0;
    }

    /// How many keys the queries before `end` see at most.
    __device__ __forceinline__ int64_t KeysBefore(int64_t end) const {
        const int64_t seen = is_causal ? end + keys - queries : keys;
        return seen < 0 ? 0 : seen < keys ? seen : keys;
    }
    /// The first query that sees a key.
    __device__ __forceinline__ int64_t FirstQuery(int64_t s) const {
        const int64_t first = is_causal ? s - (keys - queries) : 0;
        return first > 0 ? first : 0;
    }

    /// A dot product's score: -infinity where it is hidden.
    template <typename C>
    __device__ __forceinline__ C Score(C product, int64_t b, int64_t h, int64_t t, int64_t s) const {
        constexpr C kHidden = -std::numeric_limits<C>::infinity();
        if (t >= queries || s >= keys || (is_causal && s > t + keys - queries)) {
            return kHidden;
        }
        C score = product * static_cast<C>(scale);
        if (has_mask) {
            const int64_t at = mask.At(b, h, t) + s * mask.column;
            if (mask_is_bool) {
                // Added, as on the CPU: a score that is NaN stays.
                return score + (static_cast<const bool *>(mask.data)[at] ? C{0} : kHidden);
            }
            score += LoadFloat<C>(mask.data, dtype, at);
        }
        return score;
    }

    /// What a weight is multiplied by: 0 where it is dropped.
    template <typename C>
    __device__ __forceinline__ C Keep(const Generator::State &state, int64_t b, int64_t h, int64_t t, int64_t s) const {
        if (!drops) {
            return 1;
        }
        if (t >= queries || s >= keys) {
            return 0;
        }
        const auto index = static_cast<uint64_t>(((b * heads + h) * queries + t) * keys + s);
        const auto words = PhiloxBlock(state.seed, state.stream, state.offset + index / 4);
        return words[index % 4] >= threshold && !drops_all ? static_cast<C>(keep_scale) : C{0};
    }
};

/// kTile rows in shared memory, of `width` elements and one more, so that a column's lie in different banks.
template <typename C>
struct SharedTile {
    C *data;
    int pitch;

    __device__ __forceinline__ C &At(int row, int column) const { return data[row * pitch + column]; }
};

/// Cuts dynamic shared memory into tiles.
template <typename C, int kTile>
class SharedTiles {
public:
    __device__ __forceinline__ SharedTiles() : next_(reinterpret_cast<C *>(dynamic_shared)) {}
    __device__ __forceinline__ SharedTile<C> Take(int width) {
        const SharedTile<C> tile{next_, width + 1};
        next_ += kTile * (width + 1);
        return tile;
    }
    static size_t Bytes(int width) { return static_cast<size_t>(kTile) * static_cast<size_t>(width + 1) * sizeof(C); }

private:
    C *next_;
};

template <int kTile, typename Body>
__device__ __forceinline__ void ForTile(int width, Body &&body) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * width; i += kBlock) {
        body(i / width, i % width);
    }
}

/// Rows first, ... of one head, zeros behind the last of `rows`.
template <typename C, int kTile>
__device__ __forceinline__ void LoadTile(const SharedTile<C> &tile, const HeadRows &x, DataType dtype, int64_t b,
                                         int64_t h, int64_t first, int64_t rows, int width) {
    const int64_t base = x.At(b, h, first);
    ForTile<kTile>(width, [&](int i, int j) {
        tile.At(i, j) = first + i < rows ? LoadFloat<C>(x.data, dtype, base + i * x.row + j * x.column) : C{0};
    });
}
template <typename C, int kTile>
__device__ __forceinline__ void StoreTile(const SharedTile<C> &tile, const HeadRows &x, DataType dtype, int64_t b,
                                          int64_t h, int64_t first, int64_t rows, int width, C factor) {
    const int64_t base = x.At(b, h, first);
    ForTile<kTile>(width, [&](int i, int j) {
        if (first + i < rows) {
            StoreFloat<C>(x.data, dtype, base + i * x.row + j * x.column, tile.At(i, j) * factor);
        }
    });
}

/// Row i of a times row j of b.
template <typename C>
__device__ __forceinline__ C Dot(const SharedTile<C> &a, int i, const SharedTile<C> &b, int j, int width) {
    C sum = 0;
    for (int k = 0; k < width; ++k) {
        sum = Fma(a.At(i, k), b.At(j, k), sum);
    }
    return sum;
}

/// Calls `body(std::integral_constant<int, kTile>)` with the largest tile for which `bytes(kTile constant)` fits.
template <typename Bytes, typename Body>
void VisitTile(const char *name, int features, Bytes &&bytes, Body &&body) {
    const auto most = static_cast<size_t>(MaxSharedBytes());
    if (bytes(std::integral_constant<int, 32>()) <= most) {
        return body(std::integral_constant<int, 32>());
    }
    if (bytes(std::integral_constant<int, 16>()) <= most) {
        return body(std::integral_constant<int, 16>());
    }
    if (bytes(std::integral_constant<int, 8>()) <= most) {
        return body(std::integral_constant<int, 8>());
    }
    throw NotImplementedError(std::string(name) + ": heads of " + std::to_string(features) +
                              " features don't fit this GPU's shared memory");
}

}  // namespace infini_train::cuda
