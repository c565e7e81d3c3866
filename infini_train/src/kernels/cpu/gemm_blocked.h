// The general matrix product: operands packed in panels, register tiles over them. Compiled once for each Highway
// target, hence the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_BLOCKED_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_BLOCKED_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_BLOCKED_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_BLOCKED_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/gemm_micro.h"
#include "infini_train/src/kernels/cpu/gemm_pack.h"
#include "infini_train/src/kernels/cpu/gemm_workspace.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Steps of k in a block: a panel of B stays in the first-level cache.
inline constexpr int64_t kMaxSteps = 384;
// Rows of A in a block, which stays in the second-level cache while panels of B pass: where threads divide C's columns,
// each panel is best used up right after it was packed; where they divide the rows, the block has just been packed.
inline constexpr int64_t kMaxRowsOfColumns = 264;
inline constexpr int64_t kMaxRows = 144;
// Columns of B in a block, to be used for several blocks of rows.
inline constexpr int64_t kMaxColumns = 768;
// An operand is used as it lies where few panels of the other one read it, or where its block is a small piece of
// memory. Steps along a row are friendlier to the cache than steps across rows.
inline constexpr int64_t kMaxDirectAlong = 8;
inline constexpr int64_t kMaxDirectAcross = 2;
inline constexpr int64_t kMaxDirectBytes = 16384;
// Elements of the operand that is packed for all threads at once.
inline constexpr int64_t kMaxShared = int64_t{1} << 20;
// See CopiesPay().
inline constexpr int64_t kMinSideForCopies = 256;
// Multiplications below which threads cost more than they save.
inline constexpr int64_t kMinParallel = 200000;

