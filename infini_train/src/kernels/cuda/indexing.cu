// Gathers and their reverse, sums into looked-up places.

#include <array>
#include <limits>
#include <vector>

#include "infini_train/src/cuda/random_shift.h"
#include "infini_train/src/kernels/cuda/embedding.h"
#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/cuda/strides.cuh"
#include "infini_train/src/kernels/cuda/vector.cuh"
#include "infini_train/src/kernels/element_size.h"
#include "infini_train/src/kernels/indexing.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

constexpr unsigned long long kNone = std::numeric_limits<unsigned long long>::max();

__global__ void __launch_bounds__(kBlock)
    FindBadKernel(const int64_t *index, int64_t count, int64_t limit, unsigned long long *first) {
    for (int64_t i = GridIndex(); i < count; i += GridStep()) {
        if (index[i] < 0 || index[i] >= limit) {
            atomicMin(first, static_cast<unsigned long long>(i));
            break;  // those after it don't matter
        }
    }
}

int64_t RunFindBadIndex(ConstTensorRef index, int64_t limit) {
    // While a graph is recorded there is nothing to read back yet: what it looks up isn't checked.
    if (index.num_elements == 0 || CurrentRandomShift() != nullptr) {
        return -1;
    }
    const Scratch first(sizeof(kNone));
    CheckCuda(cudaMemsetAsync(first.data(), 0xff, sizeof(kNone), CurrentStream()), "FindBadIndex: cudaMemsetAsync");
    Launch("FindBadIndex", {GridFor(index.num_elements)}, FindBadKernel, index.Data<int64_t>(), index.num_elements,
           limit, first.As<unsigned long long>());
    return static_cast<int64_t>(ReadBack(first.As<unsigned long long>()));
}

// The strides of the operand that is looked up: 0 in `dim`, where the index says the position.
std::vector<int64_t> WithoutDim(const int64_t *strides, int ndim, int dim) {
    std::vector<int64_t> result(strides, strides + ndim);
    result[static_cast<size_t>(dim)] = 0;
    return result;
}

template <typename T, typename Places>
__global__ void __launch_bounds__(kBlock)
    GatherKernel(T *output, const T *input, const int64_t *index, Places places, int64_t num_elements, int64_t stride) {
    for (int64_t i = GridIndex(); i < num_elements; i += GridStep()) {
        const auto at = places.At(static_cast<typename Places::Index>(i));
        output[at[0]] = input[at[1] + index[at[2]] * stride];
    }
}

void RunGather(TensorRef output, ConstTensorRef input, ConstTensorRef index, int dim) {
    if (output.num_elements == 0) {
        return;
    }
    const auto base = WithoutDim(input.strides, input.ndim, dim);
    const auto dims = output.Dims();
    const StridedLoop loop(dims, {{dims, output.strides}, {dims, base.data()}, {dims, index.strides}});
    kernels::DispatchElementSize(SizeOf(output.dtype), [&]<typename T>() {
        VisitOffsets<3>(loop, [&](const auto &places) {
            using Places = std::decay_t<decltype(places)>;
            Launch("Gather", {GridFor(output.num_elements)}, GatherKernel<T, Places>, output.Data<T>(), input.Data<T>(),
                   index.Data<int64_t>(), places, output.num_elements, input.strides[dim]);
        });
    });
}

// What a ScatterAdd's elements along `dim` have in common.
struct Fiber {
    int64_t length;
    int64_t output_stride, source_stride, index_stride;
};

// A thread takes a fiber, in order, so that the sums don't depend on chance.
template <typename T, typename Places>
__global__ void __launch_bounds__(kBlock)
    ScatterAddKernel(T *output, const T *source, const int64_t *index, Places places, int64_t num_fibers, Fiber fiber) {
    for (int64_t i = GridIndex(); i < num_fibers; i += GridStep()) {
        const auto at = places.At(static_cast<typename Places::Index>(i));
        for (int64_t j = 0; j < fiber.length; ++j) {
            const int64_t place = index[at[2] + j * fiber.index_stride];
            output[at[0] + place * fiber.output_stride] += source[at[1] + j * fiber.source_stride];
        }
    }
}

void RunScatterAdd(TensorRef output, ConstTensorRef source, ConstTensorRef index, int dim) {
    if (index.num_elements == 0) {
        return;
    }
    std::vector<int64_t> dims(index.dims, index.dims + index.ndim);
    dims[static_cast<size_t>(dim)] = 1;
    const StridedLoop loop(dims, {{dims, output.strides}, {dims, source.strides}, {dims, index.strides}});
    const Fiber fiber{index.dims[dim], output.strides[dim], source.strides[dim], index.strides[dim]};
    const auto run = [&]<typename T>(std::type_identity<T>) {
        VisitOffsets<3>(loop, [&](const auto &places) {
            using Places = std::decay_t<decltype(places)>;
            Launch("ScatterAdd", {GridFor(loop.num_elements)}, ScatterAddKernel<T, Places>, output.Data<T>(),
                   source.Data<T>(), index.Data<int64_t>(), places, loop.num_elements, fiber);
        });
    };
    switch (output.dtype) {
        case DataType::kFLOAT32:
            return run(std::type_identity<float>{});
        case DataType::kFLOAT64:
            return run(std::type_identity<double>{});
        default:
            return run(std::type_identity<uint64_t>{});  // sums of int64 wrap
    }
}

// Rows in units of T, of which a row has `length`.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    LookUpKernel(T *output, const T *weight, const int64_t *index, int64_t count, int64_t length, int64_t row_stride) {
    for (int64_t i = GridIndex(); i < count * length; i += GridStep()) {
        const int64_t row = i / length, column = i % length;
        output[i] = weight[index[row] * row_stride + column];
    }
}

void RunEmbeddingForward(TensorRef output, ConstTensorRef weight, ConstTensorRef index) {
    const auto element = static_cast<int64_t>(SizeOf(output.dtype));
    const int64_t row_bytes = weight.dims[1] * element, stride_bytes = weight.strides[0] * element;
    const auto run = [&]<typename T>(std::type_identity<T>) {
        constexpr auto kUnit = static_cast<int64_t>(sizeof(T));
        const int64_t units = index.num_elements * (row_bytes / kUnit);
        Launch("EmbeddingForward", {GridFor(units)}, LookUpKernel<T>, output.Data<T>(), weight.Data<T>(),
               index.Data<int64_t>(), index.num_elements, row_bytes / kUnit, stride_bytes / kUnit);
    };
    if (row_bytes % 16 == 0 && stride_bytes % 16 == 0 && IsAligned(output.data) && IsAligned(weight.data)) {
        return run(std::type_identity<Vec<uint32_t, 4>>{});
    }
    kernels::DispatchElementSize(SizeOf(output.dtype), [&]<typename T>() { run(std::type_identity<T>{}); });
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterIndexingCuda() {
    RegisterKernel<FindBadIndex>(DeviceType::kCUDA, &cuda::RunFindBadIndex);
    RegisterKernel<Gather>(DeviceType::kCUDA, &cuda::RunGather);
    RegisterKernel<ScatterAdd>(DeviceType::kCUDA, &cuda::RunScatterAdd);
    RegisterKernel<EmbeddingForward>(DeviceType::kCUDA, &cuda::RunEmbeddingForward);
    RegisterKernel<EmbeddingBackward>(DeviceType::kCUDA, &cuda::RunEmbeddingBackward);
}

}  // namespace infini_train::kernels
