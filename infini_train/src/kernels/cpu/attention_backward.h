// The backward pass of attention. The weights P are computed again from the scores and the logarithms of their sums;
// with F what dropout multiplies them by, O = (P F) v and G the gradient of O:
//
//     dv = (P F)^T G,   dS = P (F (G v^T) - sum(G O)),   dq = scale dS k,   dk = scale dS^T q
//
// (Dao et al., "FlashAttention", 2022). Compiled once for each Highway target, hence the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BACKWARD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BACKWARD_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BACKWARD_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BACKWARD_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/attention_block.h"
#include "infini_train/src/kernels/cpu/row_math.h"
#include "infini_train/src/kernels/cpu/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A task is a key head, or a part of its keys where there are fewer heads than this. Each part has its own sums for dq,
// which are added up at the end.
inline constexpr int64_t kMinTasks = 16;

template <typename C>
class AttentionBackwardPass {
public:
    explicit AttentionBackwardPass(const AttentionOperands &x)
        : p_(x),
          query_(x.query),
          key_(x.key),
          value_(x.value),
          output_(x.output),
          grad_output_(x.grad_output),
          grad_query_(x.grad_query),
          grad_key_(x.grad_key),
          grad_value_(x.grad_value),
          log_sums_(x.log_sums.template Data<C>()),
          width_(Padded<C>(p_.features)),
          value_width_(Padded<C>(p_.value_features)) {
        const int64_t heads = p_.batch * p_.key_heads;
        const int64_t blocks = Blocks(p_.keys, kBlock);
        part_ = Blocks(blocks, std::min(Blocks(kMinTasks, heads), blocks)) * kBlock;
        parts_ = Blocks(p_.keys, part_);
    }

    void Run() const {
        const int64_t heads = p_.batch * p_.key_heads;
        const Scratch<C> partial(parts_ > 1 ? parts_ * QuerySize() : 0);
        const int64_t work =
            p_.group * p_.queries * std::min(part_, p_.keys) * (p_.features + p_.value_features) * 5 / 2;
        ShareOut(heads * parts_, work, [&](const auto &next) HWY_ATTR {
            const Scratch<C> memory(Room());
            Workspace room(*this, memory.data());
            // If causal, the first keys are seen by the most queries.
            for (int64_t task = next(); task >= 0; task = next()) {
                const int64_t head = task % heads;
                RunPart(head / p_.key_heads, head % p_.key_heads, task / heads, partial.data(), room);
            }
        });
        if (parts_ > 1) {
            AddParts(partial.data());
        }
    }

private:
    static constexpr int kLanes = TileShape<C>::kLanes;
    static constexpr int kColumns = TileShape<C>::kColumns;
    using Tag = typename TileShape<C>::Tag;

    // What a thread works in. Names of scores stand for their transposes, a row for each key.
    struct Workspace {
        Workspace(const AttentionBackwardPass &pass, C *memory) {
            const AttentionProblem<C> &p = pass.p_;
            const auto take = [&](int64_t size) {
                C *part = memory;
                memory += Padded<C>(size);
                return part;
            };
            query_columns = take(PanelSize<C>(kBlock, p.features));
            grad_columns = take(PanelSize<C>(kBlock, p.value_features));
            query_rows = take(PanelSize<C>(p.features, kBlock));
            grad_rows = take(PanelSize<C>(p.value_features, kBlock));
            key_rows = take(PanelSize<C>(p.features, kBlock));
            weights = take(kBlock * kBlock);
            grad_scores = take(kBlock * kBlock);
            grad_query = take(kBlock * pass.width_);
            grad_key = take(pass.part_ * pass.width_);
            grad_value = take(pass.part_ * pass.value_width_);
            rows = take(kBlock * std::max({p.features, p.value_features, kBlock}));
            more_rows = take(kBlock * p.value_features);
            mask = take(p.has_mask ? kBlock * kBlock : 0);
            keep = take(p.drops ? kBlock * kBlock : 0);
        }
        C *query_columns, *grad_columns, *query_rows, *grad_rows, *key_rows;
        C *weights, *grad_scores, *grad_query, *grad_key, *grad_value;
        C *rows, *more_rows, *mask, *keep;
        HWY_ALIGN C log_sums[kBlock], along[kBlock];
    };

