#include "infini_train/src/kernels/cpu/attention.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/attention_double.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/attention_backward.h"
#include "infini_train/src/kernels/cpu/attention_forward.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

void ForwardOfDouble(const AttentionOperands &x) {
    AttentionForwardPass<double>(x).Run();
}
void BackwardOfDouble(const AttentionOperands &x) {
    AttentionBackwardPass<double>(x).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(ForwardOfDouble);
HWY_EXPORT(BackwardOfDouble);

void AttentionForwardDouble(const AttentionOperands &x) {
    HWY_DYNAMIC_DISPATCH(ForwardOfDouble)(x);
}
void AttentionBackwardDouble(const AttentionOperands &x) {
    HWY_DYNAMIC_DISPATCH(BackwardOfDouble)(x);
}

}  // namespace infini_train::cpu
#endif  // HWY_ONCE
