#include "infini_train/include/tensor.h"

#include <cmath>
#include <cstring>

#include "infini_train/include/dtype_dispatch.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/core/size.h"
#include "infini_train/src/kernels/fill.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace {

// Whether the elements lie densely in row-major order; strides of dimensions of size 1 don't matter.
bool AreContiguous(const std::vector<int64_t> &dims, const std::vector<int64_t> &strides) {
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0;) {
        if (dims[i] == 0) {
            return true;
        }
        if (dims[i] != 1 && strides[i] != stride) {
            return false;
        }
        stride *= dims[i];
    }
    return true;
}

internal::TensorLayoutPtr ContiguousLayout(const std::vector<int64_t> &dims) {
    const int64_t num_elements = CheckedNumElements(dims, "Tensor");
    return std::make_shared<const internal::TensorLayout>(
        internal::TensorLayout{dims, ContiguousStrides(dims), num_elements, true, true});
}

std::shared_ptr<Storage> NewStorage(const internal::TensorLayout &layout, DataType dtype, Device device) {
    return std::make_shared<Storage>(CheckedBytes(layout.num_elements, dtype, "Tensor"), device);
}

}  // namespace

Tensor::Tensor(const std::vector<int64_t> &dims, DataType dtype, Device device, bool requires_grad)
    : layout_(ContiguousLayout(dims)), dtype_(dtype) {
    storage_ = NewStorage(*layout_, dtype, device);
    if (requires_grad) {
        set_requires_grad(true);
    }
}

Tensor::Tensor(const float *data, const std::vector<int64_t> &dims, DataType dtype, Device device)
    : Tensor(dims, dtype, device) {
    if (data == nullptr && NumElements() > 0) {
        Throw<ValueError>("Tensor: expected {} floats, got a null pointer", NumElements());
    }
    CopyFrom(*CopyOf(data, static_cast<size_t>(NumElements()), dims, DataType::kFLOAT32, device));
}

Tensor::Tensor(std::shared_ptr<Storage> storage, std::vector<int64_t> dims, std::vector<int64_t> strides,
               int64_t offset, DataType dtype)
    : storage_(std::move(storage)), offset_(offset), dtype_(dtype) {
    const int64_t num_elements = CheckedNumElements(dims, "Tensor");
    if (strides.size() != dims.size() || offset < 0) {
        Throw<ShapeError>("Tensor: expected a stride for each dim of {} and an offset >= 0, got strides {}, offset {}",
                          FormatDims(dims), FormatDims(strides), offset);
    }
    int64_t last = offset;
    for (size_t i = 0; i < dims.size(); ++i) {
        if (strides[i] < 0) {
            Throw<ShapeError>("Tensor: expected strides >= 0, got {}", FormatDims(strides));
        }
        last += (dims[i] - 1) * strides[i];
    }
    if (num_elements > 0 && static_cast<size_t>(last + 1) * SizeOf(dtype) > storage_->bytes()) {
        Throw<ShapeError>("Tensor: dims {} with strides {} and offset {} reach past the storage of {} bytes",
                          FormatDims(dims), FormatDims(strides), offset, storage_->bytes());
    }
    const bool is_contiguous = AreContiguous(dims, strides);
    const bool is_row_major = is_contiguous && strides == ContiguousStrides(dims);
    layout_ = std::make_shared<const internal::TensorLayout>(
        internal::TensorLayout{std::move(dims), std::move(strides), num_elements, is_contiguous, is_row_major});
}

Tensor::Tensor(std::shared_ptr<Storage> storage, internal::TensorLayoutPtr layout, int64_t offset, DataType dtype)
    : storage_(std::move(storage)), layout_(std::move(layout)), offset_(offset), dtype_(dtype) {}

Tensor::~Tensor() = default;

TensorPtr Tensor::Self() const {
    if (auto self = weak_from_this().lock()) {
        return std::const_pointer_cast<Tensor>(self);
    }
    throw ValueError("Tensor: not owned by a shared pointer; make tensors with std::make_shared or a factory");
}

