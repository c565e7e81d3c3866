#include "infini_train/src/tensor/shape.h"

#include <algorithm>
#include <numeric>

#include "infini_train/src/common/format.h"
#include "infini_train/src/core/size.h"
#include "infini_train/src/kernels/fill.h"
#include "infini_train/src/tensor/ref.h"

namespace infini_train {

std::vector<int64_t> ContiguousStrides(std::span<const int64_t> dims) {
    std::vector<int64_t> strides(dims.size());
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0;) {
        strides[i] = stride;
        stride *= std::max<int64_t>(dims[i], 1);
    }
    return strides;
}

int64_t NormalizeDim(int64_t dim, int64_t ndim, const char *name) {
    const int64_t limit = std::max<int64_t>(ndim, 1);
    if (dim < -limit || dim >= limit) {
        Throw<IndexError>("{}: dim {} is out of range for {} dimension{}", name, dim, ndim, ndim == 1 ? "" : "s");
    }
    return dim < 0 ? dim + limit : dim;
}

std::vector<int64_t> NormalizeDims(std::span<const int64_t> dims, int64_t ndim, const char *name) {
    std::vector<int64_t> result;
    if (dims.empty()) {
        result.resize(static_cast<size_t>(ndim));
        std::iota(result.begin(), result.end(), 0);
        return result;
    }
    for (const int64_t dim : dims) {
        result.push_back(NormalizeDim(dim, ndim, name));
    }
    std::sort(result.begin(), result.end());
    const auto repeated = std::adjacent_find(result.begin(), result.end());
    if (repeated != result.end()) {
        Throw<ValueError>("{}: dim {} is given twice", name, *repeated);
    }
    if (ndim == 0) {
        result.clear();
    }
    return result;
}

std::vector<int64_t> BroadcastDims(std::span<const int64_t> a, std::span<const int64_t> b, const char *name) {
    const std::span<const int64_t> &longer = a.size() >= b.size() ? a : b;
    const std::span<const int64_t> &shorter = a.size() >= b.size() ? b : a;
    std::vector<int64_t> dims(longer.begin(), longer.end());
    const size_t lead = longer.size() - shorter.size();
    for (size_t i = 0; i < shorter.size(); ++i) {
        int64_t &dim = dims[lead + i];
        if (dim == 1) {
            dim = shorter[i];
        } else if (shorter[i] != 1 && shorter[i] != dim) {
            Throw<ShapeError>("{}: {} and {} don't broadcast: {} against {}", name, FormatDims(a), FormatDims(b),
                              a[a.size() - shorter.size() + i], b[b.size() - shorter.size() + i]);
        }
    }
    return dims;
}

TensorPtr BroadcastTo(const Tensor &tensor, const std::vector<int64_t> &dims, const char *name) {
    const auto &from = tensor.Dims();
    const size_t lead = dims.size() - std::min(dims.size(), from.size());
    bool fits = from.size() <= dims.size();
    std::vector<int64_t> strides(dims.size(), 0);
    for (size_t i = 0; fits && i < from.size(); ++i) {
        fits = from[i] == dims[lead + i] || from[i] == 1;
        strides[lead + i] = from[i] == dims[lead + i] ? tensor.Strides()[i] : 0;
    }
    if (!fits) {
        Throw<ShapeError>("{}: {} doesn't broadcast to {}", name, FormatDims(from), FormatDims(dims));
    }
    return std::make_shared<Tensor>(tensor.storage(), dims, std::move(strides), tensor.StorageOffset(), tensor.Dtype());
}

TensorPtr TryView(const Tensor &tensor, const std::vector<int64_t> &dims) {
    if (tensor.IsContiguous() || tensor.NumElements() == 0) {
        return std::make_shared<Tensor>(tensor.storage(), dims, ContiguousStrides(dims), tensor.StorageOffset(),
                                        tensor.Dtype());
    }
    // Runs of old dimensions that lie evenly in memory may be cut anew; new dimensions are taken from the back.
    const auto &old_dims = tensor.Dims();
    const auto &old_strides = tensor.Strides();
    std::vector<int64_t> strides(dims.size());
    auto next = static_cast<int64_t>(dims.size()) - 1;
    int64_t run = 1;    // elements of the current run of old dimensions
    int64_t taken = 1;  // and of the new ones laid over it
    int64_t run_stride = 1;
    for (auto i = static_cast<int64_t>(old_dims.size()) - 1; i >= 0; --i) {
        if (run == 1) {
            run_stride = old_strides[i];
        }
        run *= old_dims[i];
        const bool run_ends = i == 0 || (old_dims[i - 1] != 1 && old_strides[i - 1] != run * run_stride);
        if (!run_ends) {
            continue;
        }
        while (next >= 0 && (taken < run || dims[next] == 1)) {
            strides[next] = taken * run_stride;
            taken *= dims[next--];
        }
        if (taken != run) {
            return nullptr;
        }
        run = taken = 1;
    }
    return std::make_shared<Tensor>(tensor.storage(), dims, std::move(strides), tensor.StorageOffset(), tensor.Dtype());
}

std::vector<int64_t> InferDims(const std::vector<int64_t> &dims, int64_t num_elements, const char *name) {
    std::vector<int64_t> result = dims;
    const auto unknown = std::find(result.begin(), result.end(), -1);
    if (unknown != result.end()) {
        if (std::find(unknown + 1, result.end(), -1) != result.end()) {
            Throw<ShapeError>("{}: expected at most one -1, got {}", name, FormatDims(dims));
        }
        *unknown = 1;
        const int64_t known = CheckedNumElements(result, name);
        if (known == 0 || num_elements % known != 0) {
            Throw<ShapeError>("{}: {} elements don't fill {}", name, num_elements, FormatDims(dims));
        }
        *unknown = num_elements / known;
    }
    if (CheckedNumElements(result, name) != num_elements) {
        Throw<ShapeError>("{}: {} elements don't fill {}", name, num_elements, FormatDims(dims));
    }
    return result;
}

void CheckOperands(const char *name, const TensorList &tensors) {
    const Tensor *first = nullptr;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const Tensor *tensor = tensors[i].get();
        if (tensor == nullptr) {
            Throw<ValueError>("{}: input {} is null", name, i);
        }
        if (first == nullptr) {
            first = tensor;
        } else if (tensor->GetDevice() != first->GetDevice()) {
            Throw<DeviceError>("{}: input 0 is on {} but input {} on {}", name, first->GetDevice().ToString(), i,
                               tensor->GetDevice().ToString());
        }
    }
}

TensorPtr CastCopy(const Tensor &tensor, DataType dtype) {
    auto copy = Tensor::EmptyLike(tensor, dtype);
    Dispatch<kernels::Copy>(tensor.GetDevice(), Ref(copy), Ref(tensor));
    return copy;
}

TensorPtr ContiguousCopy(const TensorPtr &tensor) {
    return tensor->IsContiguous() ? tensor : CastCopy(*tensor, tensor->Dtype());
}

}  // namespace infini_train
