#include "infini_train/src/kernels/cpu/gemm.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/gemm_double.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/gemm_run.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

void GemmDouble(const GemmArgs<double> &args) {
    RunGemm<double>(args);
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(GemmDouble);

void Gemm(const GemmArgs<double> &args) {
    HWY_DYNAMIC_DISPATCH(GemmDouble)(args);
}

}  // namespace infini_train::cpu
#endif  // HWY_ONCE
