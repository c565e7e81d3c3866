#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/core/storage.h"
#include "infini_train/include/core/tensor_layout.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/scalar.h"

namespace infini_train {

class Stream;

namespace autograd {
class Function;
class PostAccumulateGradHook;
}  // namespace autograd

/// A hook on a tensor's gradient: null means "unchanged", anything else takes the gradient's place.
using TensorHook = std::function<TensorPtr(const TensorPtr &grad)>;
/// A hook that runs once a leaf's gradient has been accumulated; it is given the leaf.
using PostAccumulateHook = std::function<void(const TensorPtr &leaf)>;

/// An n-dimensional array of one data type on one device: dims, strides and an offset into a shared Storage. Views
/// share the storage of what they are views of.
///
///     auto x = Tensor::FromVector<float>({1, 2, 3, 4}, {2, 2});
///     x->set_requires_grad(true);
///     auto loss = x->Square()->Sum();
///     loss->Backward();
///     x->grad()->Print();  // [[2, 4], [6, 8]]
///
/// Tensors are made with std::make_shared or a factory. Dimensions may be given from the end: -1 is the last. Shapes
/// are written (2, 3). Unless a method says otherwise it is differentiable, takes any strides, broadcasts as PyTorch
/// does, leaves its operands alone and throws ShapeError, DtypeError, DeviceError or IndexError for operands that don't
/// fit.
class INFINI_TRAIN_EXPORT Tensor : public std::enable_shared_from_this<Tensor> {
public:
    // ---- Making tensors ---------------------------------------------------------------------------------------------

    /// Uninitialised memory, contiguous.
    explicit Tensor(const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32, Device device = {},
                    bool requires_grad = false);
    /// A copy of `data`, converted from float to `dtype`; `data` holds as many elements as `dims` say.
    Tensor(const float *data, const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32,
           Device device = {});
    /// A view of a storage; strides and offset count elements. Throws ShapeError where it would reach outside.
    Tensor(std::shared_ptr<Storage> storage, std::vector<int64_t> dims, std::vector<int64_t> strides, int64_t offset,
           DataType dtype);
    // For the library: a layout that is known to fit.
    Tensor(std::shared_ptr<Storage> storage, internal::TensorLayoutPtr layout, int64_t offset, DataType dtype);
    ~Tensor();
    Tensor(const Tensor &) = delete;
    Tensor &operator=(const Tensor &) = delete;

    static TensorPtr Empty(const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32, Device device = {});
    static TensorPtr Zeros(const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32, Device device = {});
    static TensorPtr Ones(const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32, Device device = {});
    static TensorPtr Full(const std::vector<int64_t> &dims, Scalar value, DataType dtype = DataType::kFLOAT32,
                          Device device = {});
    /// Of the same dims and device as `like`, and of its data type unless another is given.
    static TensorPtr EmptyLike(const TensorPtr &like);
    static TensorPtr EmptyLike(const Tensor &like, DataType dtype);
    static TensorPtr ZerosLike(const TensorPtr &like);
    static TensorPtr OnesLike(const TensorPtr &like);
    /// start, start + step, ... up to but without `end`.
    static TensorPtr Arange(Scalar start, Scalar end, Scalar step = 1, DataType dtype = DataType::kINT64,
                            Device device = {});
    /// The (n, n) identity matrix.
    static TensorPtr Eye(int64_t n, DataType dtype = DataType::kFLOAT32, Device device = {});
    /// Uniform in [0, 1) and standard normal; floating-point types only. No generator means DefaultGenerator().
    static TensorPtr Rand(const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32, Device device = {},
                          Generator *generator = nullptr);
    static TensorPtr Randn(const std::vector<int64_t> &dims, DataType dtype = DataType::kFLOAT32, Device device = {},
                           Generator *generator = nullptr);
    /// Integers uniform in [low, high).
    static TensorPtr RandInt(int64_t low, int64_t high, const std::vector<int64_t> &dims,
                             DataType dtype = DataType::kINT64, Device device = {}, Generator *generator = nullptr);
    /// A copy of `values` as a tensor of T's data type, of dims (values.size()) if none are given.
    template <typename T>
    static TensorPtr FromVector(const std::vector<T> &values, std::optional<std::vector<int64_t>> dims = std::nullopt,
                                Device device = {}) {
        const std::vector<int64_t> shape = dims ? *std::move(dims) : std::vector{static_cast<int64_t>(values.size())};
        if constexpr (std::is_same_v<T, bool>) {
            const std::vector<uint8_t> bytes(values.begin(), values.end());
            return CopyOf(bytes.data(), bytes.size(), shape, DataType::kBOOL, device);
        } else {
            return CopyOf(values.data(), values.size(), shape, kDataTypeOf<T>, device);
        }
    }
    /// One element, of no dimensions.
    static TensorPtr FromScalar(Scalar value, DataType dtype = DataType::kFLOAT32, Device device = {});
    /// Memory of the caller's, contiguous, not copied; `deleter(data)` runs once nothing uses it any more.
    static TensorPtr FromBlob(void *data, const std::vector<int64_t> &dims, DataType dtype, Device device = {},
                              std::function<void(void *)> deleter = {});
    /// Reads a NumPy .npy file (versions 1 to 3, little-endian, C or Fortran order); throws IoError.
    static TensorPtr FromNpy(const std::string &path, Device device = {});
    /// Writes one; bfloat16 is stored as float32.
    void SaveAsNpy(const std::string &path) const;

