#include "infini_train/src/kernels/cpu/gemm.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/gemm_float.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/gemm_run.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

void GemmFloat(const GemmArgs<float> &args) {
    RunGemm<float>(args);
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(GemmFloat);

void Gemm(const GemmArgs<float> &args) {
    HWY_DYNAMIC_DISPATCH(GemmFloat)(args);
}

}  // namespace infini_train::cpu
#endif  // HWY_ONCE
