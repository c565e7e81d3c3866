// Attention forward: for a tile of queries, tiles of keys go by, with a running maximum and sum of each query's weights
// (Milakov and Gimelshein, 2018; Dao et al., "FlashAttention", 2022).

#include <string>
#include <type_traits>

#include "infini_train/src/kernels/cuda/attention.cuh"
#include "infini_train/src/kernels/cuda/attention.h"

namespace infini_train::cuda {
namespace {

struct ForwardTensors {
    HeadRows query, key, value, output;
    void *statistics;
};

template <int kTile>
size_t BytesFor(const AttentionProblem &p, size_t element) {
    const auto width = static_cast<size_t>(2 * p.features + 2 * p.value_features + kTile + 5);
    return (kTile * width + 3 * kTile) * element;
}

template <typename C, int kTile>
__global__ void __launch_bounds__(kBlock) ForwardKernel(AttentionProblem p, ForwardTensors x, int64_t tiles) {
    constexpr C kInfinity = std::numeric_limits<C>::infinity();
    // So many threads share a row of scores.
    constexpr int kLanes = kBlock / kTile;
    static_assert(kLanes <= kWarp);
    SharedTiles<C, kTile> shared;
    const auto queries = shared.Take(p.features), keys = shared.Take(p.features);
    const auto values = shared.Take(p.value_features), sums = shared.Take(p.value_features);
    const auto weights = shared.Take(kTile);
    C *const max = shared.Take(0).data;
    C *const total = shared.Take(0).data;
    C *const shrink = shared.Take(0).data;
    const Generator::State random = p.random.Get();
    const auto thread = static_cast<int>(threadIdx.x);

    for (int64_t task = blockIdx.x; task < p.batch * p.heads * tiles; task += gridDim.x) {
        const int64_t b = task / tiles / p.heads, h = task / tiles % p.heads;
        // The last ones first: if causal they take longest.
        const int64_t first = (tiles - 1 - task % tiles) * kTile;
        LoadTile<C, kTile>(queries, x.query, p.dtype, b, h, first, p.queries, p.features);
        ForTile<kTile>(p.value_features, [&](int i, int j) { sums.At(i, j) = 0; });
        if (thread < kTile) {
            max[thread] = -kInfinity;
            total[thread] = 0;
        }
        const int64_t last = first + kTile < p.queries ? first + kTile : p.queries;
        const int64_t end = p.KeysBefore(last);
        for (int64_t key = 0; key < end; key += kTile) {
            LoadTile<C, kTile>(keys, x.key, p.dtype, b, h / p.group, key, p.keys, p.features);
            LoadTile<C, kTile>(values, x.value, p.dtype, b, h / p.group, key, p.keys, p.value_features);
            __syncthreads();
            ForTile<kTile>(kTile, [&](int i, int j) {
                weights.At(i, j) = p.Score(Dot(queries, i, keys, j, p.features), b, h, first + i, key + j);
            });
            __syncthreads();
            const int row = thread / kLanes, lane = thread % kLanes;
            C largest = max[row];
            for (int j = lane; j < kTile; j += kLanes) {
                largest = MaxOp()(largest, weights.At(row, j));
            }
            largest = WarpReduce<kLanes>(largest, MaxOp());
            // Where nothing was seen yet, e^(-inf - 0) = 0.
            const C base = largest == -kInfinity ? C{0} : largest;
            C sum = 0;
            for (int j = lane; j < kTile; j += kLanes) {
                const C weight = Exp(weights.At(row, j) - base);
                sum += weight;
                weights.At(row, j) = weight * p.Keep<C>(random, b, h, first + row, key + j);
            }
            sum = WarpReduce<kLanes>(sum, SumOp());
            __syncwarp();  // all have read the maximum so far
            if (lane == 0) {
                shrink[row] = Exp(max[row] - base);
                total[row] = Fma(total[row], shrink[row], sum);
                max[row] = largest;
            }
            __syncthreads();
            ForTile<kTile>(p.value_features, [&](int i, int j) {
                C sum = sums.At(i, j) * shrink[i];
                for (int k = 0; k < kTile; ++k) {
                    sum = Fma(weights.At(i, k), values.At(k, j), sum);
                }
                sums.At(i, j) = sum;
            });
            __syncthreads();
        }
        __syncthreads();
        // What has seen nothing gets zeros, whatever the hidden values are.
        ForTile<kTile>(p.value_features, [&](int i, int j) {
            if (first + i < p.queries) {
                const C value = total[i] == 0 ? C{0} : sums.At(i, j) / total[i];
                StoreFloat<C>(x.output.data, p.dtype, x.output.At(b, h, first + i) + j * x.output.column, value);
            }
        });
        if (thread < kTile && first + thread < p.queries) {
            C *const largest = static_cast<C *>(x.statistics) + (b * p.heads + h) * p.queries + first + thread;
            C *const inverse = largest + p.batch * p.heads * p.queries;
            *largest = total[thread] == 0 ? kInfinity : max[thread];
            *inverse = total[thread] == 0 ? C{0} : C{1} / total[thread];
        }
        __syncthreads();  // before the next task's queries
    }
}

template <typename C>
void Run(const AttentionProblem &p, const ForwardTensors &x) {
    VisitTile(
        "AttentionForward", p.features,
        [&]<int kTile>(std::integral_constant<int, kTile>) { return BytesFor<kTile>(p, sizeof(C)); },
        [&]<int kTile>(std::integral_constant<int, kTile>) {
            const int64_t tiles = (p.queries + kTile - 1) / kTile;
            const LaunchShape shape{GridFor(p.batch * p.heads * tiles, 1), kBlock, BytesFor<kTile>(p, sizeof(C))};
            Launch("AttentionForward", shape, ForwardKernel<C, kTile>, p, x, tiles);
        });
}

}  // namespace

void RunAttentionForward(TensorRef output, TensorRef statistics, ConstTensorRef query, ConstTensorRef key,
                         ConstTensorRef value, ConstTensorRef mask, const kernels::AttentionSettings &settings) {
    const AttentionProblem p(query, key, value, mask, settings);
    const ForwardTensors x{HeadRows(query), HeadRows(key), HeadRows(value), HeadRows(output), statistics.data};
    if (p.dtype == DataType::kFLOAT64) {
        Run<double>(p, x);
    } else {
        Run<float>(p, x);
    }
}

}  // namespace infini_train::cuda
