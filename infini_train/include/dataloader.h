#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
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
class INFINI_TRAIN_EXPORT DataLoader {
public:
    /// Inputs and targets, stacked.
    using Batch = std::pair<TensorPtr, TensorPtr>;

    /// `shuffle` takes the samples of each epoch in another order, which depends on the seed and the epoch's number
    /// alone; `drop_last` leaves a smaller last batch out. Throws ValueError for a null dataset and for a batch size of
    /// 0 or beyond any memory.
    DataLoader(std::shared_ptr<const Dataset> dataset, size_t batch_size, bool shuffle = false, uint64_t seed = 0,
               bool drop_last = false);

    /// An input iterator. A batch is made when it is first looked at, so that skipping one costs nothing; it throws
    /// what the dataset throws. Copies share their position, and outlive the loader.
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

    /// Begins an epoch; the next call will begin the next one.
    Iterator begin();
    Iterator end() const { return {}; }

    /// Of one epoch.
    size_t NumBatches() const;
    size_t batch_size() const { return batch_size_; }
    const std::shared_ptr<const Dataset> &dataset() const { return dataset_; }

    /// The number of the epoch that the next begin() starts, at first 0; set it to go on from a checkpoint.
    uint64_t epoch() const { return epoch_; }
    void SetEpoch(uint64_t epoch) { epoch_ = epoch; }

private:
    std::shared_ptr<const Dataset> dataset_;
    size_t batch_size_;
    bool shuffle_;
    uint64_t seed_;
    bool drop_last_;
    uint64_t epoch_ = 0;
};

}  // namespace infini_train
