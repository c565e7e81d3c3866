// The inner loops of the convolutions: tiles of sums that stay in registers. Compiled once for each Highway target,
// hence the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_CONV_TILES_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_CONV_TILES_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_CONV_TILES_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_CONV_TILES_H_
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kMaxTileRows = 6;
constexpr int kMaxTileVectors = 4;

// The widest tile of so many rows whose sums, operands and a broadcast value fit into the registers.
constexpr int TileVectors(int rows) {
    constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64;
    return kManyRegisters ? 4 : rows > 4 ? 2 : 3;
}

// Cuts rows into tiles: of 4 where that leaves no remainder and 6 does, else of nearly equal heights up to 6.
inline int64_t NumTiles(int64_t rows) {
    const int64_t height = rows % 4 == 0 && rows % 6 != 0 ? 4 : kMaxTileRows;
    return (rows + height - 1) / height;
}
inline int64_t TileBegin(int64_t rows, int64_t tile) {
    const int64_t tiles = NumTiles(rows);
    return rows / tiles * tile + std::min(tile, rows % tiles);
}

/// out[row] = init[row] + the sum over taps of weights[tap][row] times a vector of the input at each of x.
template <typename T>
struct TapTileArgs {
    const T *weights = nullptr;        // (taps, rows)
    const int64_t *offsets = nullptr;  // where a tap's input lies relative to x, in elements
    int64_t taps = 0;
    const T *init = nullptr;  // null: zeros
    const T *x[kMaxTileVectors] = {};
    T *out[kMaxTileVectors] = {};
    int64_t out_row = 0;  // elements from a row of out to the next
    int64_t valid[kMaxTileVectors] = {};
};

template <class D, typename T, class V, int kRows, int kVectors>
HWY_INLINE void SumTaps(D d, const TapTileArgs<T> &args, V (&sums)[kRows][kVectors]) {
    for (int r = 0; r < kRows; ++r) {
        const V init = args.init == nullptr ? hn::Zero(d) : hn::Set(d, args.init[r]);
        for (int v = 0; v < kVectors; ++v) {
            sums[r][v] = init;
        }
    }
    const T *x[kVectors];
    for (int v = 0; v < kVectors; ++v) {
        x[v] = args.x[v];
    }
    const T *w = args.weights;
    const int64_t *const end = args.offsets + args.taps;
    for (const int64_t *offset = args.offsets; offset != end; ++offset) {
        V in[kVectors];
        for (int v = 0; v < kVectors; ++v) {
            in[v] = hn::LoadU(d, x[v] + *offset);
        }
        for (int r = 0; r < kRows; ++r) {
            const V factor = hn::Set(d, w[r]);
            for (int v = 0; v < kVectors; ++v) {
                sums[r][v] = hn::MulAdd(factor, in[v], sums[r][v]);
            }
        }
        w += kRows;
    }
}

template <typename T, int kRows, int kVectors>
void TapTile(const TapTileArgs<T> &args) {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    V sums[kRows][kVectors];
    SumTaps(d, args, sums);
    for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) {
            hn::StoreU(sums[r][v], d, args.out[v] + r * args.out_row);
        }
    }
}

/// out[row] += the sum over taps of weights[tap][row] times a vector of the input at each of x, of which only the first
/// `valid` elements count.
template <typename T, int kRows, int kVectors>
void AddTile(const TapTileArgs<T> &args) {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    V sums[kRows][kVectors];
    SumTaps(d, args, sums);
    for (int v = 0; v < kVectors; ++v) {
        const auto mask = hn::FirstN(d, static_cast<size_t>(args.valid[v]));
        for (int r = 0; r < kRows; ++r) {
            T *const out = args.out[v] + r * args.out_row;
            hn::StoreU(hn::Add(hn::LoadU(d, out), hn::IfThenElseZero(mask, sums[r][v])), d, out);
        }
    }
}

/// out[row][tap] += the dot product, over images and vectors, of row of y and the input as the tap sees it.
template <typename T>
struct DotTileArgs {
    const T *y = nullptr;  // vectors one after the other
    int64_t y_row = 0, y_image = 0;
    const T *x = nullptr;
    int64_t x_image = 0;
    const int64_t *x_at = nullptr;     // where each vector lies in x
    const int64_t *offsets = nullptr;  // where each tap's input lies relative to it
    int64_t images = 0;
    int64_t full = 0, partial = 0;  // numbers of vectors: first those used whole, then those of `tail` elements
    int64_t tail = 0;
    T *out = nullptr;
    int64_t out_row = 0;
};

