// Barriers, shuffles and votes.
#pragma once

#include <algorithm>

#include "cuda_emulation/builtins.h"

namespace cuda_emulation {

constexpr uint32_t kWholeWarp = 0xffffffffU;

template <typename T>
struct ShuffleData {
    T value;
    T result;
    int source;
};

template <typename T>
CUDA_EMULATION_UNCHECKED void ExchangeShuffle(void **lanes, uint32_t mask) {
    for (int i = 0; i < 32; ++i) {
        if ((mask >> i & 1) != 0) {
            auto *const mine = static_cast<ShuffleData<T> *>(lanes[i]);
            if ((mask >> mine->source & 1) == 0) {
                FailWarp("a shuffle reads a lane outside its mask");
            }
            mine->result = static_cast<ShuffleData<T> *>(lanes[mine->source])->value;
        }
    }
}

template <typename T>
CUDA_EMULATION_ENTRY T Shuffle(uint32_t mask, T value, int source) {
    ShuffleData<T> data{value, value, source};
    MeetInWarp(mask, WarpOperation::kShuffle, &data, &ExchangeShuffle<T>, __builtin_return_address(0));
    return data.result;
}

struct VoteData {
    bool holds;
    uint32_t ballot;
};
CUDA_EMULATION_UNCHECKED inline void ExchangeVotes(void **lanes, uint32_t mask) {
    uint32_t ballot = 0;
    for (int i = 0; i < 32; ++i) {
        ballot |= (mask >> i & 1) != 0 && static_cast<VoteData *>(lanes[i])->holds ? 1U << i : 0;
    }
    for (int i = 0; i < 32; ++i) {
        if ((mask >> i & 1) != 0) {
            static_cast<VoteData *>(lanes[i])->ballot = ballot;
        }
    }
}
CUDA_EMULATION_ENTRY inline uint32_t Ballot(uint32_t mask, bool holds) {
    VoteData data{holds, 0};
    MeetInWarp(mask, WarpOperation::kVote, &data, &ExchangeVotes, __builtin_return_address(0));
    return data.ballot;
}

struct CountData {
    bool holds;
    int count;
};
CUDA_EMULATION_UNCHECKED inline void ExchangeCounts(void **threads, uint32_t number) {
    int count = 0;
    for (uint32_t i = 0; i < number; ++i) {
        count += threads[i] != nullptr && static_cast<CountData *>(threads[i])->holds ? 1 : 0;
    }
    for (uint32_t i = 0; i < number; ++i) {
        if (threads[i] != nullptr) {
            static_cast<CountData *>(threads[i])->count = count;
        }
    }
}
CUDA_EMULATION_ENTRY inline int CountInBlock(bool holds) {
    CountData data{holds, 0};
    MeetInBlock(&data, &ExchangeCounts, __builtin_return_address(0));
    return data.count;
}
CUDA_EMULATION_ENTRY inline void SyncBlock() {
    MeetInBlock(nullptr, nullptr, __builtin_return_address(0));
}
CUDA_EMULATION_ENTRY inline void SyncWarp(uint32_t mask) {
    MeetInWarp(mask, WarpOperation::kSync, nullptr, nullptr, __builtin_return_address(0));
}

template <typename T, typename F>
CUDA_EMULATION_INLINE T ReduceInWarp(uint32_t mask, T value, F &&combine) {
    T result = value;
    bool first = true;
    for (int i = 0; i < 32; ++i) {
        if ((mask >> i & 1) != 0) {
            const T other = Shuffle(mask, value, i);
            result = first ? other : combine(result, other);
            first = false;
        }
    }
    return result;
}

}  // namespace cuda_emulation

