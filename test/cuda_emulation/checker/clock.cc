#include "test/cuda_emulation/checker/clock.h"

#include <algorithm>

namespace cuda_emulation::checker {

void Clock::OnLaunch() {
    launch_begin_ = epoch_ + 1;
    block_begins_.clear();
    releases_.clear();
    released_at_.clear();
}

void Clock::OnBlock() {
    block_begin_ = ++epoch_;
    block_begins_.push_back(block_begin_);
    warp_epochs_ = {};
    fences_ = {};
    acquired_.clear();
}

void Clock::OnGlobalAtomic(const void *address, uint16_t thread) {
    for (const auto &[at, release] : released_at_) {
        const bool is_own = at == address && releases_[release].block + 1 == block_begins_.size();
        if (at == address && !is_own) {
            acquired_.push_back({release, epoch_, thread});
        }
    }
    if (fences_[thread] != 0) {
        released_at_.emplace_back(address, releases_.size());
        releases_.push_back({static_cast<uint32_t>(block_begins_.size() - 1), epoch_, thread, fences_});
    }
}

uint32_t Clock::BlockOf(uint32_t epoch) const {
    const auto after = std::upper_bound(block_begins_.begin(), block_begins_.end(), epoch);
    return static_cast<uint32_t>(after - block_begins_.begin() - 1);
}

// The write came before its thread's fence and that before a barrier and the atomic operation, or it came before a
// barrier and the releasing thread's own fence. In one epoch the order isn't known and taken to be right.
bool Clock::Covers(const Release &release, const Record &record) const {
    if (release.block != BlockOf(record.epoch)) {
        return false;
    }
    const uint32_t own_fence = release.fences[record.thread];
    const bool by_own =
        own_fence != 0 && record.epoch <= own_fence && (own_fence < release.epoch || record.thread == release.thread);
    return by_own || record.epoch < release.fences[release.thread];
}

bool Clock::Conflicts(const Record &record, uint16_t thread, bool is_shared) const {
    if (record.epoch < (is_shared ? block_begin_ : launch_begin_)) {
        return false;
    }
    if ((record.flags & kManyBlocks) != 0) {
        // Of all of the others only the number is known.
        std::vector<uint32_t> blocks;
        for (const Acquired &acquired : acquired_) {
            blocks.push_back(releases_[acquired.release].block);
        }
        std::sort(blocks.begin(), blocks.end());
        const auto distinct = std::unique(blocks.begin(), blocks.end()) - blocks.begin();
        if (static_cast<size_t>(distinct) + 1 < block_begins_.size()) {
            return true;
        }
    }
    if (record.epoch < block_begin_) {
        return std::none_of(acquired_.begin(), acquired_.end(), [&](const Acquired &acquired) {
            return (acquired.thread == thread || acquired.epoch < epoch_) &&
                   Covers(releases_[acquired.release], record);
        });
    }
    if (record.epoch != epoch_) {
        return false;
    }
    const bool alone = (record.flags & (kManyInWarp | kManyInBlock)) == 0;
    if (record.thread == thread && alone) {
        return false;
    }
    const bool ordered_in_warp = record.thread / 32 == thread / 32 && (record.flags & kManyInBlock) == 0 &&
                                 record.warp_epoch != warp_epochs_[thread / 32];
    return !ordered_in_warp;
}

uint8_t Clock::Merged(const Record &record, uint16_t thread) const {
    if (record.epoch < block_begin_) {
        return kManyBlocks;
    }
    const uint8_t kept = record.flags & (kManyInWarp | kManyInBlock | kManyBlocks);
    if (record.thread == thread) {
        return kept;
    }
    return kept | (record.thread / 32 == thread / 32 ? kManyInWarp : kManyInBlock);
}

}  // namespace cuda_emulation::checker
