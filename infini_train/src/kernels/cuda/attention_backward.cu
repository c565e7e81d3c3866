// Attention backward: the weights are made again from the statistics, tile by tile. One kernel goes over the keys for
// tiles of queries, for their gradient; another over the queries for tiles of keys: no sum depends on chance.

#include <string>
#include <type_traits>

#include "infini_train/src/kernels/cuda/attention.cuh"
#include "infini_train/src/kernels/cuda/attention.h"
#include "infini_train/src/kernels/cuda/rows.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

struct BackwardTensors {
    HeadRows query, key, value, output, grad_output, grad_query, grad_key, grad_value;
    const void *statistics;
    void *alignments;  // (B, H, T): each query's grad_output times its output
};

template <typename C>
__global__ void __launch_bounds__(kBlock) AlignKernel(AttentionProblem p, BackwardTensors x) {
    RowGroup<kWarp>::ForRows(p.batch * p.heads * p.queries, [&](int64_t row) {
        const int64_t t = row % p.queries, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
        C sum = 0;
        for (int j = RowGroup<kWarp>::Lane(); j < p.value_features; j += kWarp) {
            const C g = LoadFloat<C>(x.grad_output.data, p.dtype, x.grad_output.At(b, h, t) + j * x.grad_output.column);
            sum += g * LoadFloat<C>(x.output.data, p.dtype, x.output.At(b, h, t) + j * x.output.column);
        }
        sum = RowGroup<kWarp>::Sum(sum);
        if (RowGroup<kWarp>::Lane() == 0) {
            static_cast<C *>(x.alignments)[row] = sum;
        }
    });
}

// What is known of the queries of a tile.
template <typename C, int kTile>
struct QueryStatistics {
    C *largest, *inverse, *alignment;

    __device__ __forceinline__ explicit QueryStatistics(SharedTiles<C, kTile> *shared)
        : largest(shared->Take(0).data), inverse(shared->Take(0).data), alignment(shared->Take(0).data) {}

    __device__ __forceinline__ void Read(const AttentionProblem &p, const BackwardTensors &x, int64_t b, int64_t h,
                                         int64_t first) const {
        const auto i = static_cast<int>(threadIdx.x);
        if (i >= kTile) {
            return;
        }
        const int64_t row = (b * p.heads + h) * p.queries + first + i;
        const bool exists = first + i < p.queries;
        const C *const statistics = static_cast<const C *>(x.statistics);
        largest[i] = exists ? statistics[row] : std::numeric_limits<C>::infinity();
        inverse[i] = exists ? statistics[p.batch * p.heads * p.queries + row] : C{0};
        alignment[i] = exists ? static_cast<const C *>(x.alignments)[row] : C{0};
    }
};

// A weight, as it was used, and the gradient of its score.
template <typename C>
struct WeightGrad {
    C weight, score_grad;
};

template <typename C, int kTile>
__device__ __forceinline__ WeightGrad<C> WeightAndGrad(const AttentionProblem &p, const Generator::State &random,
                                                       const QueryStatistics<C, kTile> &of, C product, C value_product,
                                                       int64_t b, int64_t h, int64_t first, int i, int64_t s) {
    const C score = p.Score(product, b, h, first + i, s);
    const bool is_hidden = score == -std::numeric_limits<C>::infinity() || of.inverse[i] == 0;
    const C weight = is_hidden ? C{0} : Exp(score - of.largest[i]) * of.inverse[i];
    const C keep = p.Keep<C>(random, b, h, first + i, s);
    return {weight * keep, is_hidden ? C{0} : weight * (value_product * keep - of.alignment[i])};
}

template <int kTile>
size_t QueryBytes(const AttentionProblem &p, size_t element) {
    const auto width = static_cast<size_t>(3 * p.features + 2 * p.value_features + kTile + 6);
    return (kTile * width + 3 * kTile) * element;
}