CUDA_EMULATION_INLINE void __syncthreads() {
    ::cuda_emulation::SyncBlock();
}
CUDA_EMULATION_INLINE int __syncthreads_count(int predicate) {
    return ::cuda_emulation::CountInBlock(predicate != 0);
}
CUDA_EMULATION_INLINE int __syncthreads_or(int predicate) {
    return ::cuda_emulation::CountInBlock(predicate != 0) != 0 ? 1 : 0;
}
CUDA_EMULATION_INLINE int __syncthreads_and(int predicate) {
    return ::cuda_emulation::CountInBlock(predicate == 0) == 0 ? 1 : 0;
}
CUDA_EMULATION_INLINE void __syncwarp(unsigned mask = ::cuda_emulation::kWholeWarp) {
    ::cuda_emulation::SyncWarp(mask);
}
CUDA_EMULATION_INLINE void __threadfence() {
    ::cuda_emulation::OnFence();
}
CUDA_EMULATION_INLINE void __threadfence_block() {}
CUDA_EMULATION_INLINE void __nanosleep(unsigned) {}
[[noreturn]] CUDA_EMULATION_INLINE void __trap() {
    ::cuda_emulation::Trap("__trap()", nullptr);
}

template <typename T>
CUDA_EMULATION_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const int lane = static_cast<int>(::cuda_emulation::lane_index);
    return ::cuda_emulation::Shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <typename T>
CUDA_EMULATION_INLINE T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    const int lane = static_cast<int>(::cuda_emulation::lane_index);
    const int source = lane ^ bits;
    return ::cuda_emulation::Shuffle(mask, value, source / width > lane / width ? lane : source);
}
template <typename T>
CUDA_EMULATION_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const int lane = static_cast<int>(::cuda_emulation::lane_index);
    const bool inside = (lane & (width - 1)) + static_cast<int>(delta) < width;
    return ::cuda_emulation::Shuffle(mask, value, inside ? lane + static_cast<int>(delta) : lane);
}
template <typename T>
CUDA_EMULATION_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const int lane = static_cast<int>(::cuda_emulation::lane_index);
    const bool inside = (lane & (width - 1)) >= static_cast<int>(delta);
    return ::cuda_emulation::Shuffle(mask, value, inside ? lane - static_cast<int>(delta) : lane);
}

CUDA_EMULATION_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
    return ::cuda_emulation::Ballot(mask, predicate != 0);
}
CUDA_EMULATION_INLINE int __any_sync(unsigned mask, int predicate) {
    return ::cuda_emulation::Ballot(mask, predicate != 0) != 0 ? 1 : 0;
}
CUDA_EMULATION_INLINE int __all_sync(unsigned mask, int predicate) {
    return ::cuda_emulation::Ballot(mask, predicate != 0) == mask ? 1 : 0;
}
template <typename T>
CUDA_EMULATION_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    unsigned same = 0;
    for (int i = 0; i < 32; ++i) {
        if ((mask >> i & 1) != 0 && ::cuda_emulation::Shuffle(mask, value, i) == value) {
            same |= 1U << i;
        }
    }
    return same;
}

template <typename T>
CUDA_EMULATION_INLINE T __reduce_add_sync(unsigned mask, T value) {
    return ::cuda_emulation::ReduceInWarp(mask, value, [](T a, T b) { return static_cast<T>(a + b); });
}
template <typename T>
CUDA_EMULATION_INLINE T __reduce_max_sync(unsigned mask, T value) {
    return ::cuda_emulation::ReduceInWarp(mask, value, [](T a, T b) { return a < b ? b : a; });
}
template <typename T>
CUDA_EMULATION_INLINE T __reduce_min_sync(unsigned mask, T value) {
    return ::cuda_emulation::ReduceInWarp(mask, value, [](T a, T b) { return b < a ? b : a; });
}
template <typename T>
CUDA_EMULATION_INLINE T __reduce_or_sync(unsigned mask, T value) {
    return ::cuda_emulation::ReduceInWarp(mask, value, [](T a, T b) { return a | b; });
}
template <typename T>
CUDA_EMULATION_INLINE T __reduce_and_sync(unsigned mask, T value) {
    return ::cuda_emulation::ReduceInWarp(mask, value, [](T a, T b) { return a & b; });
}
