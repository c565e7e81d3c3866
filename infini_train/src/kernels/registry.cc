#include "infini_train/src/kernels/registry.h"

#include <mutex>

#include "infini_train/include/core/dispatcher.h"

namespace infini_train::internal {

namespace {

thread_local bool registering = false;

}  // namespace

void RegisterLibraryKernels() {
    // RegisterKernel itself comes here first, also when it is called below.
    if (registering) {
        return;
    }
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    if (kernels_registered.load(std::memory_order_relaxed)) {
        return;
    }
    // A family that throws leaves the library unregistered, and the next call says so again.
    const struct Registering {
        Registering() { registering = true; }
        ~Registering() { registering = false; }
    } scope;
#define INFINI_TRAIN_REGISTER_FAMILY(name) kernels::Register##name##Cpu();
    INFINI_TRAIN_CPU_KERNEL_FAMILIES(INFINI_TRAIN_REGISTER_FAMILY)
#undef INFINI_TRAIN_REGISTER_FAMILY
#ifdef INFINI_TRAIN_USE_CUDA
#define INFINI_TRAIN_REGISTER_FAMILY(name) kernels::Register##name##Cuda();
    INFINI_TRAIN_CUDA_KERNEL_FAMILIES(INFINI_TRAIN_REGISTER_FAMILY)
#undef INFINI_TRAIN_REGISTER_FAMILY
    cuda::RegisterBackend();
#endif
    kernels_registered.store(true, std::memory_order_release);
}

}  // namespace infini_train::internal
