#include "infini_train/src/kernels/cpu/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/core/philox.h"

#include "infini_train/src/kernels/cpu/convert.h"
#include "infini_train/src/kernels/cpu/independent_loop.h"
#include "infini_train/src/kernels/cpu/loop_nest.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"
#include "infini_train/src/kernels/float_math.h"
#include "infini_train/src/kernels/uniform_range.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/random.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/philox_simd.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

void DrawWords(const Generator::State &state, uint64_t first, int64_t blocks, uint32_t *words) {
    PhiloxWords(state, first, blocks, words);
}

// value = min(from + u * (to - from), last): rounding must not give `to` itself.
void UniformFloats(const uint32_t *words, float *values, int64_t n, float from, float range, float last) {
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
        const float value = from + UniformFloat(words[i]) * range;
        values[i] = value < last ? value : last;
    }
}

// NormalFloats of `n` words, an even number, with this library's vectorised logarithm, sine and cosine.
void NormalPairs(const uint32_t *words, float *values, int64_t n, float mean, float std) {
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; i += 2) {
        const float u = (static_cast<float>(words[i]) + 0.5F) * 0x1p-32F;
        const float radius = std::sqrt(-2.0F * math::Log(u)) * std;
        const float angle = 6.28318530717958648F * UniformFloat(words[i + 1]);
        values[i] = mean + radius * math::SinShifted(angle, 1);
        values[i + 1] = mean + radius * math::SinShifted(angle, 0);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(DrawWords);
HWY_EXPORT(NormalPairs);
HWY_EXPORT(UniformFloats);

namespace {

constexpr int64_t kRandomGrain = 4096;

// Writes output[i] = value i of the row-major order. `generate(i, n, values)` makes the n <= kChunk values of type
// `wide` from i on, a multiple of four, and may write up to three more.
template <typename Wide, typename Generate>
void FillRandom(const TensorRef &output, DataType wide, Generate generate) {
    if (output.num_elements == 0) {
        return;
    }
    const LoopNest nest(output, {}, LoopNest::Order::kRowMajor);
    const int64_t stride = nest.RowStride(0);
    const int64_t length = nest.RowLength();
    ParallelForRows(nest, kRandomGrain, [&](int64_t row, int64_t end_row, int64_t first, int64_t last) {
        Wide values[kChunk + 4];
        for (RowCursor cursor(nest, row); row < end_row; ++row, cursor.Next()) {
            for (int64_t column = first; column < last;) {
                const int64_t i = row * length + column;
                const int64_t skipped = i % 4;
                const int64_t n = std::min(kChunk - skipped, last - column);
                generate(i - skipped, n + skipped, values);
                StoreConverted(values + skipped, wide, cursor.data()[0] + column * stride, stride, output.dtype, n);
                column += n;
            }
        }
    });
}

void FloatUniform(const Generator::State &state, int64_t i, int64_t n, float *values, float from, float range,
                  float last) {
    uint32_t words[kChunk];
    HWY_DYNAMIC_DISPATCH(DrawWords)(state, static_cast<uint64_t>(i / 4), (n + 3) / 4, words);
    HWY_DYNAMIC_DISPATCH(UniformFloats)(words, values, n, from, range, last);
}

void DoubleUniform(const Generator::State &state, int64_t i, int64_t n, double *values) {
    uint32_t words[2 * kChunk];
    HWY_DYNAMIC_DISPATCH(DrawWords)(state, static_cast<uint64_t>(i / 2), (n + 1) / 2, words);
    for (int64_t k = 0; k < n; ++k) {
        values[k] = UniformDouble(words[2 * k], words[2 * k + 1]);
    }
}

}  // namespace

void UniformFillKernel(TensorRef output, double from, double to, Generator::State state) {
    if (output.dtype != DataType::kFLOAT64) {
        const auto start = static_cast<float>(from);
        const auto range = static_cast<float>(to - from);
        const float last = kernels::LastBelow(from, to, output.dtype);
        FillRandom<float>(output, DataType::kFLOAT32, [=](int64_t i, int64_t n, float *values) {
            FloatUniform(state, i, n, values, start, range, last);
        });
        return;
    }
    const double last = std::max(from, std::nextafter(to, -std::numeric_limits<double>::infinity()));
    FillRandom<double>(output, DataType::kFLOAT64, [=](int64_t i, int64_t n, double *values) {
        DoubleUniform(state, i, n, values);
        for (int64_t k = 0; k < n; ++k) {
            values[k] = std::min(from + values[k] * (to - from), last);
        }
    });
}

void NormalFillKernel(TensorRef output, double mean, double std, Generator::State state) {
    if (output.dtype != DataType::kFLOAT64) {
        const auto center = static_cast<float>(mean);
        const auto scale = static_cast<float>(std);
        FillRandom<float>(output, DataType::kFLOAT32, [=](int64_t i, int64_t n, float *values) {
            uint32_t words[kChunk];
            HWY_DYNAMIC_DISPATCH(DrawWords)(state, static_cast<uint64_t>(i / 4), (n + 3) / 4, words);
            HWY_DYNAMIC_DISPATCH(NormalPairs)(words, values, (n + 1) / 2 * 2, center, scale);
        });
        return;
    }
    FillRandom<double>(output, DataType::kFLOAT64, [=](int64_t i, int64_t n, double *values) {
        for (int64_t k = 0; k < n; k += 2) {
            const auto pair =
                NormalDoubles(PhiloxBlock(state.seed, state.stream, state.offset + static_cast<uint64_t>((i + k) / 2)));
            values[k] = mean + pair[0] * std;
            values[k + 1] = mean + pair[1] * std;
        }
    });
}

void RandIntFillKernel(TensorRef output, int64_t low, int64_t high, Generator::State state) {
    const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    FillRandom<int64_t>(output, DataType::kINT64, [=](int64_t i, int64_t n, int64_t *values) {
        for (int64_t k = 0; k < n; ++k) {
            const auto block = PhiloxBlock(state.seed, state.stream, state.offset + static_cast<uint64_t>(i + k));
            // The upper part of a 128-bit number times the range: its bias is below 2^-64.
            const uint64_t upper = static_cast<uint64_t>(block[1]) << 32 | block[0];
            const uint64_t lower = static_cast<uint64_t>(block[3]) << 32 | block[2];
            const auto carry = static_cast<uint64_t>(static_cast<unsigned __int128>(lower) * range >> 64);
            const auto offset = static_cast<uint64_t>((static_cast<unsigned __int128>(upper) * range + carry) >> 64);
            values[k] = static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
        }
    });
}

}  // namespace infini_train::cpu
#endif
