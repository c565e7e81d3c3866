// Gathers and their reverse, sums into looked-up places. Every sum is made by one thread in the order of the indices,
// so no result depends on the number of threads.

#include "infini_train/src/kernels/indexing.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/rows.h"
#include "infini_train/src/kernels/element_size.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cpu {
namespace {

constexpr int64_t kGrainBytes = 64 * 1024;  // some 5 us of copying
constexpr int64_t kGrainLookups = 4096;
constexpr int64_t kLineBytes = 64;

int64_t FindBadIndexKernel(ConstTensorRef index, int64_t limit) {
    const auto *values = index.Data<int64_t>();
    const auto bound = static_cast<uint64_t>(limit);
    constexpr int64_t kBlock = 1024;
    for (int64_t begin = 0; begin < index.num_elements; begin += kBlock) {
        const int64_t end = std::min(index.num_elements, begin + kBlock);
        // Without a branch this loop is vectorised; the bad one is looked for only if there is one.
        bool bad = false;
        for (int64_t i = begin; i < end; ++i) {
            bad |= static_cast<uint64_t>(values[i]) >= bound;
        }
        if (bad) {
            return std::find_if(values + begin, values + end,
                                [&](int64_t value) { return static_cast<uint64_t>(value) >= bound; }) -
                   values;
        }
    }
    return -1;
}

// The strides of the operand that is looked up: 0 in `dim`, where the index says the position.
std::vector<int64_t> WithoutDim(const ConstTensorRef &ref, int dim) {
    std::vector<int64_t> strides(ref.strides, ref.strides + ref.ndim);
    strides[static_cast<size_t>(dim)] = 0;
    return strides;
}

void GatherKernel(TensorRef output, ConstTensorRef input, ConstTensorRef index, int dim) {
    const auto base_strides = WithoutDim(input, dim);
    const int64_t stride = input.strides[dim];
    const int last = output.ndim - 1;
    const int64_t out_step = output.strides[last];
    const int64_t in_step = base_strides[static_cast<size_t>(last)];
    const int64_t index_step = index.strides[last];
    kernels::DispatchElementSize(SizeOf(output.dtype), [&]<typename T>() {
        ParallelFor(0, output.num_elements, kGrainLookups, [&](int64_t begin, int64_t end) {
            ForEachRow<3>(output.Dims(), {output.strides, base_strides.data(), index.strides}, begin, end,
                          [&](const auto &offsets, int64_t count) {
                              T *out = output.Data<T>() + offsets[0];
                              const T *in = input.Data<T>() + offsets[1];
                              const int64_t *at = index.Data<int64_t>() + offsets[2];
                              for (int64_t j = 0; j < count; ++j) {
                                  out[j * out_step] = in[j * in_step + at[j * index_step] * stride];
                              }
                          });
        });
    });
}

// What a ScatterAdd walks over: the index's dims with `dim` moved to one end, and the operands' strides likewise.
struct ScatterPlan {
    std::vector<int64_t> dims;
    std::array<std::vector<int64_t>, 3> strides;  // output (0 in `dim`), source, index
    int64_t fibers = 1;                           // the index's size without `dim`

