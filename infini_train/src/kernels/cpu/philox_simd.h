// Philox on whole vectors, for the CPU kernels: included once for each target of Highway, after <hwy/highway.h>.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_PHILOX_SIMD_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_PHILOX_SIMD_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_PHILOX_SIMD_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_PHILOX_SIMD_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/core/philox.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Writes the 4 * blocks words of the blocks that begin `first` blocks after `state`, in order: those of PhiloxBlock.
// Each 64-bit lane computes one block, holding 32-bit numbers in its lower half; what the upper half holds in between
// doesn't matter, for multiplications read the lower one alone.
inline void PhiloxWords(const Generator::State &state, uint64_t first, int64_t blocks, uint32_t *HWY_RESTRICT words) {
    int64_t block = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::ScalableTag<uint64_t> d64;
    const hn::Repartition<uint32_t, decltype(d64)> d32;
    constexpr auto kLanes = static_cast<int64_t>(HWY_LANES(uint64_t));
    using V64 = decltype(hn::Zero(d64));
    const auto as32 = [&](V64 v) { return hn::BitCast(d32, v); };

    // The even lanes take the first half of the blocks, so that interleaving below gives them in order.
    HWY_ALIGN uint64_t lane_block[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
        lane_block[lane] = static_cast<uint64_t>(lane % 2 == 0 ? lane / 2 : kLanes / 2 + lane / 2);
    }
    const V64 offsets = hn::Load(d64, lane_block);
    const V64 low_half = hn::Set(d64, 0xFFFFFFFFU);
    const auto m0 = hn::Set(d32, 0xD2511F53U);
    const auto m1 = hn::Set(d32, 0xCD9E8D57U);
    for (; block + kLanes <= blocks; block += kLanes) {
        const V64 counter = hn::Add(offsets, hn::Set(d64, state.offset + first + static_cast<uint64_t>(block)));
        V64 c0 = counter;
        V64 c1 = hn::ShiftRight<32>(counter);
        V64 c2 = hn::Set(d64, state.stream);
        V64 c3 = hn::ShiftRight<32>(c2);
        auto k0 = static_cast<uint32_t>(state.seed);
        auto k1 = static_cast<uint32_t>(state.seed >> 32);
        for (int round = 0; round < 10; ++round) {
            const V64 p0 = hn::MulEven(as32(c0), m0);
            const V64 p1 = hn::MulEven(as32(c2), m1);
            c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d64, k0));
            c1 = p1;
            c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d64, k1));
            c3 = p0;
            k0 += 0x9E3779B9U;
            k1 += 0xBB67AE85U;
        }
        const V64 w01 = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
        const V64 w23 = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
        uint32_t *to = words + 4 * block;
        hn::StoreU(as32(hn::InterleaveLower(d64, w01, w23)), d32, to);
        hn::StoreU(as32(hn::InterleaveUpper(d64, w01, w23)), d32, to + 2 * kLanes);
    }
#endif
    for (; block < blocks; ++block) {
        const auto last = PhiloxBlock(state.seed, state.stream, state.offset + first + static_cast<uint64_t>(block));
        for (int64_t i = 0; i < 4; ++i) {
            words[4 * block + i] = last[static_cast<size_t>(i)];
        }
    }
}

}  // namespace infini_train::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
