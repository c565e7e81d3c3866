#include "infini_train/include/nn/modules/transformer/key_value_cache.h"

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::nn {

KeyValueCache::KeyValueCache(const TransformerConfig &config, int64_t batch, int64_t capacity, Device device,
                             DataType dtype)
    : batch_(batch), capacity_(capacity) {
    config.Check();
    if (batch < 1 || capacity < 1) {
        Throw<ValueError>("KeyValueCache: expected at least 1 row and 1 position, got {} and {}", batch, capacity);
    }
    const std::vector<int64_t> dims{batch, config.KvHeads(), capacity, config.HeadSize()};
    for (int64_t layer = 0; layer < config.layers; ++layer) {
        keys_.push_back(Tensor::Empty(dims, dtype, device));
        values_.push_back(Tensor::Empty(dims, dtype, device));
    }
}

size_t KeyValueCache::SizeInBytes() const {
    return 2 * keys_.size() * keys_[0]->SizeInBytes();
}

void KeyValueCache::Reorder(const std::vector<int64_t> &rows) {
    if (rows.empty()) {
        throw ValueError("KeyValueCache::Reorder: expected at least one row, got none");
    }
    for (const int64_t row : rows) {
        if (row < 0 || row >= batch_) {
            Throw<IndexError>("KeyValueCache::Reorder: row {} is out of range for {} rows", row, batch_);
        }
    }
    const autograd::NoGradGuard no_grad;
    for (TensorList *tensors : {&keys_, &values_}) {
        for (TensorPtr &tensor : *tensors) {
            auto dims = tensor->Dims();
            dims[0] = static_cast<int64_t>(rows.size());
            const auto reordered = Tensor::Empty(dims, tensor->Dtype(), tensor->GetDevice());
            for (size_t i = 0; i < rows.size() && length_ > 0; ++i) {
                reordered->Select(0, static_cast<int64_t>(i))
                    ->Narrow(1, 0, length_)
                    ->Copy_(tensor->Select(0, rows[i])->Narrow(1, 0, length_));
            }
            tensor = reordered;
        }
    }
    batch_ = static_cast<int64_t>(rows.size());
}

void KeyValueCache::Truncate(int64_t length) {
    if (length < 0 || length > length_) {
        Throw<IndexError>("KeyValueCache::Truncate: expected a length of 0 to {}, got {}", length_, length);
    }
    length_ = length;
}

void KeyValueCache::CheckRoom(int64_t more) const {
    if (more < 0 || more > capacity_ - length_) {
        Throw<IndexError>("KeyValueCache: {} more positions don't fit: {} of {} are filled", more, length_, capacity_);
    }
}

TensorPtr KeyValueCache::Part(const TensorList &tensors, int64_t layer, int64_t more) const {
    if (layer < 0 || layer >= layers()) {
        Throw<IndexError>("KeyValueCache: layer {} is out of range for {} layers", layer, layers());
    }
    CheckRoom(more);
    const autograd::NoGradGuard no_grad;
    return tensors[static_cast<size_t>(layer)]->Narrow(2, 0, length_ + more);
}

void KeyValueCache::Advance(int64_t more) {
    CheckRoom(more);
    length_ += more;
}

}  // namespace infini_train::nn
