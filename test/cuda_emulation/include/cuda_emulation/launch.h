// cudaLaunchKernelEx takes the place of the toolkit's template of that name, so that one call serves nvcc and this.
#pragma once

#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

namespace cuda_emulation {

/// A launch that waits in its stream: arguments are captured by value, as CUDA does.
class Closure {
public:
    virtual ~Closure() = default;
    virtual void Run() const = 0;
};

template <typename... P>
class KernelCall final : public Closure {
public:
    KernelCall(void (*kernel)(P...), P... arguments) : kernel_(kernel), arguments_(std::move(arguments)...) {}
    void Run() const override { std::apply(kernel_, arguments_); }

private:
    void (*kernel_)(P...);
    std::tuple<P...> arguments_;
};

/// Takes over `call`, an object of `call_bytes` bytes.
cudaError_t Launch(const cudaLaunchConfig_t &config, const void *kernel, size_t argument_bytes, Closure *call,
                   size_t call_bytes);

template <typename... P>
cudaError_t LaunchKernel(const cudaLaunchConfig_t *config, void (*kernel)(P...), std::type_identity_t<P>... arguments) {
    return Launch(*config, reinterpret_cast<const void *>(kernel), (size_t{0} + ... + sizeof(P)),
                  new KernelCall<P...>(kernel, std::move(arguments)...), sizeof(KernelCall<P...>));
}

}  // namespace cuda_emulation

#define cudaLaunchKernelEx ::cuda_emulation::LaunchKernel

template <typename... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value) {
    return ::cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
