// cudaLaunchKernelEx, which is how all kernels are launched.
#pragma once

#include <memory>
#include <tuple>

namespace cuda_emulation {

/// A kernel with its arguments, which are copied at the launch, as on a GPU.
class QueuedKernel {
public:
    virtual ~QueuedKernel() = default;
    virtual void RunThread() const = 0;

    size_t bytes = 0;  ///< of the whole object, in which the arguments lie
};

template <typename... P>
class QueuedKernelOf : public QueuedKernel {
public:
    QueuedKernelOf(void (*kernel)(P...), P... arguments) : kernel_(kernel), arguments_(std::move(arguments)...) {
        bytes = sizeof(*this);
    }
    void RunThread() const override { std::apply(kernel_, arguments_); }

private:
    void (*kernel_)(P...);
    std::tuple<P...> arguments_;
};

cudaError_t Launch(const cudaLaunchConfig_t &config, const void *kernel, std::shared_ptr<const QueuedKernel> queued);

}  // namespace cuda_emulation

// In place of the toolkit's templates.
#define cudaLaunchKernelEx CudaEmulationLaunchKernelEx
template <typename... P, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...arguments) {
    return cuda_emulation::Launch(
        *config, reinterpret_cast<const void *>(kernel),
        std::make_shared<cuda_emulation::QueuedKernelOf<P...>>(kernel, std::forward<A>(arguments)...));
}
template <typename... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value) {
    return ::cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
