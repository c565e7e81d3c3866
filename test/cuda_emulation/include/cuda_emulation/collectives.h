// Barriers, shuffles and votes.
#pragma once

namespace cuda_emulation {

extern const uint32_t lane asm("cuda_emulation_lane");

enum class WarpOperation { kBarrier, kShuffle, kVote, kMatch, kMatrixProduct };

/// Every lane of `mask` comes with its `data`; the last one to come runs `exchange` on all of them, by lane.
void WarpCollective(uint32_t mask, WarpOperation operation, void *data, void (*exchange)(void **lanes, uint32_t mask),
                    const void *caller);
/// The same for all threads of the block that haven't returned, by number; null for those that have.
void BlockCollective(void *data, void (*exchange)(void **threads, uint32_t count), const void *caller);
/// Reports a defect and ends the block.
[[noreturn]] void Trap(const char *why, const void *caller);
/// Tells the checker, if there is one.
void OnFence();

void CopyAsync(void *to, const void *from, size_t size, size_t zeros, const void *caller);
void CommitCopies();
void WaitForCopies(unsigned groups);

template <typename T>
struct ShuffledLane {
    T value, result;
    int source;
};

template <typename T>
CUDA_EMULATION_UNCHECKED T Shuffle(uint32_t mask, T value, int source, const void *caller) {
    ShuffledLane<T> mine{value, value, source};
    const auto exchange = [](void **lanes, uint32_t taking_part) CUDA_EMULATION_UNCHECKED {
        for (int i = 0; i < warpSize; ++i) {
            if ((taking_part >> i & 1U) == 0) {
                continue;
            }
            auto *to = static_cast<ShuffledLane<T> *>(lanes[i]);
            if ((taking_part >> to->source & 1U) == 0) {
                Trap("a shuffle reads a lane outside of its mask", __builtin_return_address(0));
            }
            to->result = static_cast<ShuffledLane<T> *>(lanes[to->source])->value;
        }
    };
    WarpCollective(mask, WarpOperation::kShuffle, &mine, exchange, caller);
    return mine.result;
}

struct VotingLane {
    bool vote;
    uint32_t ballot;
};

CUDA_EMULATION_UNCHECKED inline uint32_t Ballot(uint32_t mask, bool vote, const void *caller) {
    VotingLane mine{vote, 0};
    const auto exchange = [](void **lanes, uint32_t taking_part) CUDA_EMULATION_UNCHECKED {
        uint32_t ballot = 0;
        for (int i = 0; i < warpSize; ++i) {
            if ((taking_part >> i & 1U) != 0 && static_cast<VotingLane *>(lanes[i])->vote) {
                ballot |= 1U << i;
            }
        }
        for (int i = 0; i < warpSize; ++i) {
            if ((taking_part >> i & 1U) != 0) {
                static_cast<VotingLane *>(lanes[i])->ballot = ballot;
            }
        }
    };
    WarpCollective(mask, WarpOperation::kVote, &mine, exchange, caller);
    return mine.ballot;
}

struct CountedThread {
    bool counts;
    int count;
};

CUDA_EMULATION_UNCHECKED inline int CountInBlock(bool counts, const void *caller) {
    CountedThread mine{counts, 0};
    const auto exchange = [](void **threads, uint32_t count) CUDA_EMULATION_UNCHECKED {
        int sum = 0;
        for (uint32_t i = 0; i < count; ++i) {
            sum += threads[i] != nullptr && static_cast<CountedThread *>(threads[i])->counts ? 1 : 0;
        }
        for (uint32_t i = 0; i < count; ++i) {
            if (threads[i] != nullptr) {
                static_cast<CountedThread *>(threads[i])->count = sum;
            }
        }
    };
    BlockCollective(&mine, exchange, caller);
    return mine.count;
}

}  // namespace cuda_emulation

// Each is a call of its own, whose return address is the line in the kernel.
#define CUDA_EMULATION_CALL __attribute__((noinline)) CUDA_EMULATION_UNCHECKED
#define CUDA_EMULATION_CALLER __builtin_return_address(0)

CUDA_EMULATION_CALL inline void __syncthreads() {
    cuda_emulation::BlockCollective(nullptr, nullptr, CUDA_EMULATION_CALLER);
}
CUDA_EMULATION_CALL inline int __syncthreads_count(int predicate) {
    return cuda_emulation::CountInBlock(predicate != 0, CUDA_EMULATION_CALLER);
}
CUDA_EMULATION_CALL inline int __syncthreads_or(int predicate) {
    return cuda_emulation::CountInBlock(predicate != 0, CUDA_EMULATION_CALLER) != 0 ? 1 : 0;
}
CUDA_EMULATION_CALL inline int __syncthreads_and(int predicate) {
    return cuda_emulation::CountInBlock(predicate == 0, CUDA_EMULATION_CALLER) == 0 ? 1 : 0;
}
CUDA_EMULATION_CALL inline void __syncwarp(unsigned mask = 0xffffffffU) {
    cuda_emulation::WarpCollective(mask, cuda_emulation::WarpOperation::kBarrier, nullptr, nullptr,
                                   CUDA_EMULATION_CALLER);
}
inline void __threadfence() {
    cuda_emulation::OnFence();
}
inline void __threadfence_block() {}
[[noreturn]] CUDA_EMULATION_CALL inline void __trap() {
    cuda_emulation::Trap("__trap()", CUDA_EMULATION_CALLER);
}

template <typename T>
CUDA_EMULATION_CALL T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
    const int mine = static_cast<int>(cuda_emulation::lane);
    return cuda_emulation::Shuffle(mask, value, (mine & ~(width - 1)) | (source & (width - 1)), CUDA_EMULATION_CALLER);
}
template <typename T>
CUDA_EMULATION_CALL T __shfl_xor_sync(unsigned mask, T value, int other, int width = warpSize) {
    const int mine = static_cast<int>(cuda_emulation::lane);
    const int source = mine ^ other;
    return cuda_emulation::Shuffle(mask, value, source / width > mine / width ? mine : source, CUDA_EMULATION_CALLER);
}
template <typename T>
CUDA_EMULATION_CALL T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    const int mine = static_cast<int>(cuda_emulation::lane);
    const int source = mine + static_cast<int>(delta);
    return cuda_emulation::Shuffle(mask, value, source / width == mine / width ? source : mine, CUDA_EMULATION_CALLER);
}
template <typename T>
CUDA_EMULATION_CALL T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    const int mine = static_cast<int>(cuda_emulation::lane);
    const int in_group = mine & (width - 1);
    const int source = in_group >= static_cast<int>(delta) ? mine - static_cast<int>(delta) : mine;
    return cuda_emulation::Shuffle(mask, value, source, CUDA_EMULATION_CALLER);
}
CUDA_EMULATION_CALL inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return cuda_emulation::Ballot(mask, predicate != 0, CUDA_EMULATION_CALLER);
}
CUDA_EMULATION_CALL inline int __any_sync(unsigned mask, int predicate) {
    return cuda_emulation::Ballot(mask, predicate != 0, CUDA_EMULATION_CALLER) != 0 ? 1 : 0;
}
CUDA_EMULATION_CALL inline int __all_sync(unsigned mask, int predicate) {
    return cuda_emulation::Ballot(mask, predicate != 0, CUDA_EMULATION_CALLER) == mask ? 1 : 0;
}
