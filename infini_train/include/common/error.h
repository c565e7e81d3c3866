#pragma once

#include <exception>
#include <string>

#include "infini_train/include/common/export.h"

namespace infini_train {

/// The base of all errors that the library throws. `what()` is the message followed by the context that was added while
/// the exception travelled up: `Matmul: (2, 3) and (4, 5) don't match: 3 against 4 [in module fc1 (Linear)]`.
///
/// A message begins with the operator or class, then says what was expected and what came.
class INFINI_TRAIN_EXPORT Error : public std::exception {
public:
    explicit Error(std::string message) : message_(std::move(message)) {}

    const char *what() const noexcept override { return message_.c_str(); }

    /// Appends ` [context]`, for example `in module blocks.0.fc (Linear)`.
    void AddContext(const std::string &context) { message_ += " [" + context + "]"; }

private:
    std::string message_;
};

/// Shapes, strides or element counts that don't fit the operator or each other.
class INFINI_TRAIN_EXPORT ShapeError : public Error {
    using Error::Error;
};

/// A data type that the operator doesn't take, or two that don't match.
class INFINI_TRAIN_EXPORT DtypeError : public Error {
    using Error::Error;
};

/// Operands on different devices, or a device that isn't there.
class INFINI_TRAIN_EXPORT DeviceError : public Error {
    using Error::Error;
};

/// A dimension, position, index or class label out of range.
class INFINI_TRAIN_EXPORT IndexError : public Error {
    using Error::Error;
};

/// An argument of any other kind that makes no sense: a negative rate, an empty list, a null pointer, a duplicate name.
class INFINI_TRAIN_EXPORT ValueError : public Error {
    using Error::Error;
};

/// A wrong use of the autograd graph or of its hooks.
class INFINI_TRAIN_EXPORT AutogradError : public Error {
    using Error::Error;
};

/// A combination that has no implementation, such as a kernel missing on a device.
class INFINI_TRAIN_EXPORT NotImplementedError : public Error {
    using Error::Error;
};

/// A file that can't be read or written, or whose contents are not what its format says.
class INFINI_TRAIN_EXPORT IoError : public Error {
    using Error::Error;
};

/// Memory that can't be had.
class INFINI_TRAIN_EXPORT OutOfMemoryError : public Error {
    using Error::Error;
};

/// A CUDA call or kernel that failed.
class INFINI_TRAIN_EXPORT CudaError : public Error {
    using Error::Error;
};

/// A broken invariant of the library itself: please report it.
class INFINI_TRAIN_EXPORT InternalError : public Error {
    using Error::Error;
};

}  // namespace infini_train
