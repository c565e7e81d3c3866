// Compiled twice by mistyped_kernel.cmake: as it is, and with a kernel that takes a float where its tag has a double.
#include "infini_train/include/core/dispatcher.h"

namespace infini_train {

struct Halve : KernelTag<void(double *value)> {
    static constexpr const char *kName = "Halve";
};

#ifdef MISTYPED
void HalveKernel(float *value) {
#else
void HalveKernel(double *value) {
#endif
    *value /= 2;
}

void Register() {
    RegisterKernel<Halve>(DeviceType::kCPU, &HalveKernel);
}

}  // namespace infini_train
