// Registers the attention kernels, which attention_float.cc and attention_double.cc instantiate.

#include "infini_train/src/kernels/cpu/attention.h"

#include "infini_train/src/kernels/registry.h"

namespace infini_train {
namespace cpu {
namespace {

void ForwardKernel(TensorRef output, TensorRef log_sums, ConstTensorRef query, ConstTensorRef key, ConstTensorRef value,
                   ConstTensorRef mask, const kernels::AttentionSettings &settings) {
    const AttentionOperands x{query, key, value, mask, settings, output, log_sums, {}, {}, {}, {}};
    query.dtype == DataType::kFLOAT64 ? AttentionForwardDouble(x) : AttentionForwardFloat(x);
}

TensorRef ReadOnly(const ConstTensorRef &x) {
    return {const_cast<void *>(x.data), x.dims, x.strides, x.ndim, x.dtype, x.num_elements, x.is_contiguous};
}

void BackwardKernel(TensorRef grad_query, TensorRef grad_key, TensorRef grad_value, ConstTensorRef grad_output,
                    ConstTensorRef output, ConstTensorRef log_sums, ConstTensorRef query, ConstTensorRef key,
                    ConstTensorRef value, ConstTensorRef mask, const kernels::AttentionSettings &settings) {
    const AttentionOperands x{
        query,       key,        value,    mask,      settings, ReadOnly(output), ReadOnly(log_sums),
        grad_output, grad_query, grad_key, grad_value};
    query.dtype == DataType::kFLOAT64 ? AttentionBackwardDouble(x) : AttentionBackwardFloat(x);
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterAttentionCpu() {
    RegisterKernel<AttentionForward>(DeviceType::kCPU, &cpu::ForwardKernel);
    RegisterKernel<AttentionBackward>(DeviceType::kCPU, &cpu::BackwardKernel);
}

}  // namespace kernels
}  // namespace infini_train
