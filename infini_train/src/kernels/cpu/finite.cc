#include "infini_train/src/kernels/cpu/finite.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/rows.h"
#include "infini_train/src/kernels/finite.h"

namespace infini_train::cpu {
namespace {

// Below that a thread isn't worth waking; a block is what is looked at again if there is something in it.
constexpr int64_t kGrain = 1 << 16;
constexpr int64_t kBlock = 4096;

// The bits of a floating-point type: a sign, the exponent, the mantissa.
template <typename Bits, int kMantissa>
struct Layout {
    using Type = Bits;
    static constexpr int kExponentBits = std::numeric_limits<Bits>::digits - 1 - kMantissa;
    static constexpr Bits kExponent = static_cast<Bits>((Bits{1} << kExponentBits) - 1);

    // 1 where the exponent is all ones, as in infinities and NaN alone, else 0; shifts and sums exist for every SIMD.
    static Bits IsNonFinite(Bits bits) {
        return static_cast<Bits>((static_cast<Bits>((bits >> kMantissa) & kExponent) + Bits{1}) >> kExponentBits);
    }
    static int Kind(Bits bits) {
        if (IsNonFinite(bits) == 0) {
            return 0;
        }
        if ((bits & ((Bits{1} << kMantissa) - 1)) != 0) {
            return kernels::kHasNan;
        }
        return bits >> (std::numeric_limits<Bits>::digits - 1) != 0 ? kernels::kHasNegativeInf
                                                                    : kernels::kHasPositiveInf;
    }
};

template <typename L>
int KindsInRow(const typename L::Type *data, int64_t stride, int64_t n) {
    int kinds = 0;
    for (int64_t i = 0; i < n; ++i) {
        kinds |= L::Kind(data[i * stride]);
    }
    return kinds;
}

template <typename L>
int KindsInRange(const typename L::Type *data, int64_t n) {
    using Bits = typename L::Type;
    int kinds = 0;
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t count = std::min(kBlock, n - first);
        Bits any = 0;
        for (int64_t i = 0; i < count; ++i) {
            any = static_cast<Bits>(any | L::IsNonFinite(data[first + i]));
        }
        if (any != 0) {
            kinds |= KindsInRow<L>(data + first, 1, count);
        }
    }
    return kinds;
}

template <typename L>
int Kinds(const ConstTensorRef &input) {
    const auto *data = static_cast<const typename L::Type *>(input.data);
    std::atomic<int> kinds{0};
    ParallelFor(0, input.num_elements, kGrain, [&](int64_t begin, int64_t end) {
        int found = 0;
        if (input.is_contiguous) {
            found = KindsInRange<L>(data + begin, end - begin);
        } else {
            const int64_t stride = input.ndim == 0 ? 1 : input.strides[input.ndim - 1];
            ForEachRow<1>(input.Dims(), {input.strides}, begin, end, [&](const auto &offsets, int64_t count) {
                found |= KindsInRow<L>(data + offsets[0], stride, count);
            });
        }
        kinds.fetch_or(found, std::memory_order_relaxed);
    });
    return kinds.load();
}

}  // namespace

int FindNonFiniteKernel(ConstTensorRef input) {
    switch (input.dtype) {
        case DataType::kFLOAT32:
            return Kinds<Layout<uint32_t, 23>>(input);
        case DataType::kFLOAT64:
            return Kinds<Layout<uint64_t, 52>>(input);
        case DataType::kBFLOAT16:
            return Kinds<Layout<uint16_t, 7>>(input);
        case DataType::kFLOAT16:
            return Kinds<Layout<uint16_t, 10>>(input);
        default:
            return 0;
    }
}

}  // namespace infini_train::cpu
