// Layer normalization, and with no mean root mean square normalization.

#include <algorithm>
#include <type_traits>

#include "infini_train/src/kernels/cuda/math.cuh"
#include "infini_train/src/kernels/cuda/rows.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/cuda/types.cuh"
#include "infini_train/src/kernels/normalization.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

template <typename T, typename Group>
__global__ void __launch_bounds__(kBlock)
    ForwardKernel(T *y, Accumulate<T> *means, Accumulate<T> *rstds, const T *x, const T *weight, const T *bias,
                  int64_t rows, int64_t n, Accumulate<T> eps, bool subtracts) {
    using C = Accumulate<T>;
    Group::ForRows(rows, [&](int64_t row) {
        const T *const in = x + row * n;
        const C count = static_cast<C>(n);
        C mean = 0;
        if (subtracts) {
            for (int64_t i = Group::Lane(); i < n; i += Group::kLength) {
                mean += Load(in[i]);
            }
            mean = Group::Sum(mean) / count;
        }
        C squares = 0;
        for (int64_t i = Group::Lane(); i < n; i += Group::kLength) {
            const C centred = Load(in[i]) - mean;
            squares += centred * centred;
        }
        const C rstd = C{1} / Sqrt(Group::Sum(squares) / count + eps);
        for (int64_t i = Group::Lane(); i < n; i += Group::kLength) {
            C value = (Load(in[i]) - mean) * rstd;
            value = weight != nullptr ? value * Load(weight[i]) : value;
            value = bias != nullptr ? value + Load(bias[i]) : value;
            y[row * n + i] = Store<T>(value);
        }
        if (Group::Lane() == 0) {
            if (means != nullptr) {
                means[row] = mean;
            }
            if (rstds != nullptr) {
                rstds[row] = rstd;
            }
        }
    });
}

void RunForward(TensorRef y, TensorRef mean, TensorRef rstd, ConstTensorRef x, ConstTensorRef weight,
                ConstTensorRef bias, double eps) {
    const int64_t rows = rstd.num_elements;
    if (y.num_elements == 0) {
        return;
    }
    const int64_t n = x.num_elements / rows;
    VisitFloating("LayerNormForward", y.dtype, [&]<typename T>(std::type_identity<T>) {
        using C = Accumulate<T>;
        VisitRowGroup(n, [&]<typename Group>(Group) {
            Launch("LayerNormForward", {GridFor(rows, Group::kRowsPerBlock)}, ForwardKernel<T, Group>, y.Data<T>(),
                   mean.Data<C>(), rstd.Data<C>(), x.Data<T>(), weight.Data<T>(), bias.Data<T>(), rows, n,
                   static_cast<C>(eps), mean.data != nullptr);
        });
    });
}

template <typename T, typename Group>
__global__ void __launch_bounds__(kBlock)
    GradInputKernel(T *grad_x, const T *grad_y, const T *x, const T *weight, const Accumulate<T> *means,
                    const Accumulate<T> *rstds, int64_t rows, int64_t n) {
    using C = Accumulate<T>;
    Group::ForRows(rows, [&](int64_t row) {
        const C mean = means != nullptr ? means[row] : C{0};
        const C rstd = rstds[row];
        const auto normal = [&](int64_t i) { return (Load(x[row * n + i]) - mean) * rstd; };
        const auto grad = [&](int64_t i) {
            const C g = Load(grad_y[row * n + i]);
            return weight != nullptr ? g * Load(weight[i]) : g;
        };
        C along = 0, sum = 0;
        for (int64_t i = Group::Lane(); i < n; i += Group::kLength) {
            along += grad(i) * normal(i);
            sum += grad(i);
        }
        along = Group::Sum(along) / static_cast<C>(n);
        sum = means != nullptr ? Group::Sum(sum) / static_cast<C>(n) : C{0};
        for (int64_t i = Group::Lane(); i < n; i += Group::kLength) {
            grad_x[row * n + i] = Store<T>((grad(i) - sum - normal(i) * along) * rstd);
        }
    });
}

// The gradients of weight and bias are sums over the rows: a block takes 32 columns of a share of the rows, and a
// second kernel adds up the shares.
constexpr int kColumns = kWarp;
constexpr int kRowLanes = kBlock / kColumns;

