#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/dataset.h"

namespace infini_train {

/// Batches of a dataset, epoch by epoch:
///
///     DataLoader loader(dataset, 64, /*shuffle=*/true);
///     for (int epoch = 0; epoch < 10; ++epoch) {
///         for (const auto &[x, y] : loader) {  // x is (64, ...), the last one maybe smaller
///         }
///     }
///
/// With workers, threads of the loader's own make batches ahead of where they are looked at. The batches, their order
/// and where an exception arrives are the same for any number of workers, 0 included.
class INFINI_TRAIN_EXPORT DataLoader {
public:
    /// Inputs and targets, stacked.
    using Batch = std::pair<TensorPtr, TensorPtr>;

    /// `shuffle` takes the samples of each epoch in another order, which depends on the seed and the epoch's number
    /// alone; `drop_last` leaves a smaller last batch out. Each of `num_workers` threads makes up to `prefetch` batches
    /// ahead; they call Dataset::Batch at the same time, where ParallelFor runs serially. Throws ValueError for a null
    /// dataset, a batch size of 0 or beyond any memory, and for a prefetch of 0.
    DataLoader(std::shared_ptr<const Dataset> dataset, size_t batch_size, bool shuffle = false, uint64_t seed = 0,
               bool drop_last = false, size_t num_workers = 0, size_t prefetch = 2);

    /// An input iterator. Without workers a batch is made when it is first looked at, so that skipping one costs
    /// nothing; it throws what the dataset throws, and going on to the next batch is fine then. Copies share their
    /// position, and outlive the loader. The last one to go ends the workers, as soon as each is done with its batch.
    class INFINI_TRAIN_EXPORT Iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using iterator_concept = std::input_iterator_tag;
        using value_type = Batch;
        using difference_type = std::ptrdiff_t;
        using pointer = const Batch *;
        using reference = const Batch &;

        /// The end.
        Iterator() = default;

        /// The current batch; valid until the next increment. Throws IndexError at the end.
        reference operator*() const;
        pointer operator->() const { return &**this; }
        /// Does nothing at the end.
        Iterator &operator++();
        void operator++(int) { ++*this; }
        /// Where in the epoch it stands: 0 for the first batch, NumBatches() at the end.
        size_t BatchIndex() const;

        /// Iterators are equal at the same batch of the same pass, and where both are at an end.
        friend bool operator==(const Iterator &a, const Iterator &b) {
            return (a.AtEnd() && b.AtEnd()) || a.pass_ == b.pass_;
        }

    private:
        friend class DataLoader;
        class Pass;

        explicit Iterator(std::shared_ptr<Pass> pass) : pass_(std::move(pass)) {}
        bool AtEnd() const;

        std::shared_ptr<Pass> pass_;
    };

    /// Begins an epoch (or goes on in one, after LoadStateDict); the next call will begin the next one.
    Iterator begin();
    Iterator end() const { return {}; }

    /// Of one epoch.
    size_t NumBatches() const;
    size_t batch_size() const { return batch_size_; }
    const std::shared_ptr<const Dataset> &dataset() const { return dataset_; }

    /// The number of the epoch that the next begin() starts, at first 0.
    uint64_t epoch() const { return epoch_; }
    void SetEpoch(uint64_t epoch);

    /// Where a training that stops now goes on: behind the batch that the latest begin()'s iterator was asked for last.
    /// `epoch` and `batch` (uint64), and what the order depends on: `seed`, `batch_size`, `num_samples`, `shuffle`,
    /// `drop_last`.
    std::map<std::string, TensorPtr> StateDict() const;
    /// The next begin() goes on from there, also in an epoch begun. Throws ValueError, before anything has changed,
    /// where the batches would be others than those of the loader that wrote the state.
    void LoadStateDict(const std::map<std::string, TensorPtr> &state);

private:
    // Where a pass through the dataset stands: batches before this one have been handed out.
    struct Position {
        uint64_t epoch = 0;
        size_t batch = 0;
    };

    std::shared_ptr<const Dataset> dataset_;
    size_t batch_size_;
    bool shuffle_;
    uint64_t seed_;
    bool drop_last_;
    size_t num_workers_;
    size_t prefetch_;
    uint64_t epoch_ = 0;
    size_t first_batch_ = 0;              // of the next epoch
    std::shared_ptr<Position> position_;  // the latest pass's; null if none has begun since the position was set
};

}  // namespace infini_train
