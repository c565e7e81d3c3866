#pragma once

#include <array>
#include <cmath>
#include <cstdint>

/// Marks functions that kernels call on every device (nvcc takes them with --expt-relaxed-constexpr).
#if defined(__CUDACC__)
#define INFINI_TRAIN_HOST_DEVICE __host__ __device__
#else
#define INFINI_TRAIN_HOST_DEVICE
#endif

namespace infini_train {

/// Four random 32-bit numbers from a counter and a key: Philox 4x32 with ten rounds (Salmon et al., SC 2011).
INFINI_TRAIN_HOST_DEVICE constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                                                      std::array<uint32_t, 2> key) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = uint64_t{0xD2511F53U} * c0;
        const uint64_t p1 = uint64_t{0xCD9E8D57U} * c2;
        c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<uint32_t>(p1);
        c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<uint32_t>(p0);
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return {c0, c1, c2, c3};
}

/// The block at `offset` of a generator's sequence. Block b of a draw that begins at a Generator::State is
/// PhiloxBlock(state.seed, state.stream, state.offset + b): counter = (offset low, offset high, stream low, stream
/// high), key = (seed low, seed high). It holds the numbers 4 b to 4 b + 3 of the draw.
INFINI_TRAIN_HOST_DEVICE constexpr std::array<uint32_t, 4> PhiloxBlock(uint64_t seed, uint64_t stream,
                                                                       uint64_t offset) {
    return Philox4x32({static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32),
                       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

/// Uniform in [0, 1): the upper 24 bits, as a multiple of 2^-24.
INFINI_TRAIN_HOST_DEVICE constexpr float UniformFloat(uint32_t bits) {
    // Signed, because that conversion is one instruction on every CPU.
    return static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24F;
}

/// Uniform in [0, 1): the upper 53 of 64 bits, as a multiple of 2^-53.
INFINI_TRAIN_HOST_DEVICE constexpr double UniformDouble(uint32_t low, uint32_t high) {
    const uint64_t bits = static_cast<uint64_t>(high) << 32 | low;
    return static_cast<double>(static_cast<int64_t>(bits >> 11)) * 0x1p-53;
}

/// Two independent standard normal numbers from two words, by Box and Muller's method; at most 6.8 in magnitude.
INFINI_TRAIN_HOST_DEVICE inline std::array<float, 2> NormalFloats(uint32_t radius_bits, uint32_t angle_bits) {
    // The radius' uniform number is in (0, 1], so that its logarithm is finite.
    const float u = (static_cast<float>(radius_bits) + 0.5F) * 0x1p-32F;
    const float radius = std::sqrt(-2.0F * std::log(u));
    const float angle = 6.28318530717958648F * UniformFloat(angle_bits);
    return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// Two independent standard normal numbers with all of a double's digits, from one block.
INFINI_TRAIN_HOST_DEVICE inline std::array<double, 2> NormalDoubles(const std::array<uint32_t, 4> &block) {
    const double u = 1.0 - UniformDouble(block[0], block[1]);
    const double radius = std::sqrt(-2.0 * std::log(u));
    const double angle = 6.28318530717958648 * UniformDouble(block[2], block[3]);
    return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace infini_train