    // ---- What it is -------------------------------------------------------------------------------------------------

    const std::vector<int64_t> &Dims() const { return layout_->dims; }
    const std::vector<int64_t> &Strides() const { return layout_->strides; }
    int64_t NumDims() const { return static_cast<int64_t>(layout_->dims.size()); }
    /// The size of one dimension.
    int64_t Dim(int64_t dim) const;
    int64_t NumElements() const { return layout_->num_elements; }
    size_t SizeInBytes() const { return static_cast<size_t>(NumElements()) * SizeOf(dtype_); }
    DataType Dtype() const { return dtype_; }
    Device GetDevice() const { return storage_->device(); }
    bool IsContiguous() const { return layout_->is_contiguous; }

    /// The first element's address; on a GPU not to be followed by the CPU.
    void *DataPtr() { return static_cast<char *>(storage_->data()) + offset_ * static_cast<int64_t>(SizeOf(dtype_)); }
    const void *DataPtr() const { return const_cast<Tensor *>(this)->DataPtr(); }
    /// The same as a T *; throws DtypeError if the tensor doesn't hold T.
    template <typename T>
    T *Data() {
        CheckDtype(kDataTypeOf<T>);
        return static_cast<T *>(DataPtr());
    }
    template <typename T>
    const T *Data() const {
        return const_cast<Tensor *>(this)->Data<T>();
    }
    /// The only element; throws ShapeError if there isn't exactly one.
    Scalar Item() const;
    template <typename T>
    T Item() const {
        return Item().To<T>();
    }
    /// All elements in row-major order, converted to T.
    template <typename T>
    std::vector<T> ToVector() const {
        std::vector<T> values(static_cast<size_t>(NumElements()));
        if constexpr (std::is_same_v<T, bool>) {
            std::vector<uint8_t> bytes(values.size());
            CopyTo(bytes.data(), DataType::kBOOL);
            values.assign(bytes.begin(), bytes.end());
        } else {
            CopyTo(values.data(), kDataTypeOf<T>);
        }
        return values;
    }

    const std::shared_ptr<Storage> &storage() const { return storage_; }
    int64_t StorageOffset() const { return offset_; }
    /// Counts the in-place changes of the storage.
    uint32_t Version() const { return storage_->version(); }

    /// The values as PyTorch prints them: aligned, summarised above 1,000 elements.
    std::string ToString() const;
    void Print(std::ostream &stream) const;
    void Print() const;
    friend std::ostream &operator<<(std::ostream &stream, const Tensor &tensor) {
        tensor.Print(stream);
        return stream;
    }
    /// Digits after the point, the size from which on to summarise, and how many items to show at each edge then.
    static void SetPrintOptions(std::optional<int64_t> precision = std::nullopt,
                                std::optional<int64_t> threshold = std::nullopt,
                                std::optional<int64_t> edge_items = std::nullopt,
                                std::optional<int64_t> line_width = std::nullopt,
                                std::optional<bool> sci_mode = std::nullopt);

    // ---- Views: no copy ---------------------------------------------------------------------------------------------

