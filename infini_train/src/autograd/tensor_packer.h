#pragma once

#include <any>
#include <memory>
#include <string>

#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

class Function;

/// How a thread keeps the tensors that it saves for the backward pass, while it is in force.
class TensorPacker {
public:
    virtual ~TensorPacker() = default;

    /// Whether `tensor`, here still in its place in the graph, is packed. If not it's kept as if there were no packer.
    virtual bool Packs(const Tensor & /*tensor*/) const { return true; }
    /// Both run unrecorded and without a packer in force. `saver` is the function that saves the tensor.
    virtual std::any Pack(const TensorPtr &tensor, const Function &saver) = 0;
    virtual TensorPtr Unpack(const std::any &packed, const Function &saver) = 0;
    /// Nothing more will be unpacked from it in the pass that this thread runs.
    virtual void Release(const std::any & /*packed*/) {}
};

/// What a thread has in force.
struct PackerState {
    std::shared_ptr<TensorPacker> packer;
    std::shared_ptr<const std::string> forbidden;  // why there may be none; null if there may

    static PackerState &OfThisThread();
    /// Throws AutogradError, which begins with `who`, where packers are forbidden.
    static void CheckAllowed(const char *who);
};

/// Puts a packer in force (null: none), whatever guards stand around it, until the end of the scope.
class PackerScope {
public:
    explicit PackerScope(std::shared_ptr<TensorPacker> packer) : previous_{std::move(packer), nullptr} {
        std::swap(PackerState::OfThisThread(), previous_);
    }
    ~PackerScope() { std::swap(PackerState::OfThisThread(), previous_); }
    PackerScope(const PackerScope &) = delete;
    PackerScope &operator=(const PackerScope &) = delete;

private:
    PackerState previous_;
};

}  // namespace infini_train::autograd
