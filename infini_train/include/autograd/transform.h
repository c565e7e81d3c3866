#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/scalar.h"

namespace infini_train::autograd {

// Dimensions may be given from the end; one out of range is an IndexError.

/// Exchanges two dimensions. A view.
class INFINI_TRAIN_EXPORT Transpose : public Function {
public:
    static constexpr char kType[] = "Transpose";

    Transpose(int64_t dim0, int64_t dim1) : Function(kType), dim0_(dim0), dim1_(dim1) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const int64_t dim0_;
    const int64_t dim1_;
};

/// The positions start, start + step, ... of one dimension, `length` of them; in range.
struct DimSlice {
    int64_t dim = 0;
    int64_t start = 0;
    int64_t length = 0;
    int64_t step = 1;
};

/// The positions start, start + step, ... before `end`, of every dimension or of one. Starts and ends count from the
/// end if negative and are clipped, as in Python. A view. Throws ShapeError if the lists don't have one entry a
/// dimension, ValueError for a step below 1.
class INFINI_TRAIN_EXPORT Slice : public Function {
public:
    static constexpr char kType[] = "Slice";

    Slice(std::vector<int64_t> starts, std::vector<int64_t> ends, std::vector<int64_t> steps)
        : Function(kType), starts_(std::move(starts)), ends_(std::move(ends)), steps_(std::move(steps)) {}
    Slice(int64_t dim, int64_t start, int64_t end, int64_t step = 1)
        : Function(kType), dim_(dim), starts_{start}, ends_{end}, steps_{step} {}
    /// What is in range already; a dimension comes at most once.
    explicit Slice(std::vector<DimSlice> slices) : Slice(kType, std::move(slices)) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

protected:
    Slice(const char *type, std::vector<DimSlice> slices)
        : Function(type), slices_(std::move(slices)), resolved_(true) {}
    void set_slices(std::vector<DimSlice> slices) { slices_ = std::move(slices); }

private:
    void Resolve(const std::vector<int64_t> &dims);

    const std::optional<int64_t> dim_;
    const std::vector<int64_t> starts_, ends_, steps_;
    std::vector<DimSlice> slices_;  // of the dimensions that aren't taken whole
    const bool resolved_ = false;
    std::vector<int64_t> input_dims_;
};

/// The `length` positions of a dimension from `start` on, which counts from the end if negative; nothing is clipped
/// (IndexError). A view.
class INFINI_TRAIN_EXPORT Narrow : public Slice {
public:
    static constexpr char kType[] = "Narrow";

    Narrow(int64_t dim, int64_t start, int64_t length) : Slice(kType, {}), dim_(dim), start_(start), length_(length) {}

    TensorList Forward(const TensorList &inputs) override;

private:
    const int64_t dim_;
    const int64_t start_;
    const int64_t length_;
};

/// Pieces of `split_size` positions of a dimension, the last one maybe smaller, or pieces of the given sizes: as many
/// outputs, all of them views. Throws ValueError for a size below 1 (below 0 where they are given), ShapeError for a
/// tensor without dimensions and for sizes that don't add up to the dimension's.
class INFINI_TRAIN_EXPORT Split : public Function {
public:
    static constexpr char kType[] = "Split";

    explicit Split(int64_t split_size, int64_t dim = 0)
        : Function(kType), given_(false), split_size_(split_size), dim_(dim) {}
    explicit Split(std::vector<int64_t> sizes, int64_t dim = 0)
        : Function(kType), given_(true), sizes_(std::move(sizes)), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    void SetSizes(int64_t total);

    const bool given_;
    const int64_t split_size_ = 0;
    std::vector<int64_t> sizes_;  // of the outputs
    int64_t dim_;
    std::vector<int64_t> input_dims_;
};

/// Of each matrix (the last two dimensions) the elements with column <= row + diagonal, zeros elsewhere. Throws
/// ShapeError for fewer than two dimensions.
class INFINI_TRAIN_EXPORT Tril : public Function {
public:
    static constexpr char kType[] = "Tril";

    explicit Tril(int64_t diagonal = 0) : Function(kType), diagonal_(diagonal) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const int64_t diagonal_;
};

/// Of each matrix the elements with column >= row + diagonal, zeros elsewhere.
class INFINI_TRAIN_EXPORT Triu : public Function {
public:
    static constexpr char kType[] = "Triu";

    explicit Triu(int64_t diagonal = 0) : Function(kType), diagonal_(diagonal) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const int64_t diagonal_;
};

/// `value`, converted to the input's data type, where `mask` is true and the input elsewhere. The mask is bool or of
/// any other type, 0 being false; both broadcast. Throws ShapeError, DeviceError, and ValueError for a null mask.
class INFINI_TRAIN_EXPORT Mask : public Function {
public:
    static constexpr char kType[] = "Mask";

    Mask(TensorPtr mask, Scalar value) : Function(kType), mask_(std::move(mask)), value_(value) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    TensorPtr mask_;
    const Scalar value_;
    std::vector<int64_t> input_dims_;
};

/// Every position of a dimension `repeat` times in a row: (a, b) gives (a, a, b, b). Throws ValueError for a negative
/// number, ShapeError for a tensor without dimensions.
class INFINI_TRAIN_EXPORT RepeatInterleave : public Function {
public:
    static constexpr char kType[] = "RepeatInterleave";

    RepeatInterleave(int64_t repeat, int64_t dim) : Function(kType), repeat_(repeat), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const int64_t repeat_;
    int64_t dim_;
    std::vector<int64_t> input_dims_;
};

/// Any number of tensors of equal dims, one after the other along a new dimension `dim`. Data types promote. Throws
/// ShapeError, and ValueError for no tensors.
class INFINI_TRAIN_EXPORT Stack : public Function {
public:
    static constexpr char kType[] = "Stack";

    explicit Stack(int64_t dim = 0) : Function(kType), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    int64_t dim_;
    std::vector<DataType> input_dtypes_;
};

/// Any number of tensors, one after the other along `dim`; the other dims are equal. Data types promote. Tensors of
/// dims (0,) go with everything. Throws ShapeError, and ValueError for no tensors.
class INFINI_TRAIN_EXPORT Concat : public Function {
public:
    static constexpr char kType[] = "Concat";

    explicit Concat(int64_t dim = 0) : Function(kType), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    struct Piece {
        DataType dtype;
        int64_t length;
        bool is_void;  // (0,) among tensors of other dims
    };

    int64_t dim_;
    std::vector<Piece> pieces_;
};

}  // namespace infini_train::autograd
