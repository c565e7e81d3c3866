// The gradient of an embedding: rows that were looked up several times get the sum, in the order of the lookups, so
// that it doesn't depend on chance and is the CPU's.

#include "infini_train/src/kernels/cuda/embedding.h"
#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/indexing.h"

namespace infini_train::cuda {
namespace {

// First the lookups are sorted by row. `ends[row]` counts them, then becomes where the row's list begins, then, as the
// list is filled, where it ends.

__global__ void __launch_bounds__(kBlock) CountKernel(const int64_t *index, int count, int *ends) {
    for (int64_t i = GridIndex(); i < count; i += GridStep()) {
        atomicAdd(&ends[index[i]], 1);
    }
}

// One block: sums of all counts before each.
__global__ void __launch_bounds__(kBlock) BeginKernel(int *ends, int64_t rows) {
    __shared__ int sums[kBlock];
    const auto thread = static_cast<int>(threadIdx.x);
    const int64_t per_thread = (rows + kBlock - 1) / kBlock;
    const int64_t first = thread * per_thread;
    const int64_t last = first + per_thread < rows ? first + per_thread : rows;
    int sum = 0;
    for (int64_t row = first; row < last; ++row) {
        sum += ends[row];
    }
    sums[thread] = sum;
    __syncthreads();
    for (int step = 1; step < kBlock; step *= 2) {
        const int before = thread >= step ? sums[thread - step] : 0;
        __syncthreads();
        sums[thread] += before;
        __syncthreads();
    }
    int begin = sums[thread] - sum;
    for (int64_t row = first; row < last; ++row) {
        const int in_row = ends[row];
        ends[row] = begin;
        begin += in_row;
    }
}

__global__ void __launch_bounds__(kBlock) FillKernel(const int64_t *index, int count, int *ends, int *list) {
    for (int64_t i = GridIndex(); i < count; i += GridStep()) {
        list[atomicAdd(&ends[index[i]], 1)] = static_cast<int>(i);
    }
}

// The two ways of a block to put a row's lookups in order. For few: each counts those before it.
__device__ __forceinline__ void SortByCounting(const int *list, int count, int *sorted) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlock) {
        int before = 0;
        for (int j = 0; j < count; ++j) {
            before += list[j] < list[i] ? 1 : 0;
        }
        sorted[before] = list[i];
    }
}

// For many, such as those of a token that pads: all lookups go by, and those of the row are taken out.
__device__ __forceinline__ void SortByScanning(const int64_t *index, int64_t row, int count, int *sorted) {
    __shared__ int of_warps[kBlock / kWarp];
    const auto thread = static_cast<int>(threadIdx.x);
    const int warp = thread / kWarp, lane = thread % kWarp;
    int done = 0;
    for (int first = 0; first < count; first += kBlock) {
        const int i = first + thread;
        const bool is_mine = i < count && index[i] == row;
        const unsigned ballot = __ballot_sync(0xffffffffU, is_mine ? 1 : 0);
        if (lane == 0) {
            of_warps[warp] = __popc(ballot);
        }
        __syncthreads();
        int before = __popc(ballot & ((1U << lane) - 1)), all = 0;
        for (int other = 0; other < kBlock / kWarp; ++other) {
            before += other < warp ? of_warps[other] : 0;
            all += of_warps[other];
        }
        if (is_mine) {
            sorted[done + before] = i;
        }
        done += all;
        __syncthreads();
    }
}

// A block takes a row: it puts the row's lookups in order and adds up what they brought.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    AddKernel(T *grad_weight, const T *grad_output, const int64_t *index, int count, const int *ends, const int *list,
              int *sorted, int64_t rows, int64_t columns, int64_t grad_stride) {
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const int begin = row == 0 ? 0 : ends[row - 1], end = ends[row];
        const int64_t own = end - begin;
        if (own * own <= int64_t{count} * kBlock) {
            SortByCounting(list + begin, end - begin, sorted + begin);
        } else {
            SortByScanning(index, row, count, sorted + begin);
        }
        __syncthreads();
        for (int64_t column = threadIdx.x; begin < end && column < columns; column += kBlock) {
            T sum = grad_weight[row * columns + column];
            for (int i = begin; i < end; ++i) {
                sum += grad_output[sorted[i] * grad_stride + column];
            }
            grad_weight[row * columns + column] = sum;
        }
    }
}

template <typename T>
void Run(TensorRef grad_weight, ConstTensorRef grad_output, ConstTensorRef index) {
    const int64_t rows = grad_weight.dims[0], columns = grad_weight.dims[1];
    const auto count = static_cast<int>(index.num_elements);
    const auto *const lookups = index.Data<int64_t>();
    const size_t bytes = (static_cast<size_t>(rows) + 2 * static_cast<size_t>(count)) * sizeof(int);
    const Scratch scratch(bytes);
    int *const ends = scratch.As<int>();
    int *const list = ends + rows;
    int *const sorted = list + count;
    const char *const name = "EmbeddingBackward";
    CheckCuda(cudaMemsetAsync(ends, 0, static_cast<size_t>(rows) * sizeof(int), CurrentStream()),
              "EmbeddingBackward: cudaMemsetAsync");
    Launch(name, {GridFor(count)}, CountKernel, lookups, count, ends);
    Launch(name, {1}, BeginKernel, ends, rows);
    Launch(name, {GridFor(count)}, FillKernel, lookups, count, ends, list);
    Launch(name, {GridFor(rows, 1)}, AddKernel<T>, grad_weight.Data<T>(), grad_output.Data<T>(), lookups, count, ends,
           list, sorted, rows, columns, grad_output.strides[0]);
}

}  // namespace

void RunEmbeddingBackward(TensorRef grad_weight, ConstTensorRef grad_output, ConstTensorRef index) {
    if (index.num_elements == 0 || grad_weight.num_elements == 0) {
        return;
    }
    // As many lookups at a time as an int counts.
    constexpr int64_t kMost = int64_t{1} << 30;
    for (int64_t first = 0; first < index.num_elements; first += kMost) {
        ConstTensorRef part = index, gradients = grad_output;
        part.num_elements = index.num_elements - first < kMost ? index.num_elements - first : kMost;
        part.data = index.Data<int64_t>() + first;
        gradients.data =
            grad_output.Data<char>() + first * grad_output.strides[0] * static_cast<int64_t>(SizeOf(grad_output.dtype));
        if (grad_weight.dtype == DataType::kFLOAT32) {
            Run<float>(grad_weight, gradients, part);
        } else {
            Run<double>(grad_weight, gradients, part);
        }
    }
}

}  // namespace infini_train::cuda
