// What the forward and the backward pass of attention have in common: blocks of queries and keys, and products of them.
// Compiled once for each Highway target, hence the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BLOCK_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BLOCK_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BLOCK_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BLOCK_H_
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/attention.h"
#include "infini_train/src/kernels/cpu/gemm_micro.h"
#include "infini_train/src/kernels/cpu/gemm_pack.h"
#include "infini_train/src/kernels/cpu/philox_simd.h"
#include "infini_train/src/kernels/cpu/row_access.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Queries and keys in a block. Scores are kept transposed, (keys, queries): the softmax then runs along the queries of
// a vector, and keys and values are read by the tiles as they lie.
inline constexpr int64_t kBlock = 64;
// Multiplications below which threads cost more than they save.
inline constexpr int64_t kMinParallelWork = 200000;

inline int64_t Blocks(int64_t n, int64_t size) {
    return (n + size - 1) / size;
}
/// Columns that hold `n` and whole vectors.
template <typename C>
int64_t Padded(int64_t n) {
    return Blocks(n, TileShape<C>::kLanes) * TileShape<C>::kLanes;
}
/// Elements of `steps` steps of panels that hold n columns.
template <typename C>
int64_t PanelSize(int64_t n, int64_t steps) {
    return Blocks(n, TileShape<C>::kColumns) * TileShape<C>::kColumns * steps;
}

/// A block of rows, contiguous elements each.
template <typename C>
struct RowsView {
    const C *data;
    int64_t ld;
};

/// A (B, H, n, features) tensor of which blocks of rows are read as C.
template <typename C>
class HeadReader {
public:
    explicit HeadReader(const ConstTensorRef &x) : x_(x), reader_(x.data, x.dtype) {}

    /// Rows [begin, begin + count) of a head: where they lie, or else in `buffer`, which has room for them.
    RowsView<C> Rows(int64_t b, int64_t h, int64_t begin, int64_t count, C *buffer) const {
        const int64_t features = x_.dims[3];
        const int64_t start = b * x_.strides[0] + h * x_.strides[1] + begin * x_.strides[2];
        if (reader_.direct() && (x_.strides[3] == 1 || features == 1)) {
            return {static_cast<const C *>(x_.data) + start, x_.strides[2]};
        }
        for (int64_t i = 0; i < count; ++i) {
            C *row = buffer + i * features;
            const C *from = reader_.Read(start + i * x_.strides[2], x_.strides[3], features, row);
            if (from != row) {
                std::copy(from, from + features, row);
            }
        }
        return {buffer, features};
    }

private:
    const ConstTensorRef x_;
    const Reader<C> reader_;
};

/// Writes rows of a (B, H, n, features) tensor.
template <typename C>
class HeadWriter {
public:
    explicit HeadWriter(const TensorRef &x) : x_(x), writer_(x.data, x.dtype) {}

    void Row(int64_t b, int64_t h, int64_t i, const C *values) const {
        writer_.Write(b * x_.strides[0] + h * x_.strides[1] + i * x_.strides[2], x_.strides[3], x_.dims[3], values);
    }

private:
    const TensorRef x_;
    const Writer<C> writer_;
};

/// Panels of the rows, transposed: the right operand of a product over the features, a column for each row.
template <typename C>
void PackColumns(const RowsView<C> &rows, int64_t count, int64_t features, C *to) {
    constexpr int kColumns = TileShape<C>::kColumns;
    for (int64_t i = 0; i < count; i += kColumns) {
        PackTransposed<kColumns>(rows.data + i * rows.ld, rows.ld,
                                 static_cast<int>(std::min<int64_t>(kColumns, count - i)), features, to + i * features);
    }
}
/// Panels of the rows: the right operand of a product over the rows, a column for each feature.
template <typename C>
void PackRows(const RowsView<C> &rows, int64_t count, int64_t features, C *to) {
    constexpr int kColumns = TileShape<C>::kColumns;
    for (int64_t i = 0; i < features; i += kColumns) {
        const int64_t columns = std::min<int64_t>(kColumns, features - i);
        PackCopied<kColumns>(rows.data + i, rows.ld, static_cast<int>(columns), columns, count, to + i * count);
    }
}