    /// Other dims over the same elements; one may be -1. Throws ShapeError where the strides don't allow it.
    TensorPtr View(const std::vector<int64_t> &dims);
    /// View where possible, otherwise a copy.
    TensorPtr Reshape(const std::vector<int64_t> &dims);
    TensorPtr Transpose(int64_t dim0, int64_t dim1);
    TensorPtr Permute(const std::vector<int64_t> &order);
    /// Elements start, start + step, ... before `end` of one dimension; both count from the end if negative and are
    /// clipped, as in Python; step >= 1.
    TensorPtr Slice(int64_t dim, int64_t start, int64_t end, int64_t step = 1);
    /// The same for all dimensions at once.
    TensorPtr Slice(const std::vector<int64_t> &starts, const std::vector<int64_t> &ends,
                    const std::vector<int64_t> &steps);
    /// One position of a dimension, which disappears.
    TensorPtr Select(int64_t dim, int64_t index);
    /// `length` elements from `start` on; throws IndexError rather than clip.
    TensorPtr Narrow(int64_t dim, int64_t start, int64_t length);
    /// Repeats dimensions of size 1 without copying; -1 keeps a size; may add dimensions in front.
    TensorPtr Expand(const std::vector<int64_t> &dims);
    /// Drops one dimension of size 1 (does nothing if it is larger), or all of them.
    TensorPtr Squeeze(int64_t dim);
    TensorPtr Squeeze();
    TensorPtr Unsqueeze(int64_t dim);
    /// Merges dimensions `start` to `end` (a view where possible).
    TensorPtr Flatten(int64_t start = 0, int64_t end = -1);
    /// Pieces of `split_size` along a dimension, the last one maybe smaller.
    TensorList Split(int64_t split_size, int64_t dim = 0);
    /// All positions of a dimension, each without it.
    TensorList Unbind(int64_t dim = 0);
    /// The same values outside of the graph, sharing memory (and the version).
    TensorPtr Detach() const;

    // ---- Copies -----------------------------------------------------------------------------------------------------

    /// Itself if contiguous, otherwise a contiguous copy.
    TensorPtr Contiguous();
    TensorPtr Clone();
    /// On another device or of another data type; itself if nothing changes. If `non_blocking`, a copy to the CPU, or
    /// of a pinned tensor to a GPU, is only queued on the current stream: until that is synchronised the CPU's side
    /// must neither be changed nor read, but may be let go of.
    TensorPtr To(Device device, bool non_blocking = false);
    TensorPtr To(DataType dtype);
    /// A copy, outside of the graph, in memory of the CPU's that a GPU copies from on its own; itself if it is pinned
    /// or there is no GPU. Throws DeviceError for one on a GPU.
    TensorPtr PinMemory();
    bool IsPinned() const;
    /// Says that `stream` uses the tensor, too: its memory goes to nobody else before what is queued there now is done.
    void RecordUse(const Stream &stream) const;

    // ---- Operators --------------------------------------------------------------------------------------------------

    TensorPtr Add(const TensorPtr &other);
    TensorPtr Add(Scalar other);
    TensorPtr Sub(const TensorPtr &other);
    TensorPtr Sub(Scalar other);
    TensorPtr Mul(const TensorPtr &other);
    TensorPtr Mul(Scalar other);
    /// True division: integers give float32.
    TensorPtr Div(const TensorPtr &other);
    TensorPtr Div(Scalar other);
    /// Larger and smaller of two; a NaN in either wins, a tie shares the gradient.
    TensorPtr Maximum(const TensorPtr &other);
    TensorPtr Minimum(const TensorPtr &other);

    /// Comparisons give bool and have no gradient.
    TensorPtr Equals(const TensorPtr &other);
    TensorPtr Equals(Scalar other);
    TensorPtr NotEquals(const TensorPtr &other);
    TensorPtr NotEquals(Scalar other);
    TensorPtr Lt(const TensorPtr &other);
    TensorPtr Lt(Scalar other);
    TensorPtr Le(const TensorPtr &other);
    TensorPtr Le(Scalar other);
    TensorPtr Gt(const TensorPtr &other);
    TensorPtr Gt(Scalar other);
    TensorPtr Ge(const TensorPtr &other);
    TensorPtr Ge(Scalar other);
    /// Logical; any value but 0 is true.
    TensorPtr And(const TensorPtr &other);
    TensorPtr Or(const TensorPtr &other);
    /// This where `condition` (bool) is true, else `other`.
    TensorPtr Where(const TensorPtr &condition, const TensorPtr &other);

