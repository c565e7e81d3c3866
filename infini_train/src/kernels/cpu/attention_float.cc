#include "infini_train/src/kernels/cpu/attention.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/attention_float.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/attention_backward.h"
#include "infini_train/src/kernels/cpu/attention_forward.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

void ForwardOfFloat(const AttentionOperands &x) {
    AttentionForwardPass<float>(x).Run();
}
void BackwardOfFloat(const AttentionOperands &x) {
    AttentionBackwardPass<float>(x).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(ForwardOfFloat);
HWY_EXPORT(BackwardOfFloat);

void AttentionForwardFloat(const AttentionOperands &x) {
    HWY_DYNAMIC_DISPATCH(ForwardOfFloat)(x);
}
void AttentionBackwardFloat(const AttentionOperands &x) {
    HWY_DYNAMIC_DISPATCH(BackwardOfFloat)(x);
}

}  // namespace infini_train::cpu
#endif  // HWY_ONCE
