// Softmax and its logarithm along any dimension.

#include <limits>
#include <type_traits>

#include "infini_train/src/kernels/cuda/math.cuh"
#include "infini_train/src/kernels/cuda/rows.cuh"
#include "infini_train/src/kernels/cuda/types.cuh"
#include "infini_train/src/kernels/registry.h"
#include "infini_train/src/kernels/softmax.h"

namespace infini_train::cuda {
namespace {

// Tensors as (outer, length, inner): a row is `length` elements, `inner` apart.
struct Rows {
    int64_t rows = 1, length = 1, inner = 1;

    Rows(const ConstTensorRef &x, int dim) {
        for (int d = 0; d < x.ndim; ++d) {
            (d == dim ? length : d < dim ? rows : inner) *= x.dims[d];
        }
        rows *= inner;
    }
    __device__ __forceinline__ int64_t Begin(int64_t row) const { return row / inner * length * inner + row % inner; }
};

template <typename T, typename Group, bool kLog>
__global__ void __launch_bounds__(kBlock) ForwardKernel(T *output, const T *input, Rows at) {
    using C = Accumulate<T>;
    Group::ForRows(at.rows, [&](int64_t row) {
        const T *const x = input + at.Begin(row);
        T *const y = output + at.Begin(row);
        constexpr C kLowest = -std::numeric_limits<C>::infinity();
        C max = kLowest;
        for (int64_t i = Group::Lane(); i < at.length; i += Group::kLength) {
            max = MaxOp()(max, Load(x[i * at.inner]));
        }
        max = Group::Reduce(max, MaxOp(), kLowest);
        C sum = 0;
        for (int64_t i = Group::Lane(); i < at.length; i += Group::kLength) {
            sum += Exp(Load(x[i * at.inner]) - max);
        }
        sum = Group::Sum(sum);
        const C log_sum = Log(sum);
        for (int64_t i = Group::Lane(); i < at.length; i += Group::kLength) {
            const C shifted = Load(x[i * at.inner]) - max;
            y[i * at.inner] = Store<T>(kLog ? shifted - log_sum : Exp(shifted) / sum);
        }
    });
}

template <typename T, typename Group, bool kLog>
__global__ void __launch_bounds__(kBlock)
    BackwardKernel(T *grad_input, const T *grad_output, const T *output, Rows at) {
    using C = Accumulate<T>;
    Group::ForRows(at.rows, [&](int64_t row) {
        const T *const g = grad_output + at.Begin(row);
        const T *const y = output + at.Begin(row);
        T *const to = grad_input + at.Begin(row);
        C sum = 0;
        for (int64_t i = Group::Lane(); i < at.length; i += Group::kLength) {
            sum += kLog ? Load(g[i * at.inner]) : Load(g[i * at.inner]) * Load(y[i * at.inner]);
        }
        sum = Group::Sum(sum);
        for (int64_t i = Group::Lane(); i < at.length; i += Group::kLength) {
            const C grad = Load(g[i * at.inner]), value = Load(y[i * at.inner]);
            to[i * at.inner] = Store<T>(kLog ? grad - Exp(value) * sum : value * (grad - sum));
        }
    });
}

// Neighbours in memory belong to neighbouring threads: those of one row, or of one place in several rows.
template <typename Body>
void VisitGroup(const Rows &at, Body &&body) {
    if (at.inner > 1) {
        body(RowGroup<1>());
    } else {
        VisitRowGroup(at.length, body);
    }
}

template <bool kLog>
void RunForward(TensorRef output, ConstTensorRef input, int dim) {
    const char *const name = kLog ? "LogSoftmaxForward" : "SoftmaxForward";
    if (output.num_elements == 0) {
        return;
    }
    const Rows at(input, dim);
    VisitFloating(name, output.dtype, [&]<typename T>(std::type_identity<T>) {
        VisitGroup(at, [&]<typename Group>(Group) {
            Launch(name, {GridFor(at.rows, Group::kRowsPerBlock)}, ForwardKernel<T, Group, kLog>, output.Data<T>(),
                   input.Data<T>(), at);
        });
    });
}

template <bool kLog>
void RunBackward(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef output, int dim) {
    const char *const name = kLog ? "LogSoftmaxBackward" : "SoftmaxBackward";
    if (output.num_elements == 0) {
        return;
    }
    const Rows at(output, dim);
    VisitFloating(name, output.dtype, [&]<typename T>(std::type_identity<T>) {
        VisitGroup(at, [&]<typename Group>(Group) {
            Launch(name, {GridFor(at.rows, Group::kRowsPerBlock)}, BackwardKernel<T, Group, kLog>, grad_input.Data<T>(),
                   grad_output.Data<T>(), output.Data<T>(), at);
        });
    });
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterSoftmaxCuda() {
    RegisterKernel<SoftmaxForward>(DeviceType::kCUDA, &cuda::RunForward<false>);
    RegisterKernel<SoftmaxBackward>(DeviceType::kCUDA, &cuda::RunBackward<false>);
    RegisterKernel<LogSoftmaxForward>(DeviceType::kCUDA, &cuda::RunForward<true>);
    RegisterKernel<LogSoftmaxBackward>(DeviceType::kCUDA, &cuda::RunBackward<true>);
}

}  // namespace infini_train::kernels