    TensorPtr Neg();
    TensorPtr Reciprocal();
    TensorPtr Sin();
    TensorPtr Cos();
    TensorPtr Tanh();
    TensorPtr Exp();
    TensorPtr Log();
    TensorPtr Sqrt();
    TensorPtr Rsqrt();
    TensorPtr Square();
    TensorPtr Abs();
    TensorPtr Pow(Scalar exponent);
    /// Limits to [min, max]; either may be absent.
    TensorPtr Clamp(std::optional<Scalar> min, std::optional<Scalar> max = std::nullopt);
    TensorPtr Sigmoid();
    TensorPtr Relu();
    TensorPtr Silu();
    /// Gaussian error linear unit: exact, or its tanh approximation (Hendrycks and Gimpel, 2016).
    TensorPtr Gelu(bool tanh_approximation = false);

    /// Over all elements, giving a tensor of no dimensions; integers and bool sum to int64.
    TensorPtr Sum();
    TensorPtr Mean();
    TensorPtr Max();
    TensorPtr Min();
    TensorPtr Sum(int64_t dim, bool keep_dim = false);
    TensorPtr Mean(int64_t dim, bool keep_dim = false);
    TensorPtr Max(int64_t dim, bool keep_dim = false);
    TensorPtr Min(int64_t dim, bool keep_dim = false);
    /// Over several dimensions; none means all. Max and Min share a gradient evenly among ties.
    TensorPtr Sum(const std::vector<int64_t> &dims, bool keep_dim);
    TensorPtr Mean(const std::vector<int64_t> &dims, bool keep_dim);
    TensorPtr Max(const std::vector<int64_t> &dims, bool keep_dim);
    TensorPtr Min(const std::vector<int64_t> &dims, bool keep_dim);
    /// The position (int64) of the first largest or smallest element, NaN counting as both; without `dim` of the
    /// flattened tensor.
    TensorPtr Argmax(std::optional<int64_t> dim = std::nullopt, bool keep_dim = false);
    TensorPtr Argmin(std::optional<int64_t> dim = std::nullopt, bool keep_dim = false);
    TensorPtr Softmax(int64_t dim = -1);
    TensorPtr LogSoftmax(int64_t dim = -1);

    /// (..., m, k) x (..., k, n) with the rules of PyTorch's matmul: vectors, matrices and broadcast batches.
    TensorPtr Matmul(const TensorPtr &other);
    /// (n) and (m) give (n, m).
    TensorPtr Outer(const TensorPtr &other);
    TensorPtr Tril(int64_t diagonal = 0);
    TensorPtr Triu(int64_t diagonal = 0);
    /// `value` where `mask` (bool, or 0 and 1 of any type) is true.
    TensorPtr MaskedFill(const TensorPtr &mask, Scalar value);
    TensorPtr RepeatInterleave(int64_t repeat, int64_t dim);
    /// Picks along `dim` by an integer tensor of the same number of dimensions, as torch.gather.
    TensorPtr Gather(int64_t dim, const TensorPtr &index);

    // ---- In place: each bumps Version() -----------------------------------------------------------------------------
    // All give the tensor itself. Recorded by autograd as long as it is neither a leaf that requires a gradient nor a
    // view of a recorded tensor (AutogradError).

    TensorPtr Add_(const TensorPtr &other);
    TensorPtr Add_(Scalar other);
    TensorPtr Sub_(const TensorPtr &other);
    TensorPtr Sub_(Scalar other);
    TensorPtr Mul_(const TensorPtr &other);
    TensorPtr Mul_(Scalar other);
    TensorPtr Div_(const TensorPtr &other);
    TensorPtr Div_(Scalar other);
    TensorPtr Relu_();
    TensorPtr Fill_(Scalar value);
    TensorPtr Zero_();
    /// Takes over the values of `source`, broadcast and converted.
    TensorPtr Copy_(const TensorPtr &source);
    /// Uniform in [from, to), normal. Not differentiable.
    TensorPtr Uniform(float from = 0.0F, float to = 1.0F, Generator *generator = nullptr);
    TensorPtr Normal(float mean = 0.0F, float std = 1.0F, Generator *generator = nullptr);
    void Fill(Scalar value) { Fill_(value); }
    void CopyFrom(const Tensor &source);
    /// Takes over `other`'s memory, dims, data type and device in place of its own, keeping its identity, hooks and
    /// place as a leaf; a gradient is converted along, or dropped if the dims change. AutogradError unless both are
    /// leaves.
    void SetData(const TensorPtr &other);
    void CopyFrom(const TensorPtr &source) { Copy_(source); }

