#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"

namespace infini_train {
class Storage;
}  // namespace infini_train

namespace infini_train::autograd {

class Function;
class TensorPacker;

/// What is kept in place of a saved tensor, and how the tensor comes back: `pack` and `unpack` apply to every tensor
/// that a recorded function saves in this thread, until the end of the scope. Of nested guards only the innermost
/// counts. Neither is applied to what the hooks themselves compute.
///
/// `pack` is given a tensor outside of the graph, so that keeping it leaks nothing. `unpack` runs at each use, in
/// whichever thread runs the backward pass, and must give a tensor of the same dims, data type and device. Changing in
/// place what they are given is an AutogradError that names the operator, and so is a packed tensor that was changed
/// since. (That can't be told of tensors that are hidden in a type of your own, unless `unpack` gives back the memory
/// that was packed.)
class INFINI_TRAIN_EXPORT SavedTensorHooksGuard {
public:
    /// Throws ValueError if either is empty, AutogradError inside of a DisableSavedTensorHooksGuard.
    SavedTensorHooksGuard(std::function<std::any(const TensorPtr &)> pack,
                          std::function<TensorPtr(const std::any &)> unpack);
    ~SavedTensorHooksGuard();
    SavedTensorHooksGuard(const SavedTensorHooksGuard &) = delete;
    SavedTensorHooksGuard &operator=(const SavedTensorHooksGuard &) = delete;

private:
    std::shared_ptr<TensorPacker> previous_;
};

/// Until the end of the scope, what this thread saves for the backward pass lies in the CPU's memory and goes back to
/// its device at each use. A tensor that is on the CPU already and a leaf that requires a gradient, which lives on its
/// device anyway, are kept as they are, without a copy: on the CPU alone the guard changes nothing.
class INFINI_TRAIN_EXPORT SaveOnCpu {
public:
    /// Throws AutogradError inside of a DisableSavedTensorHooksGuard.
    SaveOnCpu();
    ~SaveOnCpu();
    SaveOnCpu(const SaveOnCpu &) = delete;
    SaveOnCpu &operator=(const SaveOnCpu &) = delete;

private:
    std::shared_ptr<TensorPacker> previous_;
};

/// Until the end of the scope, SavedTensorHooksGuard, SaveOnCpu and Checkpoint throw an AutogradError with this message
/// in this thread: for code that they would break.
class INFINI_TRAIN_EXPORT DisableSavedTensorHooksGuard {
public:
    /// Throws AutogradError with the message if one of them is in force already.
    explicit DisableSavedTensorHooksGuard(std::string message);
    ~DisableSavedTensorHooksGuard();
    DisableSavedTensorHooksGuard(const DisableSavedTensorHooksGuard &) = delete;
    DisableSavedTensorHooksGuard &operator=(const DisableSavedTensorHooksGuard &) = delete;

private:
    std::shared_ptr<const std::string> previous_;
};

/// A tensor that a function keeps for its backward pass: an input as it is, an output without its place in the graph
/// (which would be a cycle). Remembers the version, so that a change in place in between is an AutogradError.
class INFINI_TRAIN_EXPORT SavedTensor {
public:
    SavedTensor() = default;
    /// `output_idx` says which output of `saver`, the function that saves it, `tensor` is; -1 if it is none. Only with
    /// `packs` does the guard in force apply.
    SavedTensor(const TensorPtr &tensor, int output_idx, const Function &saver, bool packs);

    /// The tensor again; null if null was saved. `saver` is the function that saved it.
    TensorPtr Unpack(const Function &saver) const;
    /// The function that saved it has run: what was unpacked for the pass under way need not be kept any more.
    void Release() const;

    /// What can be told without unpacking.
    struct Info {
        TensorPtr tensor;  ///< null if null was saved, or if it is packed
        bool packed = false;
        std::vector<int64_t> dims;
        DataType dtype = DataType::kFLOAT32;
        bool is_output = false;  ///< the saving function's own output number `output_idx`
        int output_idx = -1;
        bool changed = false;  ///< in place since, so that Unpack will throw
    };
    Info Inspect() const;

    /// Holds another object over the same memory, outside of the graph, if it holds `tensor` itself: for a tensor that
    /// is about to hold this one.
    void LetGoOf(const Tensor &tensor);

private:
    struct Packed;

    void Pack(const TensorPtr &tensor, std::shared_ptr<TensorPacker> packer, const Function &saver);
    TensorPtr UnpackPacked(const Function &saver) const;

    TensorPtr tensor_;
    std::shared_ptr<const Packed> packed_;  // null: tensor_ holds the value
    const Storage *storage_ = nullptr;      // of what was saved; not to be followed
    uint32_t version_ = 0;
    int output_idx_ = -1;
    bool is_output_ = false;
    bool requires_grad_ = false;
};

}  // namespace infini_train::autograd