/// Steps [begin, end) of a product; the others would add zeros.
struct Steps {
    int64_t begin, end;
};

/// C (rows, columns) [+]= A B. A's element (i, p) is a[i * a_row + p * a_step]; B is in panels of `b_steps` steps. C's
/// rows hold whole vectors. `steps(i, rows, j, columns)` tells which steps the tile there needs.
template <typename C, bool kPackedRows, class F>
void Multiply(int64_t rows, int64_t columns, const C *a, int64_t a_row, int64_t a_step, const C *b, int64_t b_steps,
              C *c, int64_t ldc, bool accumulate, const F &steps) {
    using Shape = TileShape<C>;
    TileArgs<C> tile;
    tile.a_row = a_row;
    tile.a_step = a_step;
    tile.b_step = Shape::kColumns;
    tile.ldc = ldc;
    tile.bias = nullptr;
    tile.accumulate = accumulate;
    tile.last_columns = Shape::kLanes;
    for (int64_t j = 0; j < columns; j += Shape::kColumns) {
        const int64_t width = std::min<int64_t>(Shape::kColumns, columns - j);
        const int64_t vectors = Blocks(width, Shape::kLanes);
        for (int64_t i = 0; i < rows; i += Shape::kRows) {
            const int64_t height = std::min<int64_t>(Shape::kRows, rows - i);
            const Steps wanted = steps(i, height, j, width);
            tile.c = c + i * ldc + j;
            tile.k = wanted.end - wanted.begin;
            if (tile.k <= 0) {
                for (int64_t r = 0; r < height && !accumulate; ++r) {
                    std::fill_n(tile.c + r * ldc, vectors * Shape::kLanes, C{0});
                }
                continue;
            }
            tile.a = a + i * a_row + wanted.begin * a_step;
            tile.b = b + j * b_steps + wanted.begin * Shape::kColumns;
            FindTile<C, kPackedRows>(static_cast<int>(height), static_cast<int>(vectors))(tile);
        }
    }
}

/// One block of scores: which keys its queries see.
struct ScoreBlock {
    int64_t b, h;
    int64_t query, queries;  // the first, and how many
    int64_t key, keys;
    bool cut;        // whether causality hides some of the keys from some of the queries
    int64_t offset;  // query i of the block sees keys up to i + offset of the block, if it is cut

    /// How many keys query i sees.
    int64_t Seen(int64_t i) const { return cut ? std::clamp<int64_t>(i + offset + 1, 0, keys) : keys; }
    /// The first query that sees key j.
    int64_t FirstToSee(int64_t j) const { return cut ? std::clamp<int64_t>(j - offset, 0, queries) : 0; }
};

/// Sizes, and what depends on mask and dropout.
template <typename C>
class AttentionProblem {
public:
    explicit AttentionProblem(const AttentionOperands &x)
        : batch(x.query.dims[0]),
          heads(x.query.dims[1]),
          queries(x.query.dims[2]),
          features(x.query.dims[3]),
          key_heads(x.key.dims[1]),
          keys(x.key.dims[2]),
          value_features(x.value.dims[3]),
          group(heads / key_heads),
          scale(static_cast<C>(x.settings.scale)),
          is_causal(x.settings.is_causal),
          has_mask(x.mask.data != nullptr),
          drops(x.settings.dropout_p > 0),
          mask_(x.mask),
          mask_reader_(x.mask.data, has_mask && x.mask.dtype != DataType::kBOOL ? x.mask.dtype : kDataTypeOf<C>),
          draw_(x.settings.draw),
          threshold_(std::nearbyint(x.settings.dropout_p * 0x1p32)),
          keep_scale_(x.settings.dropout_p < 1 ? static_cast<C>(1 / (1 - x.settings.dropout_p)) : C{0}) {}

