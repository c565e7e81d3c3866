#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

/// A table of vectors: integer indices of any dims give the rows that they name, (..., embedding_dim). An index outside
/// of the table is an IndexError.
///
/// Parameter: weight (num_embeddings, embedding_dim), standard normal at first, drawn from DefaultGenerator(). Throws
/// ValueError for sizes below 1.
class INFINI_TRAIN_EXPORT Embedding : public CloneableModule<Embedding> {
public:
    static constexpr char kType[] = "Embedding";
    static constexpr char kParamWeightName[] = "weight";

    Embedding(int64_t num_embeddings, int64_t embedding_dim, Device device = {}, DataType dtype = DataType::kFLOAT32);
    /// Over a table that exists, as it is. Throws ValueError for null, ShapeError unless it has two dimensions.
    explicit Embedding(const TensorPtr &weight);

    TensorList Forward(const TensorList &inputs) override;

protected:
    std::string ExtraRepr() const override;
};

}  // namespace infini_train::nn
