#include "example/language_model/batch_stream.h"

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {

BatchStream::BatchStream(std::shared_ptr<const Dataset> dataset, size_t batch_size, bool shuffle, uint64_t seed,
                         size_t num_workers, size_t prefetch)
    : loader_(std::move(dataset), batch_size, shuffle, seed, /*drop_last=*/true, num_workers, prefetch) {
    if (loader_.NumBatches() == 0) {
        throw ValueError(
            fmt::format("the training data has {} sequences, less than a batch of {}; try a smaller "
                        "--batch_size, --sequence_length or --stride",
                        loader_.dataset()->Size(), batch_size));
    }
}

const DataLoader::Batch &BatchStream::Next() {
    ++at_;
    if (at_ == loader_.end()) {
        at_ = loader_.begin();
    }
    return *at_;
}

}  // namespace infini_train::example
