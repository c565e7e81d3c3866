// The forward pass of attention: for a block of queries, blocks of keys go by, with a running maximum and sum of each
// query's weights (Milakov and Gimelshein, 2018; Dao et al., "FlashAttention", 2022). Compiled once for each Highway
// target, hence the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_FORWARD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_FORWARD_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_FORWARD_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_FORWARD_H_
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

template <typename C>
class AttentionForwardPass {
public:
    explicit AttentionForwardPass(const AttentionOperands &x)
        : p_(x),
          query_(x.query),
          key_(x.key),
          value_(x.value),
          output_(x.output),
          statistics_(x.statistics.template Data<C>()),
          width_(Padded<C>(p_.value_features)) {}

    void Run() const {
        const int64_t blocks = Blocks(p_.queries, kBlock);
        const int64_t heads = p_.batch * p_.heads;
        const int64_t work = std::min(p_.queries, kBlock) * p_.keys * (p_.features + p_.value_features);
        ShareOut(heads * blocks, work, [&](const auto &next) HWY_ATTR {
            const Scratch<C> memory(Room());
            Workspace room(*this, memory.data());
            // The last blocks of a head first: if causal they are the longest.
            for (int64_t task = next(); task >= 0; task = next()) {
                const int64_t head = task / blocks;
                RunBlock(head / p_.heads, head % p_.heads, (blocks - 1 - task % blocks) * kBlock, room);
            }
        });
    }

private:
    static constexpr int kLanes = TileShape<C>::kLanes;
    static constexpr int kColumns = TileShape<C>::kColumns;
    static constexpr C kInfinity = std::numeric_limits<C>::infinity();
    using Tag = typename TileShape<C>::Tag;

    // What a thread works in.
    struct Workspace {
        Workspace(const AttentionForwardPass &pass, C *memory) {
            const AttentionProblem<C> &p = pass.p_;
            const auto take = [&](int64_t size) {
                C *part = memory;
                memory += Padded<C>(size);
                return part;
            };
            queries = take(PanelSize<C>(kBlock, p.features));
            scores = take(kBlock * kBlock);
            values = take(PanelSize<C>(p.value_features, kBlock));
            sums = take(kBlock * pass.width_);
            rows = take(kBlock * std::max({p.features, p.value_features, kBlock}));
            mask = take(p.has_mask ? kBlock * kBlock : 0);
            keep = take(p.drops ? kBlock * kBlock : 0);
        }
        C *queries, *scores, *values, *sums, *rows, *mask, *keep;
        HWY_ALIGN C max[kBlock], total[kBlock], shrink[kBlock];
    };

    int64_t Room() const {
        const int64_t longest = std::max({p_.features, p_.value_features, kBlock});
        return PanelSize<C>(kBlock, p_.features) + PanelSize<C>(p_.value_features, kBlock) +
               kBlock * (width_ + longest + 3 * kBlock) + 8 * kLanes;
    }

    void RunBlock(int64_t b, int64_t h, int64_t query, Workspace &room) const {
        const int64_t count = std::min(kBlock, p_.queries - query);
        const int64_t key_head = h / p_.group;
        PackColumns(query_.Rows(b, h, query, count, room.rows), count, p_.features, room.queries);
        std::fill_n(room.max, kBlock, -kInfinity);
        std::fill_n(room.total, kBlock, C{0});
        const int64_t end = p_.KeysBefore(query + count);
        for (int64_t key = 0; key < end; key += kBlock) {
            const ScoreBlock block = p_.Block(b, h, query, count, key, std::min(kBlock, end - key));
            const auto keys = key_.Rows(b, key_head, key, block.keys, room.rows);
            value_.Prefetch(b, key_head, key, block.keys);
            Multiply<C, false>(block.keys, count, keys.data, keys.ld, 1, room.queries, p_.features, room.scores, kBlock,
                               false, [&](int64_t j, int64_t, int64_t i, int64_t width) HWY_ATTR {
                                   return Steps{0, j < block.Seen(i + width - 1) ? p_.features : 0};
                               });
            if (p_.has_mask) {
                p_.MaskPanels(block, room.rows, room.mask);
            }
            if (p_.drops) {
                p_.KeepPanels(block, room.rows, room.keep);
            }
            for (int64_t i = 0; i < count; i += kColumns) {
                count - i > kLanes ? Weigh<2>(block, i, room) : Weigh<1>(block, i, room);
            }
            PackRows(value_.Rows(b, key_head, key, block.keys, room.rows), block.keys, p_.value_features, room.values);
            if (key > 0) {
                Shrink(count, room);
            }
            key_.Prefetch(b, key_head, key + kBlock, std::clamp<int64_t>(end - key - kBlock, 0, kBlock));
            Multiply<C, true>(count, p_.value_features, room.scores, 1, kBlock, room.values, block.keys, room.sums,
                              width_, key > 0, [&](int64_t i, int64_t height, int64_t, int64_t) HWY_ATTR {
                                  return Steps{0, block.Seen(i + height - 1)};
                              });
        }
        Finish(b, h, query, count, room);
    }

