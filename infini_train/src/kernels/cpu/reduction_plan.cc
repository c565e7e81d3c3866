#include "infini_train/src/kernels/cpu/reduction_plan.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace infini_train::cpu {
namespace {

// Rows shorter than this, side by side, are reduced as columns.
constexpr int64_t kShortRow = 8;
constexpr int64_t kManyRows = 32;

// A repeated dimension is the widest of all: then what is next to each other in memory stays so.
int64_t SortKey(const ReduceDim &dim) {
    return dim.stride == 0 ? std::numeric_limits<int64_t>::max() : dim.stride;
}

bool Mergeable(const ReduceDim &wide, const ReduceDim &narrow) {
    return wide.reduced == narrow.reduced && wide.stride == narrow.stride * narrow.size &&
           wide.out_stride == narrow.out_stride * narrow.size;
}

}  // namespace

std::vector<ReduceDim> PlanReduction(const TensorRef &output, const ConstTensorRef &input) {
    std::vector<ReduceDim> dims;
    for (int i = 0; i < input.ndim; ++i) {
        if (input.dims[i] != 1) {
            const bool reduced = output.dims[i] == 1;
            dims.push_back({input.dims[i], input.strides[i], reduced ? 0 : output.strides[i], reduced});
        }
    }
    if (!input.is_contiguous) {
        std::stable_sort(dims.begin(), dims.end(),
                         [](const ReduceDim &a, const ReduceDim &b) { return SortKey(a) > SortKey(b); });
    }
    size_t count = 0;
    for (const ReduceDim &dim : dims) {
        if (count > 0 && Mergeable(dims[count - 1], dim)) {
            ReduceDim &wide = dims[count - 1];
            wide = {wide.size * dim.size, dim.stride, dim.out_stride, dim.reduced};
        } else {
            dims[count++] = dim;
        }
    }
    dims.resize(count);
    return dims;
}

ReducePass TakePass(std::vector<ReduceDim> *dims) {
    ReducePass pass;
    pass.reduced.reduced = true;
    // The last reduced dimension is the one nearest to contiguous memory.
    const auto last =
        std::find_if(dims->rbegin(), dims->rend(), [](const ReduceDim &dim) { return dim.reduced; }).base();
    size_t inner = dims->size();  // none
    if (last == dims->begin()) {
        inner -= dims->empty() ? 0 : 1;
    } else {
        const auto position = static_cast<size_t>(last - dims->begin()) - 1;
        pass.reduced = (*dims)[position];
        if (position + 1 < dims->size()) {
            inner = dims->size() - 1;
        } else if (pass.reduced.size <= kShortRow && position > 0 && !(*dims)[position - 1].reduced &&
                   (*dims)[position - 1].size >= kManyRows) {
            inner = position - 1;
        }
        dims->erase(dims->begin() + static_cast<ptrdiff_t>(position));
        inner = inner > position ? inner - 1 : inner;
    }
    if (std::any_of(dims->begin(), dims->end(), [](const ReduceDim &dim) { return dim.reduced; })) {
        // Everything that is left goes into a contiguous intermediate result.
        int64_t stride = 1;
        for (auto dim = dims->rbegin(); dim != dims->rend(); ++dim) {
            pass.outer.insert(pass.outer.begin(), {dim->size, dim->stride, stride, false});
            dim->stride = stride;
            stride *= dim->size;
        }
    } else {
        pass.outer = std::move(*dims);
        dims->clear();
    }
    if (inner < pass.outer.size()) {
        pass.inner = pass.outer[inner];
        pass.outer.erase(pass.outer.begin() + static_cast<ptrdiff_t>(inner));
    }
    for (const ReduceDim &dim : pass.outer) {
        pass.outer_count *= dim.size;
    }
    return pass;
}

Odometer::Odometer(std::span<const ReduceDim> dims, int64_t position) : dims_(dims), digits_(dims.size()) {
    for (size_t i = dims.size(); i-- > 0;) {
        digits_[i] = position % dims[i].size;
        position /= dims[i].size;
        in_ += digits_[i] * dims[i].stride;
        out_ += digits_[i] * dims[i].out_stride;
    }
}

void Odometer::Next() {
    for (size_t i = dims_.size(); i-- > 0;) {
        const ReduceDim &dim = dims_[i];
        in_ += dim.stride;
        out_ += dim.out_stride;
        if (++digits_[i] < dim.size) {
            return;
        }
        digits_[i] = 0;
        in_ -= dim.stride * dim.size;
        out_ -= dim.out_stride * dim.size;
    }
}

}  // namespace infini_train::cpu
