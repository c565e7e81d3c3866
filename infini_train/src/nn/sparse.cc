#include "infini_train/include/nn/modules/sparse.h"

#include <memory>

#include "infini_train/include/autograd/sparse.h"
#include "infini_train/include/nn/init.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, Device device, DataType dtype)
    : CloneableModule(kType) {
    if (num_embeddings < 1 || embedding_dim < 1) {
        Throw<ValueError>("Embedding: expected at least 1 vector of at least 1 element, got {} of {}", num_embeddings,
                          embedding_dim);
    }
    const auto weight = init::Normal(Tensor::Empty({num_embeddings, embedding_dim}, dtype, device));
    RegisterParameter(kParamWeightName, weight->RequiresGrad());
}

Embedding::Embedding(const TensorPtr &weight) : CloneableModule(kType) {
    if (weight == nullptr) {
        throw ValueError("Embedding: expected a weight, got null");
    }
    if (weight->NumDims() != 2) {
        Throw<ShapeError>("Embedding: expected a weight (num_embeddings, embedding_dim), got {}",
                          FormatDims(weight->Dims()));
    }
    RegisterParameter(kParamWeightName, weight);
}

TensorList Embedding::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return std::make_shared<autograd::Embedding>()->Apply({inputs[0], parameter(kParamWeightName)});
}

std::string Embedding::ExtraRepr() const {
    const auto &dims = parameter(kParamWeightName)->Dims();
    return fmt::format("{}, {}", dims[0], dims[1]);
}

}  // namespace infini_train::nn