    /// How many keys the queries before `query` see at most.
    int64_t KeysBefore(int64_t query) const {
        return is_causal ? std::clamp<int64_t>(query + keys - queries, 0, keys) : keys;
    }
    ScoreBlock Block(int64_t b, int64_t h, int64_t query, int64_t num_queries, int64_t key, int64_t num_keys) const {
        const int64_t offset = query + keys - queries - key;
        return {b, h, query, num_queries, key, num_keys, is_causal && num_keys - 1 > offset, offset};
    }

    /// In panels like the scores' right operand, `rows` (kBlock * kBlock) being room to work in: what is added to the
    /// scores, and what the weights are multiplied by.
    void MaskPanels(const ScoreBlock &block, C *rows, C *panels) const {
        for (int64_t i = 0; i < block.queries; ++i) {
            const int64_t start = block.b * mask_.strides[0] + block.h * mask_.strides[1] +
                                  (block.query + i) * mask_.strides[2] + block.key * mask_.strides[3];
            MaskRow(start, block.keys, rows + i * kBlock);
        }
        PackColumns<C>({rows, kBlock}, block.queries, block.keys, panels);
    }
    void KeepPanels(const ScoreBlock &block, C *rows, C *panels) const {
        for (int64_t i = 0; i < block.queries; ++i) {
            const int64_t row = (block.b * heads + block.h) * queries + block.query + i;
            KeepRow(row * keys + block.key, block.keys, rows + i * kBlock);
        }
        PackColumns<C>({rows, kBlock}, block.queries, block.keys, panels);
    }

    const int64_t batch, heads, queries, features, key_heads, keys, value_features, group;
    const C scale;
    const bool is_causal, has_mask, drops;

private:
    void MaskRow(int64_t start, int64_t count, C *to) const {
        const int64_t stride = mask_.strides[3];
        if (mask_.dtype != DataType::kBOOL) {
            const C *from = mask_reader_.Read(start, stride, count, to);
            if (from != to) {
                std::copy(from, from + count, to);
            }
            return;
        }
        const auto *from = mask_.Data<uint8_t>() + start;
        for (int64_t j = 0; j < count; ++j) {
            to[j] = from[j * stride] != 0 ? C{0} : -std::numeric_limits<C>::infinity();
        }
    }

    void KeepRow(int64_t first, int64_t count, C *to) const {
        HWY_ALIGN uint32_t words[kBlock + 8];
        const int64_t skipped = first % 4;
        PhiloxWords(draw_, static_cast<uint64_t>(first / 4), (skipped + count + 3) / 4, words);
        const bool drops_all = threshold_ >= 0x1p32;
        const auto threshold = static_cast<uint32_t>(drops_all ? 0 : threshold_);
        const C kept = drops_all ? C{0} : keep_scale_;
        for (int64_t j = 0; j < count; ++j) {
            to[j] = words[skipped + j] >= threshold ? kept : C{0};
        }
    }

    const ConstTensorRef mask_;
    const Reader<C> mask_reader_;
    const Generator::State draw_;
    const double threshold_;
    const C keep_scale_;
};

/// Calls `body(next)` on each thread; next() gives the numbers below `tasks` once each, to whichever thread asks first,
/// and then -1. Each `work` multiplications.
template <class Body>
void ShareOut(int64_t tasks, int64_t work, const Body &body) {
    std::atomic<int64_t> taken{0};
    const auto next = [&]() -> int64_t {
        const int64_t task = taken.fetch_add(1, std::memory_order_relaxed);
        return task < tasks ? task : -1;
    };
    const int64_t threads = tasks * work < kMinParallelWork ? 1 : std::min<int64_t>(GetNumThreads(), tasks);
    ParallelFor(0, threads, 1, [&](int64_t, int64_t) { body(next); });
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BLOCK_H_