template <bool kMasked, class D, typename T, class M, class V, size_t kRows, size_t kTaps>
HWY_INLINE void DotStep(D d, const T *y, int64_t y_row, const T *x, const int64_t (&offsets)[kTaps], M mask,
                        V (&sums)[kRows][kTaps]) {
    V rows[kRows];
    for (size_t r = 0; r < kRows; ++r) {
        rows[r] = hn::LoadU(d, y + static_cast<int64_t>(r) * y_row);
    }
    for (size_t t = 0; t < kTaps; ++t) {
        V in = hn::LoadU(d, x + offsets[t]);
        if constexpr (kMasked) {
            in = hn::IfThenElseZero(mask, in);
        }
        for (size_t r = 0; r < kRows; ++r) {
            sums[r][t] = hn::MulAdd(rows[r], in, sums[r][t]);
        }
    }
}

template <typename T, int kRows, int kTaps>
void DotTile(const DotTileArgs<T> &args) {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto mask = hn::FirstN(d, static_cast<size_t>(args.tail));
    V sums[kRows][kTaps];
    for (int r = 0; r < kRows; ++r) {
        for (int t = 0; t < kTaps; ++t) {
            sums[r][t] = hn::Zero(d);
        }
    }
    int64_t offsets[kTaps];
    for (int t = 0; t < kTaps; ++t) {
        offsets[t] = args.offsets[t];
    }
    for (int64_t image = 0; image < args.images; ++image) {
        const T *y = args.y + image * args.y_image;
        const T *const x = args.x + image * args.x_image;
        const int64_t *at = args.x_at;
        for (int64_t i = 0; i < args.full; ++i, y += lanes, ++at) {
            DotStep<false>(d, y, args.y_row, x + *at, offsets, mask, sums);
        }
        // Past the end of a row lie values that this tap doesn't see; as zeros not even a NaN among them counts.
        for (int64_t i = 0; i < args.partial; ++i, y += lanes, ++at) {
            DotStep<true>(d, y, args.y_row, x + *at, offsets, mask, sums);
        }
    }
    for (int r = 0; r < kRows; ++r) {
        for (int t = 0; t < kTaps; ++t) {
            args.out[r * args.out_row + t] += hn::GetLane(hn::SumOfLanes(d, sums[r][t]));
        }
    }
}

template <typename Args>
using Tile = void (*)(const Args &);

// The tile of a shape, from tables of all shapes; those too large for the registers stay null and unused.
template <typename T, size_t kIndex>
constexpr Tile<TapTileArgs<T>> TapTileAt() {
    constexpr int kRows = static_cast<int>(kIndex) / kMaxTileVectors + 1;
    constexpr int kVectors = static_cast<int>(kIndex) % kMaxTileVectors + 1;
    if constexpr (kVectors <= TileVectors(kRows)) {
        return &TapTile<T, kRows, kVectors>;
    } else {
        return nullptr;
    }
}
template <typename T, size_t kIndex>
constexpr Tile<TapTileArgs<T>> AddTileAt() {
    constexpr int kRows = static_cast<int>(kIndex) / kMaxTileVectors + 1;
    constexpr int kVectors = static_cast<int>(kIndex) % kMaxTileVectors + 1;
    if constexpr (kVectors <= TileVectors(kRows)) {
        return &AddTile<T, kRows, kVectors>;
    } else {
        return nullptr;
    }
}
template <typename T, size_t kIndex>
constexpr Tile<DotTileArgs<T>> DotTileAt() {
    constexpr int kRows = static_cast<int>(kIndex) / kMaxTileVectors + 1;
    constexpr int kTaps = static_cast<int>(kIndex) % kMaxTileVectors + 1;
    if constexpr (kTaps <= TileVectors(kRows)) {
        return &DotTile<T, kRows, kTaps>;
    } else {
        return nullptr;
    }
}

template <typename T>
Tile<TapTileArgs<T>> FindTapTile(int64_t rows, int64_t vectors) {
    static constexpr auto kTiles = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
        return std::array{TapTileAt<T, kIndex>()...};
    }
    (std::make_index_sequence<kMaxTileRows * kMaxTileVectors>());
    return kTiles[static_cast<size_t>((rows - 1) * kMaxTileVectors + vectors - 1)];
}
template <typename T>
Tile<TapTileArgs<T>> FindAddTile(int64_t rows, int64_t vectors) {
    static constexpr auto kTiles = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
        return std::array{AddTileAt<T, kIndex>()...};
    }
    (std::make_index_sequence<kMaxTileRows * kMaxTileVectors>());
    return kTiles[static_cast<size_t>((rows - 1) * kMaxTileVectors + vectors - 1)];
}
template <typename T>
Tile<DotTileArgs<T>> FindDotTile(int64_t rows, int64_t taps) {
    static constexpr auto kTiles = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
        return std::array{DotTileAt<T, kIndex>()...};
    }
    (std::make_index_sequence<kMaxTileRows * kMaxTileVectors>());
    return kTiles[static_cast<size_t>((rows - 1) * kMaxTileVectors + taps - 1)];
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_CONV_TILES_H_
