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

}  // namespace

Tensor::Tensor(const std::vector<int64_t> &dims, DataType dtype, Device device, bool requires_grad)
    : dims_(dims), strides_(dims.size()), num_elements_(CheckedNumElements(dims, "Tensor")), dtype_(dtype) {
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0;) {
        strides_[i] = stride;
        stride *= dims[i] > 0 ? dims[i] : 1;
    }
    storage_ = std::make_shared<Storage>(CheckedBytes(num_elements_, dtype, "Tensor"), device);
    if (requires_grad) {
        set_requires_grad(true);
    }
}

Tensor::Tensor(const float *data, const std::vector<int64_t> &dims, DataType dtype, Device device)
    : Tensor(dims, dtype, device) {
    if (data == nullptr && num_elements_ > 0) {
        Throw<ValueError>("Tensor: expected {} floats, got a null pointer", num_elements_);
    }
    CopyFrom(*CopyOf(data, static_cast<size_t>(num_elements_), dims, DataType::kFLOAT32, device));
}

Tensor::Tensor(std::shared_ptr<Storage> storage, std::vector<int64_t> dims, std::vector<int64_t> strides,
               int64_t offset, DataType dtype)
    : storage_(std::move(storage)),
      dims_(std::move(dims)),
      strides_(std::move(strides)),
      offset_(offset),
      num_elements_(CheckedNumElements(dims_, "Tensor")),
      dtype_(dtype) {
    if (strides_.size() != dims_.size() || offset < 0) {
        Throw<ShapeError>("Tensor: expected a stride for each dim of {} and an offset >= 0, got strides {}, offset {}",
                          FormatDims(dims_), FormatDims(strides_), offset);
    }
    int64_t last = offset;
    for (size_t i = 0; i < dims_.size(); ++i) {
        if (strides_[i] < 0) {
            Throw<ShapeError>("Tensor: expected strides >= 0, got {}", FormatDims(strides_));
        }
        last += (dims_[i] - 1) * strides_[i];
    }
    if (num_elements_ > 0 && static_cast<size_t>(last + 1) * SizeOf(dtype) > storage_->bytes()) {
        Throw<ShapeError>("Tensor: dims {} with strides {} and offset {} reach past the storage of {} bytes",
                          FormatDims(dims_), FormatDims(strides_), offset, storage_->bytes());
    }
    is_contiguous_ = AreContiguous(dims_, strides_);
}

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
    return Empty(like->Dims(), like->Dtype(), like->GetDevice());
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
        const TensorPtr dense = is_contiguous_ ? nullptr : CastCopy(*this, dtype_);
        on_cpu = Empty(dims_, dtype_);
        GetDeviceBackend(GetDevice())
            .Copy(on_cpu->DataPtr(), Device(), dense ? dense->DataPtr() : DataPtr(), GetDevice(), SizeInBytes());
        source = on_cpu.get();
    }
    const auto strides = ContiguousStrides(dims_);
    const TensorRef target{data, dims_.data(), strides.data(), static_cast<int>(NumDims()), dtype, num_elements_, true};
    Dispatch<kernels::Copy>(Device(), target, Ref(*source));
}

int64_t Tensor::Dim(int64_t dim) const {
    if (dims_.empty()) {
        Throw<IndexError>("Tensor::Dim: dim {} of a tensor without dimensions", dim);
    }
    return dims_[static_cast<size_t>(NormalizeDim(dim, NumDims(), "Tensor::Dim"))];
}

Scalar Tensor::Item() const {
    if (num_elements_ != 1) {
        Throw<ShapeError>("Tensor::Item: expected one element, got {}", FormatDims(dims_));
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
    Dispatch<kernels::Copy>(GetDevice(), Ref(*this), Ref(*BroadcastTo(source, dims_, "Tensor::CopyFrom")));
    storage_->BumpVersion();
}

}  // namespace infini_train