template <typename C, int kTile>
__global__ void __launch_bounds__(kBlock) QueryKernel(AttentionProblem p, BackwardTensors x, int64_t tiles) {
    SharedTiles<C, kTile> shared;
    const auto queries = shared.Take(p.features), keys = shared.Take(p.features), sums = shared.Take(p.features);
    const auto values = shared.Take(p.value_features), grads = shared.Take(p.value_features);
    const auto score_grads = shared.Take(kTile);
    const QueryStatistics<C, kTile> statistics(&shared);
    const Generator::State random = p.random.Get();
    for (int64_t task = blockIdx.x; task < p.batch * p.heads * tiles; task += gridDim.x) {
        const int64_t b = task / tiles / p.heads, h = task / tiles % p.heads;
        const int64_t first = (tiles - 1 - task % tiles) * kTile;
        LoadTile<C, kTile>(queries, x.query, p.dtype, b, h, first, p.queries, p.features);
        LoadTile<C, kTile>(grads, x.grad_output, p.dtype, b, h, first, p.queries, p.value_features);
        ForTile<kTile>(p.features, [&](int i, int j) { sums.At(i, j) = 0; });
        statistics.Read(p, x, b, h, first);
        const int64_t end = p.KeysBefore(first + kTile < p.queries ? first + kTile : p.queries);
        for (int64_t key = 0; key < end; key += kTile) {
            LoadTile<C, kTile>(keys, x.key, p.dtype, b, h / p.group, key, p.keys, p.features);
            LoadTile<C, kTile>(values, x.value, p.dtype, b, h / p.group, key, p.keys, p.value_features);
            __syncthreads();
            ForTile<kTile>(kTile, [&](int i, int j) {
                score_grads.At(i, j) =
                    WeightAndGrad(p, random, statistics, Dot(queries, i, keys, j, p.features),
                                  Dot(grads, i, values, j, p.value_features), b, h, first, i, key + j)
                        .score_grad;
            });
            __syncthreads();
            ForTile<kTile>(p.features, [&](int i, int j) {
                C sum = sums.At(i, j);
                for (int k = 0; k < kTile; ++k) {
                    sum = Fma(score_grads.At(i, k), keys.At(k, j), sum);
                }
                sums.At(i, j) = sum;
            });
            __syncthreads();
        }
        __syncthreads();
        StoreTile<C, kTile>(sums, x.grad_query, p.dtype, b, h, first, p.queries, p.features, static_cast<C>(p.scale));
        __syncthreads();
    }
}

template <int kTile>
size_t KeyBytes(const AttentionProblem &p, size_t element) {
    const auto width = static_cast<size_t>(3 * p.features + 3 * p.value_features + 2 * kTile + 8);
    return (kTile * width + 3 * kTile) * element;
}

template <typename C, int kTile>
__global__ void __launch_bounds__(kBlock) KeyKernel(AttentionProblem p, BackwardTensors x, int64_t tiles) {
    SharedTiles<C, kTile> shared;
    const auto queries = shared.Take(p.features), keys = shared.Take(p.features), key_sums = shared.Take(p.features);
    const auto values = shared.Take(p.value_features), grads = shared.Take(p.value_features);
    const auto value_sums = shared.Take(p.value_features);
    const auto weights = shared.Take(kTile), score_grads = shared.Take(kTile);
    const QueryStatistics<C, kTile> statistics(&shared);
    const Generator::State random = p.random.Get();
    const int64_t key_heads = p.heads / p.group;
    for (int64_t task = blockIdx.x; task < p.batch * key_heads * tiles; task += gridDim.x) {
        const int64_t b = task / tiles / key_heads, key_head = task / tiles % key_heads;
        const int64_t key = task % tiles * kTile;
        LoadTile<C, kTile>(keys, x.key, p.dtype, b, key_head, key, p.keys, p.features);
        LoadTile<C, kTile>(values, x.value, p.dtype, b, key_head, key, p.keys, p.value_features);
        ForTile<kTile>(p.features, [&](int i, int j) { key_sums.At(i, j) = 0; });
        ForTile<kTile>(p.value_features, [&](int i, int j) { value_sums.At(i, j) = 0; });
        const int64_t begin = p.FirstQuery(key) / kTile * kTile;
        for (int64_t h = key_head * p.group; h < (key_head + 1) * p.group; ++h) {
            for (int64_t first = begin; first < p.queries; first += kTile) {
                LoadTile<C, kTile>(queries, x.query, p.dtype, b, h, first, p.queries, p.features);
                LoadTile<C, kTile>(grads, x.grad_output, p.dtype, b, h, first, p.queries, p.value_features);
                statistics.Read(p, x, b, h, first);
                __syncthreads();
                ForTile<kTile>(kTile, [&](int i, int j) {
                    const auto [weight, score_grad] =
                        WeightAndGrad(p, random, statistics, Dot(queries, i, keys, j, p.features),
                                      Dot(grads, i, values, j, p.value_features), b, h, first, i, key + j);
                    weights.At(i, j) = weight;
                    score_grads.At(i, j) = score_grad;
                });
                __syncthreads();
                ForTile<kTile>(p.features, [&](int i, int j) {
                    C sum = key_sums.At(i, j);
                    for (int k = 0; k < kTile; ++k) {
                        sum = Fma(score_grads.At(k, i), queries.At(k, j), sum);
                    }
                    key_sums.At(i, j) = sum;
                });
                ForTile<kTile>(p.value_features, [&](int i, int j) {
                    C sum = value_sums.At(i, j);
                    for (int k = 0; k < kTile; ++k) {
                        sum = Fma(weights.At(k, i), grads.At(k, j), sum);
                    }
                    value_sums.At(i, j) = sum;
                });
                __syncthreads();
            }
        }
        __syncthreads();
        StoreTile<C, kTile>(key_sums, x.grad_key, p.dtype, b, key_head, key, p.keys, p.features,
                            static_cast<C>(p.scale));
        StoreTile<C, kTile>(value_sums, x.grad_value, p.dtype, b, key_head, key, p.keys, p.value_features, C{1});
        __syncthreads();
    }
}