template <typename T>
__global__ void __launch_bounds__(kBlock)
    GradColumnsKernel(Accumulate<T> *weight_parts, Accumulate<T> *bias_parts, const T *grad_y, const T *x,
                      const Accumulate<T> *means, const Accumulate<T> *rstds, int64_t rows, int64_t n,
                      int64_t per_share) {
    using C = Accumulate<T>;
    __shared__ C weight_sums[kBlock];
    __shared__ C bias_sums[kBlock];
    const int lane = static_cast<int>(threadIdx.x) % kColumns, row_lane = static_cast<int>(threadIdx.x) / kColumns;
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * per_share;
    const int64_t end = begin + per_share < rows ? begin + per_share : rows;
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns; first < n;
         first += static_cast<int64_t>(gridDim.x) * kColumns) {
        const int64_t column = first + lane;
        C weight_sum = 0, bias_sum = 0;
        for (int64_t row = begin + row_lane; column < n && row < end; row += kRowLanes) {
            const C g = Load(grad_y[row * n + column]);
            const C mean = means != nullptr ? means[row] : C{0};
            weight_sum += g * (Load(x[row * n + column]) - mean) * rstds[row];
            bias_sum += g;
        }
        weight_sums[threadIdx.x] = weight_sum;
        bias_sums[threadIdx.x] = bias_sum;
        for (int step = kRowLanes / 2; step > 0; step /= 2) {
            __syncthreads();
            if (row_lane < step) {
                weight_sums[threadIdx.x] += weight_sums[threadIdx.x + step * kColumns];
                bias_sums[threadIdx.x] += bias_sums[threadIdx.x + step * kColumns];
            }
        }
        if (row_lane == 0 && column < n) {
            weight_parts[static_cast<int64_t>(blockIdx.y) * n + column] = weight_sums[lane];
            bias_parts[static_cast<int64_t>(blockIdx.y) * n + column] = bias_sums[lane];
        }
        __syncthreads();
    }
}

template <typename T>
__global__ void __launch_bounds__(kBlock)
    AddSharesKernel(T *grad_weight, T *grad_bias, const Accumulate<T> *weight_parts, const Accumulate<T> *bias_parts,
                    int shares, int64_t n) {
    using C = Accumulate<T>;
    for (int64_t i = GridIndex(); i < n; i += GridStep()) {
        C weight_sum = 0, bias_sum = 0;
        for (int share = 0; share < shares; ++share) {
            weight_sum += weight_parts[share * n + i];
            bias_sum += bias_parts[share * n + i];
        }
        if (grad_weight != nullptr) {
            grad_weight[i] = Store<T>(weight_sum);
        }
        if (grad_bias != nullptr) {
            grad_bias[i] = Store<T>(bias_sum);
        }
    }
}

template <typename T>
void RunGradColumns(const TensorRef &grad_weight, const TensorRef &grad_bias, const ConstTensorRef &grad_y,
                    const ConstTensorRef &x, const ConstTensorRef &mean, const ConstTensorRef &rstd, int64_t rows,
                    int64_t n) {
    using C = Accumulate<T>;
    const int64_t tiles = (n + kColumns - 1) / kColumns;
    const int64_t wanted = std::clamp<int64_t>(int64_t{NumMultiprocessors()} * 8 / tiles, 1, 256);
    const int64_t per_share = std::max<int64_t>((rows + wanted - 1) / wanted, kRowLanes);
    const auto shares = static_cast<int>(std::max<int64_t>((rows + per_share - 1) / per_share, 1));
    const Scratch scratch(2 * static_cast<size_t>(shares * n) * sizeof(C));
    C *const weight_parts = scratch.As<C>();
    C *const bias_parts = weight_parts + shares * n;
    const dim3 grid(GridFor(n, kColumns), static_cast<unsigned>(shares));
    Launch("LayerNormBackward", {grid}, GradColumnsKernel<T>, weight_parts, bias_parts, grad_y.Data<T>(), x.Data<T>(),
           mean.Data<C>(), rstd.Data<C>(), rows, n, per_share);
    Launch("LayerNormBackward", {GridFor(n)}, AddSharesKernel<T>, grad_weight.Data<T>(), grad_bias.Data<T>(),
           weight_parts, bias_parts, shares, n);
}

void RunBackward(TensorRef grad_x, TensorRef grad_weight, TensorRef grad_bias, ConstTensorRef grad_y, ConstTensorRef x,
                 ConstTensorRef weight, ConstTensorRef mean, ConstTensorRef rstd) {
    const int64_t rows = rstd.num_elements;
    const int64_t n = grad_weight.data != nullptr ? grad_weight.num_elements
                      : grad_bias.data != nullptr ? grad_bias.num_elements
                      : rows > 0                  ? x.num_elements / rows
                                                  : 0;
    VisitFloating("LayerNormBackward", grad_y.dtype, [&]<typename T>(std::type_identity<T>) {
        using C = Accumulate<T>;
        if (grad_x.data != nullptr && x.num_elements > 0) {
            VisitRowGroup(n, [&]<typename Group>(Group) {
                Launch("LayerNormBackward", {GridFor(rows, Group::kRowsPerBlock)}, GradInputKernel<T, Group>,
                       grad_x.Data<T>(), grad_y.Data<T>(), x.Data<T>(), weight.Data<T>(), mean.Data<C>(),
                       rstd.Data<C>(), rows, n);
            });
        }
        if (n > 0 && (grad_weight.data != nullptr || grad_bias.data != nullptr)) {
            RunGradColumns<T>(grad_weight, grad_bias, grad_y, x, mean, rstd, rows, n);
        }
    });
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterNormalizationCuda() {
    RegisterKernel<LayerNormForward>(DeviceType::kCUDA, &cuda::RunForward);
    RegisterKernel<LayerNormBackward>(DeviceType::kCUDA, &cuda::RunBackward);
}

}  // namespace infini_train::kernels
