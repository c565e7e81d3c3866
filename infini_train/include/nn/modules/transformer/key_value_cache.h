#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/transformer/transformer_config.h"

namespace infini_train::nn {

/// The keys and values that a Transformer has computed for the tokens so far, so that the next token costs one position
/// instead of all of them:
///
///     nn::KeyValueCache cache(model->config(), /*batch=*/1, /*capacity=*/256);
///     auto logits = model->Decode(prompt, &cache);         // all of the prompt at once
///     logits = model->Decode(logits->Argmax(-1, true), &cache);  // then token by token
///
/// Memory is reserved for `capacity` positions of each row; the system provides it as it is written to.
class INFINI_TRAIN_EXPORT KeyValueCache {
public:
    /// Of the data type and on the device of the model's parameters. Throws ValueError for sizes below 1.
    KeyValueCache(const TransformerConfig &config, int64_t batch, int64_t capacity, Device device = {},
                  DataType dtype = DataType::kFLOAT32);

    /// Rows, positions that are filled, positions that there are.
    int64_t batch() const { return batch_; }
    int64_t length() const { return length_; }
    int64_t capacity() const { return capacity_; }
    int64_t layers() const { return static_cast<int64_t>(keys_.size()); }
    size_t SizeInBytes() const;

    /// Row i becomes what row rows[i] was, for the beams of a search; there may be more or fewer rows than before.
    /// Throws ValueError for none, IndexError for a row that isn't there.
    void Reorder(const std::vector<int64_t> &rows);
    /// Forgets all but the first `length` positions. Throws IndexError for more than there are.
    void Truncate(int64_t length);

    /// The keys (values) of a layer, (batch, kv_heads, length + more, head_size): a view whose last `more` positions
    /// are to be written. Throws IndexError if they don't fit or there is no such layer.
    TensorPtr Keys(int64_t layer, int64_t more = 0) const { return Part(keys_, layer, more); }
    TensorPtr Values(int64_t layer, int64_t more = 0) const { return Part(values_, layer, more); }
    /// Says that `more` positions of all layers have been written.
    void Advance(int64_t more);

private:
    TensorPtr Part(const TensorList &tensors, int64_t layer, int64_t more) const;
    void CheckRoom(int64_t more) const;

    int64_t batch_;
    int64_t capacity_;
    int64_t length_ = 0;
    TensorList keys_;  // each (batch, kv_heads, capacity, head_size)
    TensorList values_;
};

}  // namespace infini_train::nn