    int64_t Room() const {
        const int64_t longest = std::max({p_.features, p_.value_features, kBlock});
        return PanelSize<C>(kBlock, p_.features) + PanelSize<C>(kBlock, p_.value_features) +
               2 * PanelSize<C>(p_.features, kBlock) + PanelSize<C>(p_.value_features, kBlock) +
               kBlock * (width_ + longest + p_.value_features + 4 * kBlock) + part_ * (width_ + value_width_) +
               16 * kLanes;
    }
    int64_t QuerySize() const { return p_.batch * p_.heads * p_.queries * width_; }
    int64_t QueryRow(int64_t b, int64_t h, int64_t i) const { return ((b * p_.heads + h) * p_.queries + i) * width_; }

    void RunPart(int64_t b, int64_t key_head, int64_t part, C *partial, Workspace &room) const {
        const int64_t key = part * part_;
        const int64_t keys = std::min(part_, p_.keys - key);
        std::fill_n(room.grad_key, keys * width_, C{0});
        std::fill_n(room.grad_value, keys * value_width_, C{0});
        for (int64_t h = key_head * p_.group; h < (key_head + 1) * p_.group; ++h) {
            for (int64_t query = 0; query < p_.queries; query += kBlock) {
                const int64_t count = std::min(kBlock, p_.queries - query);
                RunQueries(b, h, query, count, key, std::min(key + keys, p_.KeysBefore(query + count)), room);
                for (int64_t i = 0; i < count; ++i) {
                    const C *row = room.grad_query + i * width_;
                    if (parts_ == 1) {
                        grad_query_.Row(b, h, query + i, row);
                    } else {
                        std::copy_n(row, width_, partial + part * QuerySize() + QueryRow(b, h, query + i));
                    }
                }
            }
        }
        for (int64_t j = 0; j < keys; ++j) {
            grad_key_.Row(b, key_head, key + j, room.grad_key + j * width_);
            grad_value_.Row(b, key_head, key + j, room.grad_value + j * value_width_);
        }
    }

    // A block of queries and the keys [first, end) of a part: its dq, and what it adds to dk and dv.
    void RunQueries(int64_t b, int64_t h, int64_t query, int64_t count, int64_t first, int64_t end,
                    Workspace &room) const {
        if (first >= end) {
            std::fill_n(room.grad_query, count * width_, C{0});
            return;
        }
        const auto queries = query_.Rows(b, h, query, count, room.rows);
        PackColumns(queries, count, p_.features, room.query_columns);
        PackRows(queries, count, p_.features, room.query_rows);
        const auto grads = grad_output_.Rows(b, h, query, count, room.rows);
        PackColumns(grads, count, p_.value_features, room.grad_columns);
        PackRows(grads, count, p_.value_features, room.grad_rows);
        const auto outputs = output_.Rows(b, h, query, count, room.more_rows);
        // Columns that hold no query get no weight.
        std::fill_n(room.log_sums, kBlock, std::numeric_limits<C>::infinity());
        std::fill_n(room.along, kBlock, C{0});
        std::copy_n(log_sums_ + (b * p_.heads + h) * p_.queries + query, count, room.log_sums);
        for (int64_t i = 0; i < count; ++i) {
            room.along[i] =
                static_cast<C>(SumRows(p_.value_features, grads.data + i * grads.ld, outputs.data + i * outputs.ld,
                                       [](auto g, auto o) HWY_ATTR { return hn::Mul(g, o); }));
        }
        for (int64_t key = first; key < end; key += kBlock) {
            const ScoreBlock block = p_.Block(b, h, query, count, key, std::min(kBlock, end - key));
            RunBlock(block, key - first, key > first, room);
        }
    }

