#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cuda_emulation::checker {

/// Who accessed a word last, or several bytes of it. Epochs number the barriers of all blocks of all launches, so that
/// a record of an earlier launch needs no clearing.
struct Record {
    uint32_t epoch;
    uint32_t pc;  // from the program's beginning
    uint16_t thread;
    uint8_t warp_epoch;
    uint8_t flags;
};
inline constexpr uint8_t kAtomic = 1;
inline constexpr uint8_t kManyInWarp = 2;   // nor is the access ordered after one of another lane,
inline constexpr uint8_t kManyInBlock = 4;  // another warp,
inline constexpr uint8_t kManyBlocks = 8;   // another block
inline constexpr uint8_t kSplit = 16;       // of a word: its bytes have records of their own

/// What is ordered before what.
class Clock {
public:
    void OnLaunch();
    void OnBlock();
    void OnBlockBarrier() { ++epoch_; }
    void OnWarpBarrier(uint32_t warp) { ++warp_epochs_[warp]; }

    void OnFence(uint16_t thread) { fences_[thread] = epoch_; }
    /// A thread that has fenced hands over, by an atomic operation, what its block wrote before to whoever comes to the
    /// same address later.
    void OnGlobalAtomic(const void *address, uint16_t thread);

    /// Whether the record's access, of this launch or, in shared memory, this block, isn't ordered before what `thread`
    /// does now.
    bool Conflicts(const Record &record, uint16_t thread, bool is_shared) const;
    /// What stays of an earlier record's flags if `thread` does the like and nothing orders the two.
    uint8_t Merged(const Record &record, uint16_t thread) const;

    Record Now(uint16_t thread, uint32_t pc, uint8_t flags) const {
        return {epoch_, pc, thread, warp_epochs_[thread / 32], flags};
    }
    bool IsOfThisBlock(const Record &record) const { return record.epoch >= block_begin_; }
    uint32_t block_begin() const { return block_begin_; }

private:
    static constexpr size_t kMaxThreads = 1024;

    // A block's writes that a thread of it has made known.
    struct Release {
        uint32_t block;
        uint32_t epoch;
        uint16_t thread;
        std::array<uint32_t, kMaxThreads> fences;
    };
    struct Acquired {
        size_t release;  // in releases_
        uint32_t epoch;  // when
        uint16_t thread;
    };

    uint32_t BlockOf(uint32_t epoch) const;
    bool Covers(const Release &release, const Record &record) const;

    uint32_t epoch_ = 1;
    uint32_t launch_begin_ = 1;
    uint32_t block_begin_ = 1;
    std::array<uint8_t, 32> warp_epochs_{};
    std::array<uint32_t, kMaxThreads> fences_{};  // the epoch of each thread's last fence, 0 for none
    std::vector<uint32_t> block_begins_;          // of this launch
    std::vector<Release> releases_;
    std::vector<std::pair<const void *, size_t>> released_at_;  // address and place in releases_
    std::vector<Acquired> acquired_;                            // by this block
};

}  // namespace cuda_emulation::checker
