#include "infini_train/include/dataloader.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/data/prefetcher.h"
#include "infini_train/src/utils/state_reader.h"

namespace infini_train {
namespace {

// Orders take random numbers of streams of their own, apart from those of a generator with the same seed.
constexpr uint64_t kShuffleStream = uint64_t{0x73687566} << 32;

// The order of a shuffled epoch.
std::vector<int64_t> ShuffledOrder(size_t size, uint64_t seed, uint64_t epoch) {
    std::vector<int64_t> order(size);
    std::iota(order.begin(), order.end(), int64_t{0});
    Generator generator(seed, kShuffleStream ^ epoch);
    for (size_t i = size; i > 1; --i) {
        std::swap(order[i - 1], order[generator.NextBelow(i)]);
    }
    return order;
}

// The batches of one epoch, by number; may be asked by several threads.
class Epoch {
public:
    Epoch(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> order, size_t batch_size)
        : dataset_(std::move(dataset)), size_(dataset_->Size()), order_(std::move(order)), batch_size_(batch_size) {}

    DataLoader::Batch Make(size_t number) const {
        const autograd::NoGradGuard no_grad;  // which each thread has for itself
        const size_t begin = number * batch_size_;
        const size_t count = std::min(batch_size_, size_ - begin);
        if (!order_.empty()) {
            return dataset_->Batch(std::span(order_).subspan(begin, count));
        }
        std::vector<int64_t> indices(count);
        std::iota(indices.begin(), indices.end(), static_cast<int64_t>(begin));
        return dataset_->Batch(indices);
    }

private:
    // Not const: an epoch is moved to where it is used, and its order may be large.
    std::shared_ptr<const Dataset> dataset_;
    size_t size_;
    std::vector<int64_t> order_;  // empty: as they come
    size_t batch_size_;
};

}  // namespace

// One walk through the dataset.
class DataLoader::Iterator::Pass {
public:
    Pass(Epoch epoch, std::shared_ptr<Position> given, size_t num_batches, size_t num_workers, size_t ahead)
        : epoch_(std::move(epoch)),
          given_(std::move(given)),
          num_batches_(num_batches),
          num_workers_(num_workers),
          ahead_(ahead),
          position_(given_->batch) {}

    bool AtEnd() const { return position_ >= num_batches_; }
    size_t position() const { return position_; }

    void Advance() {
        if (!AtEnd()) {
            current_.reset();
            given_->batch = ++position_;
        }
    }

    const Batch &Current() {
        if (!current_) {
            // A second look at a batch that couldn't be made tries again, in this thread.
            const bool first_look = given_->batch == position_;
            given_->batch = position_ + 1;
            if (num_workers_ == 0 || !first_look) {
                current_ = epoch_.Make(position_);
            } else {
                if (!prefetcher_) {
                    prefetcher_.emplace([this](size_t index) { return epoch_.Make(index); }, position_, num_batches_,
                                        num_workers_, ahead_);
                }
                current_ = prefetcher_->Take(position_);
            }
        }
        return *current_;
    }

private:
    const Epoch epoch_;
    const std::shared_ptr<Position> given_;
    const size_t num_batches_;
    const size_t num_workers_;
    const size_t ahead_;
    size_t position_;
    std::optional<Batch> current_;
    std::optional<Prefetcher> prefetcher_;  // goes first: its threads use what is above
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
                       bool drop_last, size_t num_workers, size_t prefetch)
    : dataset_(std::move(dataset)),
      batch_size_(batch_size),
      shuffle_(shuffle),
      seed_(seed),
      drop_last_(drop_last),
      num_workers_(num_workers),
      prefetch_(prefetch) {
    if (dataset_ == nullptr) {
        throw ValueError("DataLoader: expected a dataset, got null");
    }
    // Negative numbers arrive here as huge ones.
    if (batch_size == 0 || batch_size > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
        Throw<ValueError>("DataLoader: expected a batch size of at least 1, got {}", static_cast<int64_t>(batch_size));
    }
    constexpr size_t kMany = 4096;
    if (num_workers > kMany) {
        Throw<ValueError>("DataLoader: expected 0 to {} workers, got {}", kMany, static_cast<int64_t>(num_workers));
    }
    if (prefetch == 0 || prefetch > kMany) {
        Throw<ValueError>("DataLoader: expected a prefetch of 1 to {}, got {}", kMany, static_cast<int64_t>(prefetch));
    }
}

size_t DataLoader::NumBatches() const {
    const size_t size = dataset_->Size();
    return size / batch_size_ + (!drop_last_ && size % batch_size_ != 0 ? 1 : 0);
}

void DataLoader::SetEpoch(uint64_t epoch) {
    epoch_ = epoch;
    first_batch_ = 0;
    position_ = nullptr;
}

DataLoader::Iterator DataLoader::begin() {
    auto position = std::make_shared<Position>(Position{epoch_, first_batch_});
    std::vector<int64_t> order = shuffle_ ? ShuffledOrder(dataset_->Size(), seed_, epoch_) : std::vector<int64_t>();
    Iterator iterator(std::make_shared<Iterator::Pass>(Epoch(dataset_, std::move(order), batch_size_), position,
                                                       NumBatches(), num_workers_, num_workers_ * prefetch_));
    position_ = std::move(position);
    ++epoch_;
    first_batch_ = 0;
    return iterator;
}

std::map<std::string, TensorPtr> DataLoader::StateDict() const {
    Position position = position_ != nullptr ? *position_ : Position{epoch_, first_batch_};
    if (position_ != nullptr && position.batch >= NumBatches()) {
        position = {position.epoch + 1, 0};
    }
    const auto number = [](uint64_t value) { return Tensor::FromScalar(value, DataType::kUINT64); };
    return {{"epoch", number(position.epoch)},
            {"batch", number(position.batch)},
            {"seed", number(seed_)},
            {"batch_size", number(batch_size_)},
            {"num_samples", number(dataset_->Size())},
            {"shuffle", number(shuffle_ ? 1 : 0)},
            {"drop_last", number(drop_last_ ? 1 : 0)}};
}

void DataLoader::LoadStateDict(const std::map<std::string, TensorPtr> &state) {
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    StateReader reader(state);
    const auto epoch = reader.TakeInteger<uint64_t>("epoch", 0, kMost, 0);
    const auto batch = reader.TakeInteger<uint64_t>("batch", 0, kMost, 0);
    const auto expect = [&](const char *name, uint64_t own) {
        const auto value = reader.TakeInteger<uint64_t>(name, 0, kMost, own);
        if (value != own) {
            reader.AddProblem(fmt::format("{} is {}, this loader's {}", name, value, own));
        }
    };
    expect("seed", seed_);
    expect("batch_size", batch_size_);
    expect("num_samples", dataset_->Size());
    expect("shuffle", shuffle_ ? 1 : 0);
    expect("drop_last", drop_last_ ? 1 : 0);
    if (batch > 0 && batch >= NumBatches()) {
        reader.AddProblem(fmt::format("batch is {} of {}", batch, NumBatches()));
    }
    reader.Finish("DataLoader");
    SetEpoch(epoch);
    first_batch_ = batch;
}

}  // namespace infini_train
