#include "infini_train/src/autograd/promotion.h"

namespace infini_train::autograd {
namespace {

// `minor` counts only where it is of a higher kind.
DataType Combine(DataType major, DataType minor) {
    if (IsFloatingPoint(major)) {
        return major;
    }
    return major == DataType::kBOOL || IsFloatingPoint(minor) ? PromoteTypes(major, minor) : major;
}

}  // namespace

DataType ResultType(const Tensor &a, const Tensor &b) {
    if ((a.NumDims() == 0) == (b.NumDims() == 0)) {
        return PromoteTypes(a.Dtype(), b.Dtype());
    }
    return a.NumDims() != 0 ? Combine(a.Dtype(), b.Dtype()) : Combine(b.Dtype(), a.Dtype());
}

DataType ResultType(const Tensor &a, const Scalar &b) {
    return Combine(a.Dtype(), b.IsFloatingPoint() ? DataType::kFLOAT32 : b.Dtype());
}

}  // namespace infini_train::autograd
