#include "infini_train/src/kernels/optimizer.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/optimizer.cc"
#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/row_access.h"
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

using kernels::AdamUpdate;
using kernels::SgdUpdate;
using kernels::UpdatedTensors;

// Elements worth a thread: about 5 us.
inline constexpr int64_t kSgdGrain = 16384;
inline constexpr int64_t kAdamGrain = 8192;

/// Updates one vector of elements: rule(param, grad, state 0, state 1).
template <typename C>
HWY_INLINE auto SgdRule(const SgdUpdate &update) {
    const hn::ScalableTag<C> d;
    const auto lr = hn::Set(d, static_cast<C>(update.lr));
    const auto weight_decay = hn::Set(d, static_cast<C>(update.weight_decay));
    const auto momentum = hn::Set(d, static_cast<C>(update.momentum));
    const auto keep = hn::Set(d, static_cast<C>(update.keep));
    const auto take = hn::Set(d, static_cast<C>(update.take));
    // Skipped rather than multiplied by 0, which would make NaN of an infinite parameter.
    const bool decays = update.weight_decay != 0;
    const bool has_state = update.tensors.state[0] != nullptr;
    const bool nesterov = update.nesterov;
    return [=](C *p, const C *g, C *state, C * /*unused*/) HWY_ATTR {
        const auto param = hn::LoadU(d, p);
        auto grad = hn::LoadU(d, g);
        if (decays) {
            grad = hn::MulAdd(weight_decay, param, grad);
        }
        if (has_state) {
            const auto velocity = hn::MulAdd(keep, hn::LoadU(d, state), hn::Mul(take, grad));
            hn::StoreU(velocity, d, state);
            grad = nesterov ? hn::MulAdd(momentum, velocity, grad) : velocity;
        }
        hn::StoreU(hn::NegMulAdd(lr, grad, param), d, p);
    };
}

template <typename C>
HWY_INLINE auto AdamRule(const AdamUpdate &update) {
    const hn::ScalableTag<C> d;
    const auto shrink = hn::Set(d, static_cast<C>(update.shrink));
    const auto weight_decay = hn::Set(d, static_cast<C>(update.weight_decay));
    const auto step_size = hn::Set(d, static_cast<C>(update.step_size));
    const auto root_scale = hn::Set(d, static_cast<C>(update.root_scale));
    const auto take1 = hn::Set(d, static_cast<C>(1 - update.beta1));
    const auto beta2 = hn::Set(d, static_cast<C>(update.beta2));
    const auto take2 = hn::Set(d, static_cast<C>(1 - update.beta2));
    const auto eps = hn::Set(d, static_cast<C>(update.eps));
    const bool decays = update.weight_decay != 0;
    return [=](C *p, const C *g, C *m, C *v) HWY_ATTR {
        const auto param = hn::Mul(hn::LoadU(d, p), shrink);
        auto grad = hn::LoadU(d, g);
        if (decays) {
            grad = hn::MulAdd(weight_decay, param, grad);
        }
        const auto old_mean = hn::LoadU(d, m);
        const auto mean = hn::MulAdd(take1, hn::Sub(grad, old_mean), old_mean);
        const auto square = hn::MulAdd(beta2, hn::LoadU(d, v), hn::Mul(hn::Mul(take2, grad), grad));
        const auto root = hn::MulAdd(hn::Sqrt(square), root_scale, eps);
        hn::StoreU(mean, d, m);
        hn::StoreU(square, d, v);
        hn::StoreU(hn::NegMulAdd(step_size, hn::Div(mean, root), param), d, p);
    };
}

/// The last few elements go through a padded vector: each element's result is the same wherever a range begins or ends.
template <typename C, typename Rule>
HWY_INLINE void RunRule(const Rule &rule, C *p, const C *g, C *state0, C *state1, int64_t n) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        rule(p + i, g + i, state0 + i, state1 + i);
    }
    if (i < n) {
        HWY_ALIGN C buffer[4][hn::MaxLanes(d)] = {};
        std::copy_n(p + i, n - i, buffer[0]);
        std::copy_n(g + i, n - i, buffer[1]);
        std::copy_n(state0 + i, n - i, buffer[2]);
        std::copy_n(state1 + i, n - i, buffer[3]);
        rule(buffer[0], buffer[1], buffer[2], buffer[3]);
        // An absent state is the parameter once more, which therefore comes last.
        std::copy_n(buffer[3], n - i, state1 + i);
        std::copy_n(buffer[2], n - i, state0 + i);
        std::copy_n(buffer[0], n - i, p + i);
    }
}