TensorPtr Tensor::Empty(const std::vector<int64_t> &dims, DataType dtype, Device device) {
    return std::make_shared<Tensor>(dims, dtype, device);
}

TensorPtr Tensor::Full(const std::vector<int64_t> &dims, Scalar value, DataType dtype, Device device) {
    auto tensor = Empty(dims, dtype, device);
    Dispatch<kernels::Fill>(device, Ref(tensor), value);
    return tensor;
}

TensorPtr Tensor::Zeros(const std::vector<int64_t> &dims, DataType dtype, Device device) {
    return Full(dims, 0, dtype, device);
}

TensorPtr Tensor::Ones(const std::vector<int64_t> &dims, DataType dtype, Device device) {
    return Full(dims, 1, dtype, device);
}

TensorPtr Tensor::EmptyLike(const TensorPtr &like) {
    return EmptyLike(*like, like->Dtype());
}
TensorPtr Tensor::EmptyLike(const Tensor &like, DataType dtype) {
    if (!like.layout_->is_row_major) {
        return Empty(like.Dims(), dtype, like.GetDevice());
    }
    return std::make_shared<Tensor>(NewStorage(*like.layout_, dtype, like.GetDevice()), like.layout_, 0, dtype);
}
TensorPtr Tensor::ZerosLike(const TensorPtr &like) {
    return Zeros(like->Dims(), like->Dtype(), like->GetDevice());
}
TensorPtr Tensor::OnesLike(const TensorPtr &like) {
    return Ones(like->Dims(), like->Dtype(), like->GetDevice());
}

TensorPtr Tensor::FromScalar(Scalar value, DataType dtype, Device device) {
    return Full({}, value, dtype, device);
}

TensorPtr Tensor::Arange(Scalar start, Scalar end, Scalar step, DataType dtype, Device device) {
    const bool real = start.IsFloatingPoint() || end.IsFloatingPoint() || step.IsFloatingPoint();
    const double span = end.To<double>() - start.To<double>();
    const double stride = step.To<double>();
    if (stride == 0 || span / stride < 0 || !std::isfinite(span / stride)) {
        Throw<ValueError>("Arange: a step of {} doesn't lead from {} to {}", step.ToString(), start.ToString(),
                          end.ToString());
    }
    int64_t count = 0;
    if (real) {
        count = static_cast<int64_t>(std::ceil(span / stride));
    } else {
        const int64_t distance = end.To<int64_t>() - start.To<int64_t>();
        const int64_t by = step.To<int64_t>();
        count = distance / by + (distance % by != 0 ? 1 : 0);
    }
    auto tensor = Empty({count}, dtype, device);
    Dispatch<kernels::Arange>(device, Ref(tensor), start, step);
    return tensor;
}

TensorPtr Tensor::Eye(int64_t n, DataType dtype, Device device) {
    auto tensor = Zeros({n, n}, dtype, device);
    const Tensor diagonal(tensor->storage(), {n}, {n + 1}, 0, dtype);
    Dispatch<kernels::Fill>(device, Ref(const_cast<Tensor &>(diagonal)), Scalar(1));
    return tensor;
}

TensorPtr Tensor::Rand(const std::vector<int64_t> &dims, DataType dtype, Device device, Generator *generator) {
    return Empty(dims, dtype, device)->Uniform(0.0F, 1.0F, generator);
}

TensorPtr Tensor::Randn(const std::vector<int64_t> &dims, DataType dtype, Device device, Generator *generator) {
    return Empty(dims, dtype, device)->Normal(0.0F, 1.0F, generator);
}

