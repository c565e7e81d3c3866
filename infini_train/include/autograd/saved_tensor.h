#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"

namespace infini_train::autograd {

class Function;

/// What is kept in place of a saved tensor, and how the tensor comes back. `pack` is given a tensor outside of the
/// graph, so keeping it leaks nothing; changing it in place is an AutogradError. `unpack` must give a tensor of the
/// same dims and data type.
struct SavedTensorHooks {
    std::function<std::any(const TensorPtr &)> pack;
    std::function<TensorPtr(const std::any &)> unpack;
};

/// Applies the hooks to every tensor that this thread saves for the backward pass, until the end of the scope. Of
/// nested guards only the innermost counts. Unpacking happens at each use, in whichever thread runs the backward pass.
class INFINI_TRAIN_EXPORT SavedTensorHooksGuard {
public:
    /// Throws ValueError if either is empty, AutogradError inside of a DisableSavedTensorHooksGuard.
    SavedTensorHooksGuard(std::function<std::any(const TensorPtr &)> pack,
                          std::function<TensorPtr(const std::any &)> unpack);
    ~SavedTensorHooksGuard();
    SavedTensorHooksGuard(const SavedTensorHooksGuard &) = delete;
    SavedTensorHooksGuard &operator=(const SavedTensorHooksGuard &) = delete;

private:
    std::shared_ptr<const SavedTensorHooks> previous_;
};

/// A tensor that a function keeps for its backward pass: an input as it is, an output without its place in the graph
/// (which would be a cycle). Remembers the version, so that a change in place in between is an AutogradError.
class INFINI_TRAIN_EXPORT SavedTensor {
public:
    SavedTensor() = default;
    /// `output_idx` says which output of the function that saves it `tensor` is; -1 if it is none.
    SavedTensor(const TensorPtr &tensor, int output_idx);

    /// The tensor again; null if null was saved. `owner` is the function that saved it.
    TensorPtr Unpack(const Function &owner) const;

    /// Holds another object over the same memory, outside of the graph, if it holds `tensor` itself: for a tensor that
    /// is about to hold this one.
    void LetGoOf(const Tensor &tensor);

private:
    TensorPtr tensor_;
    std::shared_ptr<const SavedTensorHooks> hooks_;  // null: tensor_ holds the value
    std::any packed_;
    std::vector<int64_t> packed_dims_;
    DataType packed_dtype_ = DataType::kFLOAT32;
    std::shared_ptr<Function> packed_function_;  // where the gradient of a packed input goes
    uint32_t packed_application_ = 0;
    int output_idx_ = -1;  // of packed_function_, or of the function that saved an output of its own
    uint32_t version_ = 0;
    bool is_output_ = false;
    bool requires_grad_ = false;
};

}  // namespace infini_train::autograd