template <typename C>
void Run(const AttentionProblem &p, BackwardTensors x) {
    const char *const name = "AttentionBackward";
    const int64_t rows = p.batch * p.heads * p.queries;
    const Scratch alignments(static_cast<size_t>(rows) * sizeof(C));
    x.alignments = alignments.data();
    Launch(name, {GridFor(rows, kBlock / kWarp)}, AlignKernel<C>, p, x);
    VisitTile(
        name, p.features,
        [&]<int kTile>(std::integral_constant<int, kTile>) { return QueryBytes<kTile>(p, sizeof(C)); },
        [&]<int kTile>(std::integral_constant<int, kTile>) {
            const int64_t tiles = (p.queries + kTile - 1) / kTile;
            const LaunchShape shape{GridFor(p.batch * p.heads * tiles, 1), kBlock, QueryBytes<kTile>(p, sizeof(C))};
            Launch(name, shape, QueryKernel<C, kTile>, p, x, tiles);
        });
    VisitTile(
        name, p.features, [&]<int kTile>(std::integral_constant<int, kTile>) { return KeyBytes<kTile>(p, sizeof(C)); },
        [&]<int kTile>(std::integral_constant<int, kTile>) {
            const int64_t tiles = (p.keys + kTile - 1) / kTile;
            const LaunchShape shape{GridFor(p.batch * (p.heads / p.group) * tiles, 1), kBlock,
                                    KeyBytes<kTile>(p, sizeof(C))};
            Launch(name, shape, KeyKernel<C, kTile>, p, x, tiles);
        });
}

}  // namespace

void RunAttentionBackward(TensorRef grad_query, TensorRef grad_key, TensorRef grad_value, ConstTensorRef grad_output,
                          ConstTensorRef output, ConstTensorRef statistics, ConstTensorRef query, ConstTensorRef key,
                          ConstTensorRef value, ConstTensorRef mask, const kernels::AttentionSettings &settings) {
    const AttentionProblem p(query, key, value, mask, settings);
    const BackwardTensors x{
        HeadRows(query),      HeadRows(key),      HeadRows(value),      HeadRows(output), HeadRows(grad_output),
        HeadRows(grad_query), HeadRows(grad_key), HeadRows(grad_value), statistics.data,  nullptr};
    if (p.dtype == DataType::kFLOAT64) {
        Run<double>(p, x);
    } else {
        Run<float>(p, x);
    }
}

}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterAttentionCuda() {
    RegisterKernel<AttentionForward>(DeviceType::kCUDA, &cuda::RunAttentionForward);
    RegisterKernel<AttentionBackward>(DeviceType::kCUDA, &cuda::RunAttentionBackward);
}

}  // namespace infini_train::kernels