inline int64_t DivideUp(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/// What GemmArgs says, with the sums' type for C.
template <typename In, typename Acc>
struct Product {
    bool trans_a, trans_b;
    int64_t m, n, k;
    const In *a;
    int64_t lda;
    const In *b;
    int64_t ldb;
    Acc *c;
    int64_t ldc;
    bool accumulate;
    const Acc *bias;
};

/// Panels of an operand for one block of k, packed or where they lie.
template <typename Acc>
struct Panels {
    const Acc *base;
    int64_t panel;  // elements from a panel to the next
    int64_t item;   // from a row of A (a column of B) to the next in its panel
    int64_t step;   // from a step of k to the next
};

/// Runs one product. Threads divide one side of C. Each packs the panels of its own side when it needs them. The other
/// operand is needed whole by all: they pack it together, or each its own copy where that costs less than to wait for
/// the last one.
template <typename In, typename Acc>
class BlockedGemm {
public:
    explicit BlockedGemm(const Product<In, Acc> &product) : p_(product) {
        row_panels_ = DivideUp(p_.m, kRows);
        column_panels_ = DivideUp(p_.n, kColumns);
        steps_ = DivideUp(DivideUp(p_.k, DivideUp(p_.k, kMaxSteps)), 8) * 8;
        columns_ = kMaxColumns / kColumns;
        direct_a_ = p_.trans_a ? IsDirectAcross(column_panels_, p_.lda)
                               : std::is_same_v<In, Acc> && column_panels_ <= kMaxDirectAlong;
        direct_b_ = !p_.trans_b && IsDirectAcross(row_panels_, p_.ldb);
        parallel_ = p_.m * p_.n * p_.k >= kMinParallel;
        threads_ = InParallelRegion() || !parallel_ ? 1 : GetNumThreads();
        split_rows_ = SplitRows();
        rows_ = DivideUp(row_panels_, DivideUp(p_.m, split_rows_ ? kMaxRows : kMaxRowsOfColumns));
        const int64_t whole = split_rows_ ? column_panels_ * kColumns : row_panels_ * kRows;
        group_ = std::max<int64_t>(1, kMaxShared / (whole * steps_)) * steps_;
    }

    void Run() {
        const int64_t panels = split_rows_ ? row_panels_ : column_panels_;
        const int64_t grain = parallel_ ? 1 : panels;
        if (CopiesPay()) {
            ParallelFor(0, panels, grain, [&](int64_t begin, int64_t end) {
                for (int64_t k = 0; k < p_.k; k += group_) {
                    const int64_t k_end = std::min(p_.k, k + group_);
                    Acc *whole = WholeBuffer(k, k_end);
                    PackWhole(0, WholePanels(), k, k_end, whole);
                    Multiply(begin, end, k, k_end, whole);
                }
            });
            return;
        }
        for (int64_t k = 0; k < p_.k; k += group_) {
            const int64_t k_end = std::min(p_.k, k + group_);
            Acc *whole = WholeBuffer(k, k_end);
            ParallelFor(0, WholePanels(), 1,
                        [&](int64_t begin, int64_t end) { PackWhole(begin, end, k, k_end, whole); });
            ParallelFor(0, panels, grain, [&](int64_t begin, int64_t end) { Multiply(begin, end, k, k_end, whole); });
        }
    }

private:
    static constexpr int kRows = TileShape<Acc>::kRows;
    static constexpr int kColumns = TileShape<Acc>::kColumns;
    static constexpr int kLanes = TileShape<Acc>::kLanes;

    bool IsDirectAcross(int64_t readers, int64_t ld) const {
        return std::is_same_v<In, Acc> &&
               (readers <= kMaxDirectAcross || ld * steps_ * static_cast<int64_t>(sizeof(In)) <= kMaxDirectBytes);
    }

    // Divides the side whose panels spread most evenly over the threads, the longer one if both do.
    bool SplitRows() const {
        const int64_t row_time = DivideUp(row_panels_, threads_) * column_panels_;
        const int64_t column_time = DivideUp(column_panels_, threads_) * row_panels_;
        if (row_time * 10 < column_time * 9 || column_time * 10 < row_time * 9) {
            return row_time < column_time;
        }
        return p_.m > p_.n;
    }

    // A copy a thread takes as long as about 5 multiplications an element, of which there are side / threads; another
    // wait for all threads takes 1 us on an idle machine and far longer on a busy one.
    bool CopiesPay() const {
        return threads_ == 1 || NeedsNoWhole() || (split_rows_ ? p_.m : p_.n) >= kMinSideForCopies * threads_;
    }

    bool NeedsNoWhole() const { return !split_rows_ && direct_a_; }
    int64_t WholePanels() const { return NeedsNoWhole() ? 0 : split_rows_ ? column_panels_ : row_panels_; }

    Acc *WholeBuffer(int64_t k_begin, int64_t k_end) const {
        const int64_t width = split_rows_ ? kColumns : kRows;
        return GemmWorkspace<Acc>(GemmBuffer::kShared, WholePanels() * width * (k_end - k_begin));
    }

    void PackWhole(int64_t begin, int64_t end, int64_t k_begin, int64_t k_end, Acc *whole) const {
        const int64_t width = split_rows_ ? kColumns : kRows;
        for (int64_t k = k_begin; k < k_end; k += steps_) {
            const int64_t steps = std::min(steps_, k_end - k);
            Acc *block = whole + (k - k_begin) * WholePanels() * width;
            for (int64_t i = begin; i < end; ++i) {
                Acc *panel = block + i * steps * width;
                if (split_rows_) {
                    if (!IsDirectB(i)) {
                        PackB(i, k, steps, panel);
                    }
                } else {
                    PackA(i, k, steps, panel);
                }
            }
        }
    }

    void Multiply(int64_t begin, int64_t end, int64_t k_begin, int64_t k_end, const Acc *whole) const {
        if (split_rows_) {
            DoRows(begin, end, k_begin, k_end, whole);
        } else {
            DoColumns(begin, end, k_begin, k_end, whole);
        }
    }

    void DoColumns(int64_t begin, int64_t end, int64_t k_begin, int64_t k_end, const Acc *whole) const {
        const bool once = rows_ >= row_panels_;
        Acc *own =
            GemmWorkspace<Acc>(GemmBuffer::kPrivate, (once ? 1 : std::min(columns_, end - begin)) * kColumns * steps_);
        for (int64_t jc = begin; jc < end; jc += columns_) {
            const int64_t j_end = std::min(end, jc + columns_);
            for (int64_t k = k_begin; k < k_end; k += steps_) {
                const int64_t steps = std::min(steps_, k_end - k);
                const Panels<Acc> a =
                    direct_a_ ? DirectA(k) : PackedPanels(whole + (k - k_begin) * row_panels_ * kRows, steps, kRows);
                for (int64_t ic = 0; ic < row_panels_; ic += rows_) {
                    const int64_t i_end = std::min(row_panels_, ic + rows_);
                    for (int64_t j = jc; j < j_end; ++j) {
                        Acc *panel = own + (once ? 0 : j - jc) * kColumns * steps;
                        if (ic == 0 && !IsDirectB(j)) {
                            PackB(j, k, steps, panel);
                        }
                        DoStrip(a, ic, i_end, ic, panel, j, k, steps);
                    }
                }
            }
        }
    }

    void DoRows(int64_t begin, int64_t end, int64_t k_begin, int64_t k_end, const Acc *whole) const {
        Acc *own = GemmWorkspace<Acc>(GemmBuffer::kPrivate, std::min(rows_, end - begin) * kRows * steps_);
        for (int64_t ic = begin; ic < end; ic += rows_) {
            const int64_t i_end = std::min(end, ic + rows_);
            for (int64_t k = k_begin; k < k_end; k += steps_) {
                const int64_t steps = std::min(steps_, k_end - k);
                for (int64_t i = ic; i < i_end && !direct_a_; ++i) {
                    PackA(i, k, steps, own + (i - ic) * kRows * steps);
                }
                const Panels<Acc> a = direct_a_ ? DirectA(k) : PackedPanels(own, steps, kRows);
                const Acc *b = whole + (k - k_begin) * column_panels_ * kColumns;
                for (int64_t j = 0; j < column_panels_; ++j) {
                    DoStrip(a, ic, i_end, direct_a_ ? ic : 0, b + j * kColumns * steps, j, k, steps);
                }
            }
        }
    }

    // All tiles of row panels [begin, end) in column panel `j`; A's panel `begin` is number `first` in `a`, and B's
    // panel is packed unless it is used as it lies.
    void DoStrip(const Panels<Acc> &a, int64_t begin, int64_t end, int64_t first, const Acc *packed_b, int64_t j,
                 int64_t k, int64_t steps) const {
        const int64_t column = j * kColumns;
        const int columns = static_cast<int>(std::min<int64_t>(kColumns, p_.n - column));
        const int vectors = (columns + kLanes - 1) / kLanes;
        TileArgs<Acc> tile;
        tile.k = steps;
        tile.a = a.base + first * a.panel;
        tile.a_row = a.item;
        tile.a_step = a.step;
        tile.b = packed_b;
        tile.b_step = kColumns;
        if constexpr (std::is_same_v<In, Acc>) {
            if (IsDirectB(j)) {
                tile.b = p_.b + k * p_.ldb + column;
                tile.b_step = p_.ldb;
            }
        }
        tile.c = p_.c + begin * kRows * p_.ldc + column;
        tile.ldc = p_.ldc;
        tile.accumulate = p_.accumulate || k > 0;
        tile.bias = !tile.accumulate && p_.bias != nullptr ? p_.bias + column : nullptr;
        tile.last_columns = columns - (vectors - 1) * kLanes;
        for (int64_t i = begin; i < end; ++i) {
            const int rows = static_cast<int>(std::min<int64_t>(kRows, p_.m - i * kRows));
            if constexpr (std::is_same_v<In, Acc>) {
                (a.item == 1 ? FindTile<Acc, true>(rows, vectors) : FindTile<Acc, false>(rows, vectors))(tile);
            } else {
                FindTile<Acc, true>(rows, vectors)(tile);
            }
            tile.a += a.panel;
            tile.c += kRows * p_.ldc;
        }
    }

    static Panels<Acc> PackedPanels(const Acc *base, int64_t steps, int64_t width) {
        return {base, steps * width, 1, width};
    }

    Panels<Acc> DirectA(int64_t k) const {
        if constexpr (std::is_same_v<In, Acc>) {
            if (p_.trans_a) {
                return {p_.a + k * p_.lda, kRows, 1, p_.lda};
            }
            return {p_.a + k, kRows * p_.lda, p_.lda, 1};
        }
        return {};
    }

    // Only whole vectors can be read where they lie.
    bool IsDirectB(int64_t j) const { return direct_b_ && (j + 1) * kColumns <= p_.n; }

    void PackA(int64_t i, int64_t k, int64_t steps, Acc *to) const {
        const int64_t row = i * kRows;
        const int count = static_cast<int>(std::min<int64_t>(kRows, p_.m - row));
        if (p_.trans_a) {
            PackCopied<kRows>(p_.a + k * p_.lda + row, p_.lda, count, p_.m - row, steps, to);
        } else {
            PackTransposed<kRows>(p_.a + row * p_.lda + k, p_.lda, count, steps, to);
        }
    }

    void PackB(int64_t j, int64_t k, int64_t steps, Acc *to) const {
        const int64_t column = j * kColumns;
        const int count = static_cast<int>(std::min<int64_t>(kColumns, p_.n - column));
        if (p_.trans_b) {
            PackTransposed<kColumns>(p_.b + column * p_.ldb + k, p_.ldb, count, steps, to);
        } else {
            PackCopied<kColumns>(p_.b + k * p_.ldb + column, p_.ldb, count, count, steps, to);
        }
    }

    const Product<In, Acc> p_;
    int64_t row_panels_, column_panels_;
    int64_t steps_;           // of k in a block
    int64_t rows_, columns_;  // panels in a block
    bool direct_a_, direct_b_;
    bool parallel_, split_rows_;
    int64_t threads_;
    int64_t group_;  // steps of k for which the whole operand is packed at once
};

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_BLOCKED_H_