    // The weights of the queries in kVectors vectors from column i on, in place of their scores, relative to the
    // largest so far.
    template <int kVectors>
    void Weigh(const ScoreBlock &block, int64_t i, Workspace &room) const {
        using Vector = hn::Vec<Tag>;
        const Tag d;
        C *const column = room.scores + i;
        const int64_t panel = i / kColumns * kColumns * block.keys + i % kColumns;
        const C *const mask = p_.has_mask ? room.mask + panel : nullptr;
        const C *const keep = p_.drops ? room.keep + panel : nullptr;
        const int64_t whole = block.Seen(i), some = block.Seen(i + kVectors * kLanes - 1);
        const auto scale = hn::Set(d, p_.scale);
        const auto lowest = hn::Set(d, -kInfinity);
        const auto hidden = [&](int64_t j, int v) HWY_ATTR {
            return hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(0, block.FirstToSee(j) - i - v * kLanes)));
        };
        Vector largest[kVectors], before[kVectors], base[kVectors], sum[kVectors];
        for (int v = 0; v < kVectors; ++v) {
            largest[v] = before[v] = hn::Load(d, room.max + i + v * kLanes);
            sum[v] = hn::Zero(d);
        }
        for (int64_t j = 0; j < some; ++j) {
            HWY_UNROLL(2) for (int v = 0; v < kVectors; ++v) {
                auto score = hn::Mul(hn::Load(d, column + j * kBlock + v * kLanes), scale);
                if (mask != nullptr) {
                    score = hn::Add(score, hn::LoadU(d, mask + j * kColumns + v * kLanes));
                }
                if (j >= whole) {
                    score = hn::IfThenElse(hidden(j, v), lowest, score);
                }
                largest[v] = hn::Max(largest[v], score);
            }
        }
        for (int v = 0; v < kVectors; ++v) {
            // Where nothing was seen yet, e^(-inf - 0) = 0.
            base[v] = hn::IfThenZeroElse(hn::Eq(largest[v], lowest), largest[v]);
        }
        for (int64_t j = 0; j < some; ++j) {
            HWY_UNROLL(2) for (int v = 0; v < kVectors; ++v) {
                C *const at = column + j * kBlock + v * kLanes;
                // In the order of above: beside a mask of -1e9 another one would be another score.
                auto score = hn::Mul(hn::Load(d, at), scale);
                if (mask != nullptr) {
                    score = hn::Add(score, hn::LoadU(d, mask + j * kColumns + v * kLanes));
                }
                auto weight = Exp(d, hn::Sub(score, base[v]));
                if (j >= whole) {
                    weight = hn::IfThenZeroElse(hidden(j, v), weight);
                }
                sum[v] = hn::Add(sum[v], weight);
                if (keep != nullptr) {
                    weight = hn::Mul(weight, hn::LoadU(d, keep + j * kColumns + v * kLanes));
                }
                hn::Store(weight, d, at);
            }
        }
        for (int v = 0; v < kVectors; ++v) {
            const int64_t at = i + v * kLanes;
            for (int64_t j = some; j < block.keys; ++j) {
                hn::Store(hn::Zero(d), d, room.scores + at + j * kBlock);
            }
            const auto shrink = Exp(d, hn::Sub(before[v], base[v]));
            hn::Store(largest[v], d, room.max + at);
            hn::Store(shrink, d, room.shrink + at);
            hn::Store(hn::MulAdd(hn::Load(d, room.total + at), shrink, sum[v]), d, room.total + at);
        }
    }

    // Brings the sums so far to the new maximum.
    void Shrink(int64_t count, const Workspace &room) const {
        const Tag d;
        for (int64_t i = 0; i < count; ++i) {
            if (room.shrink[i] == C{1}) {
                continue;
            }
            const auto factor = hn::Set(d, room.shrink[i]);
            C *row = room.sums + i * width_;
            for (int64_t j = 0; j < width_; j += kLanes) {
                hn::Store(hn::Mul(hn::Load(d, row + j), factor), d, row + j);
            }
        }
    }

    // Divides the sums by the total weights. What has seen nothing gets zeros, whatever the hidden values are.
    void Finish(int64_t b, int64_t h, int64_t query, int64_t count, const Workspace &room) const {
        const Tag d;
        C *const largest = statistics_ + (b * p_.heads + h) * p_.queries + query;
        C *const inverse = largest + p_.batch * p_.heads * p_.queries;
        for (int64_t i = 0; i < count; ++i) {
            C *row = room.sums + i * width_;
            if (room.total[i] == C{0}) {
                std::fill_n(row, width_, C{0});
                largest[i] = kInfinity;
                inverse[i] = 0;
            } else {
                largest[i] = room.max[i];
                inverse[i] = 1 / room.total[i];
                const auto factor = hn::Set(d, inverse[i]);
                for (int64_t j = 0; j < width_; j += kLanes) {
                    hn::Store(hn::Mul(hn::Load(d, row + j), factor), d, row + j);
                }
            }
            output_.Row(b, h, query + i, row);
        }
    }

    const AttentionProblem<C> p_;
    const HeadReader<C> query_, key_, value_;
    const HeadWriter<C> output_;
    C *const statistics_;
    const int64_t width_;  // of a row of sums
};

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_FORWARD_H_