    std::array<const int64_t *, 3> Strides(size_t from) const {
        return {strides[0].data() + from, strides[1].data() + from, strides[2].data() + from};
    }
};

ScatterPlan PlanScatter(const TensorRef &output, const ConstTensorRef &source, const ConstTensorRef &index, int dim,
                        bool dim_first) {
    ScatterPlan plan;
    const auto add = [&](int d) {
        plan.dims.push_back(index.dims[d]);
        plan.strides[0].push_back(d == dim ? 0 : output.strides[d]);
        plan.strides[1].push_back(source.strides[d]);
        plan.strides[2].push_back(index.strides[d]);
    };
    if (dim_first) {
        add(dim);
    }
    for (int d = 0; d < index.ndim; ++d) {
        if (d != dim) {
            add(d);
            plan.fibers *= index.dims[d];
        }
    }
    if (!dim_first) {
        add(dim);
    }
    return plan;
}

template <typename T>
void ScatterAddTo(TensorRef output, ConstTensorRef source, ConstTensorRef index, int dim) {
    // Elements that may meet in one place are those of one fiber, a line along `dim`. A thread takes whole fibers: one
    // after the other if they are the rows, else all of its fibers abreast.
    const bool dim_first = dim != index.ndim - 1;
    const ScatterPlan plan = PlanScatter(output, source, index, dim, dim_first);
    const int64_t length = index.dims[dim];
    const int64_t stride = output.strides[dim];
    const size_t last = plan.dims.size() - 1;
    const int64_t out_step = plan.strides[0][last];
    const int64_t source_step = plan.strides[1][last];
    const int64_t index_step = plan.strides[2][last];
    const auto add_row = [&](const std::array<int64_t, 3> &offsets, int64_t count) {
        T *out = output.Data<T>() + offsets[0];
        const T *from = source.Data<T>() + offsets[1];
        const int64_t *at = index.Data<int64_t>() + offsets[2];
        for (int64_t j = 0; j < count; ++j) {
            out[j * out_step + at[j * index_step] * stride] += from[j * source_step];
        }
    };
    const int64_t grain = std::max<int64_t>(1, kGrainLookups / std::max<int64_t>(1, length));
    ParallelFor(0, plan.fibers, grain, [&](int64_t begin, int64_t end) {
        if (!dim_first) {
            ForEachRow<3>(plan.dims, plan.Strides(0), begin * length, end * length, add_row);
            return;
        }
        for (int64_t k = 0; k < length; ++k) {
            ForEachRow<3>(
                std::span(plan.dims).subspan(1), plan.Strides(1), begin, end,
                [&](const std::array<int64_t, 3> &offsets, int64_t count) {
                    add_row({offsets[0], offsets[1] + k * plan.strides[1][0], offsets[2] + k * plan.strides[2][0]},
                            count);
                });
        }
    });
}

void ScatterAddKernel(TensorRef output, ConstTensorRef source, ConstTensorRef index, int dim) {
    if (index.num_elements == 0) {
        return;
    }
    switch (output.dtype) {
        case DataType::kFLOAT32:
            return ScatterAddTo<float>(output, source, index, dim);
        case DataType::kFLOAT64:
            return ScatterAddTo<double>(output, source, index, dim);
        default:
            return ScatterAddTo<uint64_t>(output, source, index, dim);  // sums of int64 wrap
    }
}

void EmbeddingForwardKernel(TensorRef output, ConstTensorRef weight, ConstTensorRef index) {
    const auto element = static_cast<int64_t>(SizeOf(output.dtype));
    const int64_t row_bytes = weight.dims[1] * element;
    const int64_t row_stride = weight.strides[0] * element;
    if (row_bytes == 0) {
        return;
    }
    const int64_t grain = std::max<int64_t>(1, kGrainBytes / row_bytes);
    ParallelFor(0, index.num_elements, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            std::memcpy(output.Data<char>() + i * row_bytes,
                        weight.Data<char>() + index.Data<int64_t>()[i] * row_stride, static_cast<size_t>(row_bytes));
        }
    });
}

template <typename T>
void AddRow(T *__restrict sum, const T *__restrict row, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        sum[i] += row[i];
    }
}

template <typename T>
void EmbeddingBackwardTo(TensorRef grad_weight, ConstTensorRef grad_output, ConstTensorRef index) {
    const int64_t rows = grad_weight.dims[0];
    const int64_t columns = grad_weight.dims[1];
    const int64_t grad_stride = grad_output.strides[0];
    const int64_t count = index.num_elements;
    const auto *at = index.Data<int64_t>();
    T *sums = grad_weight.Data<T>();
    const auto add_columns = [&](int64_t begin, int64_t end) {
        for (int64_t i = 0; i < count; ++i) {
            AddRow(sums + at[i] * columns + begin, grad_output.Data<T>() + i * grad_stride + begin, end - begin);
        }
    };
    const auto element = static_cast<int64_t>(sizeof(T));
    // Wide rows are shared out by columns: evenly, however often an index comes. Narrow ones by rows, each thread
    // skipping the indices of the others.
    const int64_t lines = columns * element / kLineBytes;
    if (lines >= 8 || columns == 0) {
        const int64_t line = kLineBytes / element;
        const int64_t grain = std::max<int64_t>(1, kGrainBytes / (std::max<int64_t>(1, count) * kLineBytes)) * line;
        ParallelFor(0, columns, grain, add_columns);
        return;
    }
    const int64_t work = std::max<int64_t>(1, count * columns * element / kGrainBytes);  // chunks worth a thread
    ParallelFor(0, rows, std::max<int64_t>(1, (rows + work - 1) / work), [&](int64_t begin, int64_t end) {
        for (int64_t i = 0; i < count; ++i) {
            if (at[i] >= begin && at[i] < end) {
                AddRow(sums + at[i] * columns, grad_output.Data<T>() + i * grad_stride, columns);
            }
        }
    });
}

void EmbeddingBackwardKernel(TensorRef grad_weight, ConstTensorRef grad_output, ConstTensorRef index) {
    if (grad_weight.dtype == DataType::kFLOAT32) {
        EmbeddingBackwardTo<float>(grad_weight, grad_output, index);
    } else {
        EmbeddingBackwardTo<double>(grad_weight, grad_output, index);
    }
}

}  // namespace
}  // namespace infini_train::cpu

namespace infini_train::kernels {

void RegisterIndexingCpu() {
    RegisterKernel<FindBadIndex>(DeviceType::kCPU, &cpu::FindBadIndexKernel);
    RegisterKernel<Gather>(DeviceType::kCPU, &cpu::GatherKernel);
    RegisterKernel<ScatterAdd>(DeviceType::kCPU, &cpu::ScatterAddKernel);
    RegisterKernel<EmbeddingForward>(DeviceType::kCPU, &cpu::EmbeddingForwardKernel);
    RegisterKernel<EmbeddingBackward>(DeviceType::kCPU, &cpu::EmbeddingBackwardKernel);
}

}  // namespace infini_train::kernels
