#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"

/// What operators cost, told from their type and the shapes of their tensors alone:
///
///     utils::OperatorCall call{"Matmul", {{{64, 784}}, {{784, 10}}}, {{{64, 10}}}};
///     utils::ForwardCost(call).flops;  // 2 * 64 * 784 * 10
///
/// One FLOP is one arithmetic operation on one element, of whatever data type: an addition, multiplication, division,
/// comparison, or one elementary function (exp, log, sin, sqrt, tanh, erf, pow). A multiply-add counts as 2. Padding is
/// computed with. What is done once a row rather than once an element is left out where a formula says so.
///
/// Bytes are those that have to be moved at least: each operand is read once, each result written once. Views move
/// nothing. An operator that isn't fused moves more, caches may make it less.
namespace infini_train::autograd {
class Function;
}

namespace infini_train::utils {

/// A tensor as far as costs depend on it.
struct INFINI_TRAIN_EXPORT TensorSpec {
    TensorSpec() : present(false) {}
    TensorSpec(std::vector<int64_t> dims, DataType dtype = DataType::kFLOAT32, bool requires_grad = false)
        : dims(std::move(dims)), dtype(dtype), requires_grad(requires_grad) {}
    /// Of a tensor, which may be null.
    explicit TensorSpec(const TensorPtr &tensor);

    /// 0 for a tensor that isn't there.
    int64_t NumElements() const;
    int64_t Bytes() const;

    std::vector<int64_t> dims = {};
    DataType dtype = DataType::kFLOAT32;
    bool requires_grad = false;  ///< of an input: whether the backward pass computes its gradient
    bool present = true;         ///< false for an optional input that was left out
};

/// One application of an operator.
struct OperatorCall {
    std::string type;  ///< as autograd::Function::type()
    std::vector<TensorSpec> inputs = {};
    std::vector<TensorSpec> outputs = {};
    int64_t window = 0;    ///< elements in a pooling window; 0: as if windows lay side by side
    bool is_view = false;  ///< the outputs share the memory of the inputs
};

/// Of a function that was just applied: what `Apply` was given and gave.
INFINI_TRAIN_EXPORT OperatorCall DescribeCall(const autograd::Function &function, const TensorList &inputs,
                                              const TensorList &outputs);

struct Cost {
    int64_t flops = 0;
    int64_t bytes = 0;

    Cost &operator+=(const Cost &other) {
        flops += other.flops;
        bytes += other.bytes;
        return *this;
    }
    friend Cost operator+(Cost a, const Cost &b) { return a += b; }
    friend bool operator==(const Cost &, const Cost &) = default;
};

using CostFormula = std::function<Cost(const OperatorCall &)>;

/// Whether the costs of an operator type are known: of all of the library's operators, and of those registered.
INFINI_TRAIN_EXPORT bool HasCost(const std::string &type);
/// The cost of a forward; nothing for an operator whose costs aren't known.
INFINI_TRAIN_EXPORT Cost ForwardCost(const OperatorCall &call);
/// The cost of the backward that belongs to it: the gradients of those inputs that require one.
INFINI_TRAIN_EXPORT Cost BackwardCost(const OperatorCall &call);
/// Makes the costs of an operator type known, or replaces them. ValueError for an empty formula or type. An operator
/// that consists of others needs none: they are counted.
INFINI_TRAIN_EXPORT void RegisterCost(const std::string &type, CostFormula forward, CostFormula backward);

}  // namespace infini_train::utils