    // A literal 0 would be a null pointer as well as a number: integers are numbers.
#define INFINI_TRAIN_INTEGER_OPERAND(Method) \
    template <std::integral T>               \
    TensorPtr Method(T other) {              \
        return Method(Scalar(other));        \
    }
    INFINI_TRAIN_INTEGER_OPERAND(Add)
    INFINI_TRAIN_INTEGER_OPERAND(Sub)
    INFINI_TRAIN_INTEGER_OPERAND(Mul)
    INFINI_TRAIN_INTEGER_OPERAND(Div)
    INFINI_TRAIN_INTEGER_OPERAND(Equals)
    INFINI_TRAIN_INTEGER_OPERAND(NotEquals)
    INFINI_TRAIN_INTEGER_OPERAND(Lt)
    INFINI_TRAIN_INTEGER_OPERAND(Le)
    INFINI_TRAIN_INTEGER_OPERAND(Gt)
    INFINI_TRAIN_INTEGER_OPERAND(Ge)
    INFINI_TRAIN_INTEGER_OPERAND(Add_)
    INFINI_TRAIN_INTEGER_OPERAND(Sub_)
    INFINI_TRAIN_INTEGER_OPERAND(Mul_)
    INFINI_TRAIN_INTEGER_OPERAND(Div_)
#undef INFINI_TRAIN_INTEGER_OPERAND

    // ---- Autograd ---------------------------------------------------------------------------------------------------

    bool requires_grad() const {
        return autograd_meta_ != nullptr && autograd_meta_->requires_grad;
    }
    /// Only for leaves (AutogradError) of a floating-point type (DtypeError).
    void set_requires_grad(bool requires_grad);
    /// Sets requires_grad and gives the tensor itself.
    TensorPtr RequiresGrad();
    /// Whether no recorded function made it.
    bool is_leaf() const {
        return grad_fn() == nullptr;
    }
    /// The accumulated gradient, or null.
    TensorPtr grad() const;
    /// Null clears it; otherwise its dims, data type and device must be the tensor's.
    void set_grad(const TensorPtr &grad);
    /// Forgets the gradient, or fills it with zeros.
    void ZeroGrad(bool set_to_none = true);
    /// The recorded function that made it, or null.
    std::shared_ptr<autograd::Function> grad_fn() const;
    /// Which of that function's outputs it is.
    int output_idx() const;

    /// Adds the gradients of this tensor to all leaves that it was made from. `gradient` may be left out for one
    /// element. Without `retain_graph` what the graph has saved is freed on the way; `create_graph` records the
    /// backward pass itself (and implies retain_graph). Throws AutogradError.
    void Backward(const TensorPtr &gradient = nullptr, bool retain_graph = false, bool create_graph = false);

    /// Runs `hook(grad)` whenever a gradient of this tensor has been computed, before anything else uses it. A hook
    /// that returns a tensor replaces the gradient: it must have the same dims, data type and device (AutogradError).
    /// The gradient is null where no gradient arrived; a tensor that is returned then stands in for it. A hook returns
    /// nothing to observe. `hook(tensor, grad)` is told its tensor too: held weakly, so null once nobody else holds a
    /// tensor inside the graph. Throws AutogradError if the tensor requires no gradient.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterHook(F &&hook, const HookOptions &options = {}) {
        using Callable = std::decay_t<F>;
        constexpr bool kTakesGrad = std::is_invocable_v<Callable &, const TensorPtr &>;
        static_assert(kTakesGrad || std::is_invocable_v<Callable &, const TensorPtr &, const TensorPtr &>,
                      "a tensor hook takes the gradient, or the tensor and the gradient");
        if (internal::IsNullCallable<Callable>(hook)) {
            throw ValueError("Tensor::RegisterHook: expected a callable, got an empty function");
        }
        if constexpr (!kTakesGrad) {
            return RegisterHook([hook = Callable(std::forward<F>(hook)), self = weak_from_this()](
                                    const TensorPtr &grad) mutable { return hook(self.lock(), grad); },
                                options);
        } else if constexpr (std::is_void_v<std::invoke_result_t<Callable &, const TensorPtr &>>) {
            return AddHook(
                [hook = Callable(std::forward<F>(hook))](const TensorPtr &grad) mutable -> TensorPtr {
                    hook(grad);
                    return nullptr;
                },
                options);
        } else {
            return AddHook(TensorHook(std::forward<F>(hook)), options);
        }
    }
    /// RegisterHook of a leaf, under InfiniTrain's name: what runs before its gradient is accumulated.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterPreAccumulateGradHook(F &&hook, const HookOptions &options = {}) {
        if (!is_leaf()) {
            throw AutogradError("Tensor::RegisterPreAccumulateGradHook: only a leaf accumulates a gradient");
        }
        return RegisterHook(std::forward<F>(hook), options);
    }
    /// Runs `hook(leaf)` each time a gradient has been accumulated into this leaf.
    std::shared_ptr<HookHandle> RegisterPostAccumulateGradHook(PostAccumulateHook hook,
                                                               const HookOptions &options = {});
    /// InfiniTrain's class-based form.
    std::shared_ptr<HookHandle> RegisterPostAccumulateGradHook(std::shared_ptr<autograd::PostAccumulateGradHook> hook);
    /// Keeps the gradient of a tensor that isn't a leaf in grad().
    void RetainGrad();
    bool retains_grad() const;

    // For the library.
    internal::AutogradMetaBase *autograd_meta() const {
        return autograd_meta_.get();
    }
    void set_autograd_meta(std::unique_ptr<internal::AutogradMetaBase> meta) {
        autograd_meta_ = std::move(meta);
    }
    const internal::TensorLayoutPtr &layout() const {
        return layout_;
    }
    /// shared_from_this, with an error that explains when the tensor isn't owned by a shared pointer.
    TensorPtr Self() const;