TensorPtr Tensor::RandInt(int64_t low, int64_t high, const std::vector<int64_t> &dims, DataType dtype, Device device,
                          Generator *generator) {
    if (low >= high) {
        Throw<ValueError>("RandInt: expected low < high, got {} and {}", low, high);
    }
    if (!IsIntegral(dtype)) {
        Throw<DtypeError>("RandInt: expected an integer type, got {}", infini_train::ToString(dtype));
    }
    auto tensor = Empty(dims, dtype, device);
    Generator &source = generator != nullptr ? *generator : DefaultGenerator();
    const auto state = source.Reserve(static_cast<uint64_t>(tensor->NumElements()));
    Dispatch<kernels::RandIntFill>(device, Ref(tensor), low, high, state);
    return tensor;
}

TensorPtr Tensor::FromBlob(void *data, const std::vector<int64_t> &dims, DataType dtype, Device device,
                           std::function<void(void *)> deleter) {
    const size_t bytes = CheckedBytes(dims, dtype, "FromBlob");
    if (data == nullptr && bytes > 0) {
        Throw<ValueError>("FromBlob: expected {} bytes, got a null pointer", bytes);
    }
    auto storage = std::make_shared<Storage>(data, bytes, device, std::move(deleter));
    return std::make_shared<Tensor>(std::move(storage), dims, ContiguousStrides(dims), 0, dtype);
}

TensorPtr Tensor::CopyOf(const void *data, size_t count, const std::vector<int64_t> &dims, DataType dtype,
                         Device device) {
    auto tensor = Empty(dims, dtype, device);
    if (tensor->NumElements() != static_cast<int64_t>(count)) {
        Throw<ShapeError>("Tensor: {} values don't fill {}", count, FormatDims(dims));
    }
    if (device.IsCPU()) {
        if (count > 0) {
            std::memcpy(tensor->DataPtr(), data, tensor->SizeInBytes());
        }
    } else {
        GetDeviceBackend(device).Copy(tensor->DataPtr(), device, data, Device(), tensor->SizeInBytes());
    }
    return tensor;
}

void Tensor::CopyTo(void *data, DataType dtype) const {
    const Tensor *source = this;
    TensorPtr on_cpu;
    if (!GetDevice().IsCPU()) {
        const TensorPtr dense = IsContiguous() ? nullptr : CastCopy(*this, dtype_);
        on_cpu = Empty(Dims(), dtype_);
        GetDeviceBackend(GetDevice())
            .Copy(on_cpu->DataPtr(), Device(), dense ? dense->DataPtr() : DataPtr(), GetDevice(), SizeInBytes());
        source = on_cpu.get();
    }
    const auto strides = ContiguousStrides(Dims());
    const TensorRef target{data,          Dims().data(), strides.data(), static_cast<int>(NumDims()), dtype,
                           NumElements(), true};
    Dispatch<kernels::Copy>(Device(), target, Ref(*source));
}

int64_t Tensor::Dim(int64_t dim) const {
    if (Dims().empty()) {
        Throw<IndexError>("Tensor::Dim: dim {} of a tensor without dimensions", dim);
    }
    return Dims()[static_cast<size_t>(NormalizeDim(dim, NumDims(), "Tensor::Dim"))];
}

Scalar Tensor::Item() const {
    if (NumElements() != 1) {
        Throw<ShapeError>("Tensor::Item: expected one element, got {}", FormatDims(Dims()));
    }
    return DispatchDtype(dtype_, [&]<typename T>() {
        T value{};
        CopyTo(&value, dtype_);
        return Scalar(value);
    });
}

void Tensor::CheckDtype(DataType wanted) const {
    if (wanted != dtype_) {
        Throw<DtypeError>("Tensor::Data: the tensor holds {}, not {}", infini_train::ToString(dtype_),
                          infini_train::ToString(wanted));
    }
}

void Tensor::CopyFrom(const Tensor &source) {
    if (source.GetDevice() != GetDevice()) {
        Throw<DeviceError>("Tensor::CopyFrom: the source is on {}, the tensor on {}", source.GetDevice().ToString(),
                           GetDevice().ToString());
    }
    Dispatch<kernels::Copy>(GetDevice(), Ref(*this), Ref(*BroadcastTo(source, Dims(), "Tensor::CopyFrom")));
    storage_->BumpVersion();
}

}  // namespace infini_train
