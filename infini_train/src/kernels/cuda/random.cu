#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "infini_train/include/core/philox.h"

#include "infini_train/src/kernels/cuda/convert.cuh"
#include "infini_train/src/kernels/cuda/random.h"
#include "infini_train/src/kernels/cuda/random_shift.cuh"
#include "infini_train/src/kernels/cuda/strides.cuh"
#include "infini_train/src/kernels/uniform_range.h"

namespace infini_train::cuda {
namespace {

// A thread makes the numbers of one block of four 32-bit words: kCount values of type C, from the draw's element
// block * kCount on.

struct UniformFloatDraw {
    using Type = float;
    static constexpr int kCount = 4;
    float from, range, last;

    __device__ __forceinline__ void operator()(const std::array<uint32_t, 4> &words, float (&values)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float value = from + UniformFloat(words[i]) * range;
            values[i] = value < last ? value : last;  // rounding must not give `to` itself
        }
    }
};

struct UniformDoubleDraw {
    using Type = double;
    static constexpr int kCount = 2;
    double from, range, last;

    __device__ __forceinline__ void operator()(const std::array<uint32_t, 4> &words, double (&values)[2]) const {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const double value = from + UniformDouble(words[2 * i], words[2 * i + 1]) * range;
            values[i] = value < last ? value : last;
        }
    }
};

struct NormalFloatDraw {
    using Type = float;
    static constexpr int kCount = 4;
    float mean, std;

    __device__ __forceinline__ void operator()(const std::array<uint32_t, 4> &words, float (&values)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const std::array<float, 2> pair = NormalFloats(words[i], words[i + 1]);
            values[i] = mean + pair[0] * std;
            values[i + 1] = mean + pair[1] * std;
        }
    }
};

struct NormalDoubleDraw {
    using Type = double;
    static constexpr int kCount = 2;
    double mean, std;

    __device__ __forceinline__ void operator()(const std::array<uint32_t, 4> &words, double (&values)[2]) const {
        const std::array<double, 2> pair = NormalDoubles(words);
        values[0] = mean + pair[0] * std;
        values[1] = mean + pair[1] * std;
    }
};

struct IntDraw {
    using Type = int64_t;
    static constexpr int kCount = 1;
    uint64_t low, range;

    __device__ __forceinline__ void operator()(const std::array<uint32_t, 4> &words, int64_t (&values)[1]) const {
        // The upper part of a 128-bit number times the range: its bias is below 2^-64.
        using Wide = unsigned __int128;
        const uint64_t upper = static_cast<uint64_t>(words[1]) << 32 | words[0];
        const uint64_t lower = static_cast<uint64_t>(words[3]) << 32 | words[2];
        const auto carry = static_cast<uint64_t>(static_cast<Wide>(lower) * range >> 64);
        const auto offset = static_cast<uint64_t>((static_cast<Wide>(upper) * range + carry) >> 64);
        values[0] = static_cast<int64_t>(low + offset);
    }
};

template <typename Draw>
__global__ void __launch_bounds__(kBlock)
    DrawKernel(void *output, DataType dtype, Offsets<1, uint64_t> offsets, bool is_contiguous, int64_t num_elements,
               RandomState random, Draw draw) {
    constexpr int kCount = Draw::kCount;
    const Generator::State state = random.Get();
    const int64_t num_blocks = (num_elements + kCount - 1) / kCount;
    for (int64_t block = GridIndex(); block < num_blocks; block += GridStep()) {
        typename Draw::Type values[kCount];
        draw(PhiloxBlock(state.seed, state.stream, state.offset + static_cast<uint64_t>(block)), values);
        const int64_t first = block * kCount;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            if (first + i < num_elements) {
                // Neighbours' stores are joined by the cache: drawing takes longer than they do.
                const typename Draw::Type value[1] = {values[i]};
                const int64_t place = is_contiguous ? first + i : offsets.At(static_cast<uint64_t>(first + i))[0];
                StoreGroup(output, dtype, place, value);
            }
        }
    }
}

template <typename Draw>
void RunDraw(const char *name, const TensorRef &output, const Generator::State &state, const Draw &draw) {
    if (output.num_elements == 0) {
        return;
    }
    // Not sorted: the draw goes row by row.
    const StridedLoop loop(output.Dims(), {{output.Dims(), output.strides}});
    const int64_t blocks = (loop.num_elements + Draw::kCount - 1) / Draw::kCount;
    Launch(name, {GridFor(blocks)}, DrawKernel<Draw>, output.data, output.dtype, Offsets<1, uint64_t>(loop),
           loop.IsContiguous(0), loop.num_elements, RandomState(state), draw);
}

}  // namespace

void UniformFillKernel(TensorRef output, double from, double to, Generator::State state) {
    if (output.dtype == DataType::kFLOAT64) {
        const double last = std::max(from, std::nextafter(to, -std::numeric_limits<double>::infinity()));
        return RunDraw("UniformFill", output, state, UniformDoubleDraw{from, to - from, last});
    }
    RunDraw("UniformFill", output, state,
            UniformFloatDraw{static_cast<float>(from), static_cast<float>(to - from),
                             kernels::LastBelow(from, to, output.dtype)});
}

void NormalFillKernel(TensorRef output, double mean, double std, Generator::State state) {
    if (output.dtype == DataType::kFLOAT64) {
        return RunDraw("NormalFill", output, state, NormalDoubleDraw{mean, std});
    }
    RunDraw("NormalFill", output, state, NormalFloatDraw{static_cast<float>(mean), static_cast<float>(std)});
}

void RandIntFillKernel(TensorRef output, int64_t low, int64_t high, Generator::State state) {
    RunDraw("RandIntFill", output, state,
            IntDraw{static_cast<uint64_t>(low), static_cast<uint64_t>(high) - static_cast<uint64_t>(low)});
}

}  // namespace infini_train::cuda