/// Elements begin..end of the masters, at most kChunk of them, become those of the parameter where rounding them
/// doesn't give these.
HWY_INLINE void FollowParam(const UpdatedTensors &tensors, int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    alignas(uint16_t) unsigned char rounded[kChunk * sizeof(uint16_t)];
    float kept_buffer[kChunk];
    float param_buffer[kChunk];
    float *HWY_RESTRICT master = tensors.master + begin;
    Writer<float>(rounded, tensors.dtype).Commit(0, n, master);
    const float *HWY_RESTRICT kept = Reader<float>(rounded, tensors.dtype).Read(0, n, kept_buffer);
    const float *HWY_RESTRICT param = Reader<float>(tensors.param, tensors.dtype).Read(begin, n, param_buffer);
    for (int64_t i = 0; i < n; ++i) {
        master[i] = kept[i] == param[i] ? master[i] : param[i];
    }
}

/// Elements begin..end of one parameter of any floating-point type, computed in C.
template <typename C, typename Rule>
HWY_INLINE void RunRange(const Rule &rule, const UpdatedTensors &tensors, int64_t begin, int64_t end) {
    C param_buffer[kChunk];
    C grad_buffer[kChunk];
    const Reader<C> param(tensors.param, tensors.dtype);
    const Reader<C> grad(tensors.grad, tensors.dtype);
    const Writer<C> updated(tensors.param, tensors.dtype);
    const int64_t piece = param.direct() ? end - begin : kChunk;
    for (int64_t i = begin; i < end; i += piece) {
        const int64_t n = std::min(piece, end - i);
        C *p = updated.Begin(i, param_buffer);
        if constexpr (std::is_same_v<C, float>) {
            if (tensors.master != nullptr) {
                FollowParam(tensors, i, i + n);
                p = tensors.master + i;
            } else {
                param.Read(i, n, param_buffer);
            }
        } else {
            param.Read(i, n, param_buffer);
        }
        const C *g = grad.Read(i, n, grad_buffer);
        const auto state = [&](int index) HWY_ATTR {
            return tensors.state[index] != nullptr ? static_cast<C *>(tensors.state[index]) + i : p;
        };
        RunRule(rule, p, g, state(0), state(1), n);
        updated.Commit(i, n, p);
    }
}

/// Deals the elements of all parameters out to the threads, as if they lay one behind the other.
template <typename Update, typename Run>
HWY_INLINE void ForAll(std::span<const Update> updates, int64_t grain, const Run &run) {
    if (updates.empty()) {
        return;
    }
    const UpdatedTensors &last = updates.back().tensors;
    ParallelFor(0, last.begin + last.num_elements, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
        const auto after = [](int64_t position, const Update &update) { return position < update.tensors.begin; };
        auto update = std::upper_bound(updates.begin(), updates.end(), begin, after) - 1;
        for (int64_t i = begin; i < end; ++update) {
            const UpdatedTensors &tensors = update->tensors;
            const int64_t stop = std::min(end, tensors.begin + tensors.num_elements);
            run(*update, i - tensors.begin, stop - tensors.begin);
            i = stop;
        }
    });
}

void SgdAll(std::span<const SgdUpdate> updates) {
    ForAll(updates, kSgdGrain, [](const SgdUpdate &update, int64_t begin, int64_t end) HWY_ATTR {
        if (update.tensors.dtype == DataType::kFLOAT64) {
            RunRange<double>(SgdRule<double>(update), update.tensors, begin, end);
        } else {
            RunRange<float>(SgdRule<float>(update), update.tensors, begin, end);
        }
    });
}

void AdamAll(std::span<const AdamUpdate> updates) {
    ForAll(updates, kAdamGrain, [](const AdamUpdate &update, int64_t begin, int64_t end) HWY_ATTR {
        if (update.tensors.dtype == DataType::kFLOAT64) {
            RunRange<double>(AdamRule<double>(update), update.tensors, begin, end);
        } else {
            RunRange<float>(AdamRule<float>(update), update.tensors, begin, end);
        }
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

HWY_EXPORT(SgdAll);
HWY_EXPORT(AdamAll);

void SgdStepKernel(std::span<const kernels::SgdUpdate> updates) {
    HWY_DYNAMIC_DISPATCH(SgdAll)(updates);
}

void AdamStepKernel(std::span<const kernels::AdamUpdate> updates) {
    HWY_DYNAMIC_DISPATCH(AdamAll)(updates);
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterOptimizerCpu() {
    RegisterKernel<SgdStep>(DeviceType::kCPU, &cpu::SgdStepKernel);
    RegisterKernel<AdamStep>(DeviceType::kCPU, &cpu::AdamStepKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
