// Steps of optimizers, for all parameters of a model in few launches.

#include "infini_train/src/kernels/cuda/math.cuh"
#include "infini_train/src/kernels/cuda/multi_tensor.cuh"
#include "infini_train/src/kernels/optimizer.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

using kernels::AdamUpdate;
using kernels::SgdUpdate;
using kernels::UpdatedTensors;

// The rules, with the constants in what they are computed in: operator()(i, param, grad) gives the new parameter.

template <typename C>
struct SgdRule {
    C lr, weight_decay, momentum, keep, take;
    bool decays, nesterov;
    C *state;

    __device__ __forceinline__ explicit SgdRule(const SgdUpdate &update)
        : lr(static_cast<C>(update.lr)),
          weight_decay(static_cast<C>(update.weight_decay)),
          momentum(static_cast<C>(update.momentum)),
          keep(static_cast<C>(update.keep)),
          take(static_cast<C>(update.take)),
          decays(update.weight_decay != 0),
          nesterov(update.nesterov),
          state(static_cast<C *>(update.tensors.state[0])) {}

    __device__ __forceinline__ C operator()(int64_t i, C param, C grad) const {
        if (decays) {
            grad = Fma(weight_decay, param, grad);
        }
        if (state != nullptr) {
            const C velocity = Fma(keep, state[i], take * grad);
            state[i] = velocity;
            grad = nesterov ? Fma(momentum, velocity, grad) : velocity;
        }
        return Fma(-lr, grad, param);
    }
};

template <typename C>
struct AdamRule {
    C shrink, weight_decay, step_size, root_scale, take1, beta2, take2, eps;
    bool decays;
    C *means, *squares;

    __device__ __forceinline__ explicit AdamRule(const AdamUpdate &update)
        : shrink(static_cast<C>(update.shrink)),
          weight_decay(static_cast<C>(update.weight_decay)),
          step_size(static_cast<C>(update.step_size)),
          root_scale(static_cast<C>(update.root_scale)),
          take1(static_cast<C>(1 - update.beta1)),
          beta2(static_cast<C>(update.beta2)),
          take2(static_cast<C>(1 - update.beta2)),
          eps(static_cast<C>(update.eps)),
          decays(update.weight_decay != 0),
          means(static_cast<C *>(update.tensors.state[0])),
          squares(static_cast<C *>(update.tensors.state[1])) {}

    __device__ __forceinline__ C operator()(int64_t i, C param, C grad) const {
        param *= shrink;
        if (decays) {
            grad = Fma(weight_decay, param, grad);
        }
        const C old_mean = means[i];
        const C mean = Fma(take1, grad - old_mean, old_mean);
        const C square = Fma(beta2, squares[i], take2 * grad * grad);
        means[i] = mean;
        squares[i] = square;
        return Fma(-step_size, mean / Fma(Sqrt(square), root_scale, eps), param);
    }
};

__device__ __forceinline__ float Rounded(float value, DataType dtype) {
    return dtype == DataType::kBFLOAT16 ? Load(Store<__nv_bfloat16>(value)) : Load(Store<__half>(value));
}

template <typename C, typename Rule>
__device__ __forceinline__ void RunRule(const Rule &rule, const UpdatedTensors &tensors, int64_t begin, int64_t end) {
    for (int64_t i = begin + threadIdx.x; i < end; i += kBlock) {
        C param = LoadFloat<C>(tensors.param, tensors.dtype, i);
        const C grad = LoadFloat<C>(tensors.grad, tensors.dtype, i);
        if constexpr (std::is_same_v<C, float>) {
            if (tensors.master != nullptr) {
                // An element that somebody else has changed is no longer the master rounded.
                const float master = tensors.master[i];
                param = rule(i, Rounded(master, tensors.dtype) == param ? master : param, grad);
                tensors.master[i] = param;
                StoreFloat<C>(tensors.param, tensors.dtype, i, param);
                continue;
            }
        }
        StoreFloat<C>(tensors.param, tensors.dtype, i, rule(i, param, grad));
    }
}

template <typename Update, template <typename> typename Rule>
__global__ void __launch_bounds__(kBlock) StepKernel(Chunk<Update> chunk) {
    ForPiece(chunk, [](const Update &update, int64_t begin, int64_t end) {
        if (update.tensors.dtype == DataType::kFLOAT64) {
            RunRule<double>(Rule<double>(update), update.tensors, begin, end);
        } else {
            RunRule<float>(Rule<float>(update), update.tensors, begin, end);
        }
    });
}

template <typename Update, template <typename> typename Rule>
void Step(const char *name, std::span<const Update> updates) {
    ForChunks(updates, [&](const Chunk<Update> &chunk, unsigned pieces) {
        Launch(name, {pieces}, StepKernel<Update, Rule>, chunk);
    });
}

void SgdStepKernel(std::span<const SgdUpdate> updates) {
    Step<SgdUpdate, SgdRule>("SgdStep", updates);
}
void AdamStepKernel(std::span<const AdamUpdate> updates) {
    Step<AdamUpdate, AdamRule>("AdamStep", updates);
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterOptimizerCuda() {
    RegisterKernel<SgdStep>(DeviceType::kCUDA, &cuda::SgdStepKernel);
    RegisterKernel<AdamStep>(DeviceType::kCUDA, &cuda::AdamStepKernel);
}

}  // namespace infini_train::kernels
