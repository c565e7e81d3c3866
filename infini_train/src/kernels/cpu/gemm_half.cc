#include "infini_train/src/kernels/cpu/gemm.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/gemm_half.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/gemm_run.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

void GemmBFloat16(const GemmArgs<BFloat16> &args) {
    RunGemm<float>(args);
}

void GemmFloat16(const GemmArgs<Float16> &args) {
    RunGemm<float>(args);
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(GemmBFloat16);
HWY_EXPORT(GemmFloat16);

void Gemm(const GemmArgs<BFloat16> &args) {
    HWY_DYNAMIC_DISPATCH(GemmBFloat16)(args);
}

void Gemm(const GemmArgs<Float16> &args) {
    HWY_DYNAMIC_DISPATCH(GemmFloat16)(args);
}

}  // namespace infini_train::cpu
#endif  // HWY_ONCE