    // `at` is the block's place in the part.
    void RunBlock(const ScoreBlock &block, int64_t at, bool accumulate, Workspace &room) const {
        const int64_t key_head = block.h / p_.group;
        const auto seen_tiles = [&](int64_t features) HWY_ATTR {
            return [&block, features](int64_t j, int64_t, int64_t i, int64_t width) HWY_ATTR {
                return Steps{0, j < block.Seen(i + width - 1) ? features : 0};
            };
        };
        const auto values = value_.Rows(block.b, key_head, block.key, block.keys, room.rows);
        Multiply<C, false>(block.keys, block.queries, values.data, values.ld, 1, room.grad_columns, p_.value_features,
                           room.grad_scores, kBlock, false, seen_tiles(p_.value_features));
        const auto keys = key_.Rows(block.b, key_head, block.key, block.keys, room.rows);
        Multiply<C, false>(block.keys, block.queries, keys.data, keys.ld, 1, room.query_columns, p_.features,
                           room.weights, kBlock, false, seen_tiles(p_.features));
        PackRows(keys, block.keys, p_.features, room.key_rows);
        if (p_.has_mask) {
            p_.MaskPanels(block, room.rows, room.mask);
        }
        if (p_.drops) {
            p_.KeepPanels(block, room.rows, room.keep);
        }
        for (int64_t i = 0; i < block.queries; i += kLanes) {
            Weigh(block, i, room);
        }
        const auto seeing_queries = [&](int64_t j, int64_t, int64_t, int64_t) HWY_ATTR {
            return Steps{block.FirstToSee(j), block.queries};
        };
        Multiply<C, false>(block.keys, p_.value_features, room.weights, kBlock, 1, room.grad_rows, block.queries,
                           room.grad_value + at * value_width_, value_width_, true, seeing_queries);
        Multiply<C, false>(block.keys, p_.features, room.grad_scores, kBlock, 1, room.query_rows, block.queries,
                           room.grad_key + at * width_, width_, true, seeing_queries);
        Multiply<C, true>(block.queries, p_.features, room.grad_scores, 1, kBlock, room.key_rows, block.keys,
                          room.grad_query, width_, accumulate,
                          [&](int64_t i, int64_t height, int64_t, int64_t) HWY_ATTR {
                              return Steps{0, block.Seen(i + height - 1)};
                          });
    }

    // For the queries in the vector from column i on: from scores and G v^T to P F and scale dS, in their places.
    void Weigh(const ScoreBlock &block, int64_t i, const Workspace &room) const {
        const Tag d;
        C *const weights = room.weights + i;
        C *const grads = room.grad_scores + i;
        const int64_t panel = i / kColumns * kColumns * block.keys + i % kColumns;
        const int64_t whole = block.Seen(i), some = block.Seen(i + kLanes - 1);
        const auto scale = hn::Set(d, p_.scale);
        const auto log_sum = hn::Load(d, room.log_sums + i);
        const auto along = hn::Load(d, room.along + i);
        for (int64_t j = 0; j < some; ++j) {
            const int64_t at = j * kBlock;
            auto score = hn::MulSub(hn::Load(d, weights + at), scale, log_sum);
            if (p_.has_mask) {
                score = hn::Add(score, hn::LoadU(d, room.mask + panel + j * kColumns));
            }
            auto weight = Exp(d, score);
            auto grad = hn::Load(d, grads + at);
            if (j >= whole) {
                const auto hidden = hn::FirstN(d, static_cast<size_t>(block.FirstToSee(j) - i));
                weight = hn::IfThenZeroElse(hidden, weight);
                grad = hn::IfThenZeroElse(hidden, grad);
            }
            auto kept = weight;
            if (p_.drops) {
                const auto keep = hn::LoadU(d, room.keep + panel + j * kColumns);
                kept = hn::Mul(weight, keep);
                grad = hn::Mul(grad, keep);
            }
            hn::Store(kept, d, weights + at);
            hn::Store(hn::Mul(hn::Mul(weight, scale), hn::Sub(grad, along)), d, grads + at);
        }
        for (int64_t j = some; j < block.keys; ++j) {
            hn::Store(hn::Zero(d), d, weights + j * kBlock);
            hn::Store(hn::Zero(d), d, grads + j * kBlock);
        }
    }

    void AddParts(const C *partial) const {
        const int64_t rows = p_.batch * p_.heads * p_.queries;
        ParallelFor(0, rows, std::max<int64_t>(1, 16384 / (width_ * parts_)), [&](int64_t begin, int64_t end) HWY_ATTR {
            const Tag d;
            const Scratch<C> sum(width_);
            for (int64_t row = begin; row < end; ++row) {
                for (int64_t j = 0; j < width_; j += kLanes) {
                    auto total = hn::LoadU(d, partial + row * width_ + j);
                    for (int64_t part = 1; part < parts_; ++part) {
                        total = hn::Add(total, hn::LoadU(d, partial + part * QuerySize() + row * width_ + j));
                    }
                    hn::StoreU(total, d, sum.data() + j);
                }
                const int64_t head = row / p_.queries;
                grad_query_.Row(head / p_.heads, head % p_.heads, row % p_.queries, sum.data());
            }
        });
    }

    const AttentionProblem<C> p_;
    const HeadReader<C> query_, key_, value_, output_, grad_output_;
    const HeadWriter<C> grad_query_, grad_key_, grad_value_;
    const C *const log_sums_;
    const int64_t width_, value_width_;  // of rows of sums
    int64_t part_ = 0, parts_ = 0;       // keys in a part, a multiple of kBlock, and parts of a head
};

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_BACKWARD_H_
