#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "infini_train/include/dataloader.h"

namespace infini_train::example {

/// Batches without an end: one epoch after the other, all batches of the same size.
class BatchStream {
public:
    /// Throws ValueError if the dataset has less than a batch.
    BatchStream(std::shared_ptr<const Dataset> dataset, size_t batch_size, bool shuffle, uint64_t seed,
                size_t num_workers, size_t prefetch);

    /// The next batch, valid until the call after this.
    const DataLoader::Batch &Next();

    /// For a checkpoint: its state is behind the batch that Next gave last. Load a state before the first Next.
    DataLoader &loader() { return loader_; }
    size_t BatchesPerEpoch() const { return loader_.NumBatches(); }

private:
    DataLoader loader_;
    DataLoader::Iterator at_;
};

}  // namespace infini_train::example
