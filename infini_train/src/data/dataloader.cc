#include "infini_train/include/dataloader.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"

#include "infini_train/src/common/format.h"

namespace infini_train {
namespace {

// Orders take random numbers of streams of their own, apart from those of a generator with the same seed.
constexpr uint64_t kShuffleStream = uint64_t{0x73687566} << 32;

std::vector<int64_t> SampleOrder(size_t size, bool shuffle, uint64_t seed, uint64_t epoch) {
    std::vector<int64_t> order(size);
    std::iota(order.begin(), order.end(), int64_t{0});
    if (shuffle) {
        Generator generator(seed, kShuffleStream ^ epoch);
        for (size_t i = size; i > 1; --i) {
            std::swap(order[i - 1], order[generator.NextBelow(i)]);
        }
    }
    return order;
}

}  // namespace

// One walk through the dataset.
class DataLoader::Iterator::Pass {
public:
    Pass(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> order, size_t batch_size, size_t num_batches)
        : dataset_(std::move(dataset)), order_(std::move(order)), batch_size_(batch_size), num_batches_(num_batches) {}

    bool AtEnd() const { return position_ >= num_batches_; }
    size_t position() const { return position_; }

    void Advance() {
        if (!AtEnd()) {
            current_.reset();
            ++position_;
        }
    }

    const Batch &Current() {
        if (!current_) {
            const size_t begin = position_ * batch_size_;
            const size_t count = std::min(batch_size_, order_.size() - begin);
            current_ = dataset_->Batch(std::span(order_).subspan(begin, count));
        }
        return *current_;
    }

private:
    const std::shared_ptr<const Dataset> dataset_;
    const std::vector<int64_t> order_;
    const size_t batch_size_;
    const size_t num_batches_;
    size_t position_ = 0;
    std::optional<Batch> current_;
};

DataLoader::Iterator::reference DataLoader::Iterator::operator*() const {
    if (AtEnd()) {
        throw IndexError("DataLoader: expected a batch, got the end");
    }
    return pass_->Current();
}

DataLoader::Iterator &DataLoader::Iterator::operator++() {
    if (pass_ != nullptr) {
        pass_->Advance();
    }
    return *this;
}

size_t DataLoader::Iterator::BatchIndex() const {
    return pass_ != nullptr ? pass_->position() : 0;
}

bool DataLoader::Iterator::AtEnd() const {
    return pass_ == nullptr || pass_->AtEnd();
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, size_t batch_size, bool shuffle, uint64_t seed,
                       bool drop_last)
    : dataset_(std::move(dataset)), batch_size_(batch_size), shuffle_(shuffle), seed_(seed), drop_last_(drop_last) {
    if (dataset_ == nullptr) {
        throw ValueError("DataLoader: expected a dataset, got null");
    }
    // A negative number arrives here as a huge one.
    if (batch_size == 0 || batch_size > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
        Throw<ValueError>("DataLoader: expected a batch size of at least 1, got {}", static_cast<int64_t>(batch_size));
    }
}

size_t DataLoader::NumBatches() const {
    const size_t size = dataset_->Size();
    return size / batch_size_ + (!drop_last_ && size % batch_size_ != 0 ? 1 : 0);
}

DataLoader::Iterator DataLoader::begin() {
    std::vector<int64_t> order = SampleOrder(dataset_->Size(), shuffle_, seed_, epoch_);
    Iterator iterator(std::make_shared<Iterator::Pass>(dataset_, std::move(order), batch_size_, NumBatches()));
    ++epoch_;
    return iterator;
}

}  // namespace infini_train
