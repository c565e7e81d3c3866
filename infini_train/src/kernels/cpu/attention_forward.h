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
#include <cmath>
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
          log_sums_(x.log_sums.template Data<C>()),
          width_(Padded<C>(p_.value_features)) {}

    void Run() const {
        const int64_t blocks = Blocks(p_.queries, kBlock);
        const int64_t heads = p_.batch * p_.heads;
        const int64_t work = std::min(p_.queries, kBlock) * p_.keys * (p_.features + p_.value_features);
        ShareOut(heads * blocks, work, [&](const auto &next) HWY_ATTR {
            const Scratch<C> memory(Room());
            Workspace room(*this, memory.data());
            // The last blocks first: if causal they are the longest.
            for (int64_t task = next(); task >= 0; task = next()) {
                const int64_t head = task % heads;
                RunBlock(head / p_.heads, head % p_.heads, (blocks - 1 - task / heads) * kBlock, room);
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
            for (int64_t i = 0; i < count; i += kLanes) {
                Weigh(block, i, room);
            }
            PackRows(value_.Rows(b, key_head, key, block.keys, room.rows), block.keys, p_.value_features, room.values);
            if (key > 0) {
                Shrink(count, room);
            }
            Multiply<C, true>(count, p_.value_features, room.scores, 1, kBlock, room.values, block.keys, room.sums,
                              width_, key > 0, [&](int64_t i, int64_t height, int64_t, int64_t) HWY_ATTR {
                                  return Steps{0, block.Seen(i + height - 1)};
                              });
        }
        Finish(b, h, query, count, room);
    }

    // The weights of the queries in the vector from column i on, in place of their scores, relative to the largest so
    // far.
    void Weigh(const ScoreBlock &block, int64_t i, Workspace &room) const {
        const Tag d;
        C *const column = room.scores + i;
        const int64_t panel = i / kColumns * kColumns * block.keys + i % kColumns;
        const int64_t whole = block.Seen(i), some = block.Seen(i + kLanes - 1);
        const auto scale = hn::Set(d, p_.scale);
        auto largest = hn::Load(d, room.max + i);
        const auto before = largest;
        for (int64_t j = 0; j < some; ++j) {
            auto score = hn::Mul(hn::Load(d, column + j * kBlock), scale);
            if (p_.has_mask) {
                score = hn::Add(score, hn::LoadU(d, room.mask + panel + j * kColumns));
            }
            if (j >= whole) {
                const auto hidden = static_cast<size_t>(block.FirstToSee(j) - i);
                score = hn::IfThenElse(hn::FirstN(d, hidden), hn::Set(d, -kInfinity), score);
            }
            largest = hn::Max(largest, score);
            hn::Store(score, d, column + j * kBlock);
        }
        // Where nothing was seen yet, e^(-inf - 0) = 0.
        const auto base = hn::IfThenZeroElse(hn::Eq(largest, hn::Set(d, -kInfinity)), largest);
        auto sum = hn::Zero(d);
        for (int64_t j = 0; j < some; ++j) {
            auto weight = Exp(d, hn::Sub(hn::Load(d, column + j * kBlock), base));
            sum = hn::Add(sum, weight);
            if (p_.drops) {
                weight = hn::Mul(weight, hn::LoadU(d, room.keep + panel + j * kColumns));
            }
            hn::Store(weight, d, column + j * kBlock);
        }
        for (int64_t j = some; j < block.keys; ++j) {
            hn::Store(hn::Zero(d), d, column + j * kBlock);
        }
        const auto shrink = Exp(d, hn::Sub(before, base));
        hn::Store(largest, d, room.max + i);
        hn::Store(shrink, d, room.shrink + i);
        hn::Store(hn::MulAdd(hn::Load(d, room.total + i), shrink, sum), d, room.total + i);
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
        C *const log_sums = log_sums_ + (b * p_.heads + h) * p_.queries + query;
        for (int64_t i = 0; i < count; ++i) {
            C *row = room.sums + i * width_;
            if (room.total[i] == C{0}) {
                std::fill_n(row, width_, C{0});
                log_sums[i] = kInfinity;
            } else {
                const auto factor = hn::Set(d, 1 / room.total[i]);
                for (int64_t j = 0; j < width_; j += kLanes) {
                    hn::Store(hn::Mul(hn::Load(d, row + j), factor), d, row + j);
                }
                log_sums[i] = room.max[i] + std::log(room.total[i]);
            }
            output_.Row(b, h, query + i, row);
        }
    }

    const AttentionProblem<C> p_;
    const HeadReader<C> query_, key_, value_;
    const HeadWriter<C> output_;
    C *const log_sums_;
    const int64_t width_;  // of a row of sums
};

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_ATTENTION_FORWARD_H_