private:
    static TensorPtr CopyOf(const void *data, size_t count, const std::vector<int64_t> &dims, DataType dtype,
                            Device device);
    void CopyTo(void *data, DataType dtype) const;
    void CheckDtype(DataType wanted) const;
    std::shared_ptr<HookHandle> AddHook(TensorHook hook, const HookOptions &options);

    std::shared_ptr<Storage> storage_;
    internal::TensorLayoutPtr layout_;  // never null
    int64_t offset_ = 0;
    DataType dtype_ = DataType::kFLOAT32;
    std::unique_ptr<internal::AutogradMetaBase> autograd_meta_;
};

INFINI_TRAIN_EXPORT TensorPtr operator+(const TensorPtr &a, const TensorPtr &b);
INFINI_TRAIN_EXPORT TensorPtr operator+(const TensorPtr &a, Scalar b);
INFINI_TRAIN_EXPORT TensorPtr operator+(Scalar a, const TensorPtr &b);
INFINI_TRAIN_EXPORT TensorPtr operator-(const TensorPtr &a, const TensorPtr &b);
INFINI_TRAIN_EXPORT TensorPtr operator-(const TensorPtr &a, Scalar b);
INFINI_TRAIN_EXPORT TensorPtr operator-(Scalar a, const TensorPtr &b);
INFINI_TRAIN_EXPORT TensorPtr operator-(const TensorPtr &a);
INFINI_TRAIN_EXPORT TensorPtr operator*(const TensorPtr &a, const TensorPtr &b);
INFINI_TRAIN_EXPORT TensorPtr operator*(const TensorPtr &a, Scalar b);
INFINI_TRAIN_EXPORT TensorPtr operator*(Scalar a, const TensorPtr &b);
INFINI_TRAIN_EXPORT TensorPtr operator/(const TensorPtr &a, const TensorPtr &b);
INFINI_TRAIN_EXPORT TensorPtr operator/(const TensorPtr &a, Scalar b);
INFINI_TRAIN_EXPORT TensorPtr operator/(Scalar a, const TensorPtr &b);

#define INFINI_TRAIN_INTEGER_OPERATOR(symbol)            \
    template <std::integral T>                           \
    TensorPtr operator symbol(const TensorPtr &a, T b) { \
        return a symbol Scalar(b);                       \
    }                                                    \
    template <std::integral T>                           \
    TensorPtr operator symbol(T a, const TensorPtr &b) { \
        return Scalar(a) symbol b;                       \
    }
INFINI_TRAIN_INTEGER_OPERATOR(+)
INFINI_TRAIN_INTEGER_OPERATOR(-)
INFINI_TRAIN_INTEGER_OPERATOR(*)
INFINI_TRAIN_INTEGER_OPERATOR(/)
#undef INFINI_TRAIN_INTEGER_OPERATOR

}  // namespace infini_train
