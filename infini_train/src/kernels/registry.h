#pragma once

// Every family of kernels, one a line: `V(Gemm)` stands for a function `void RegisterGemmCpu()` that registers the
// family's CPU kernels. An explicit list, because a static library would drop self-registering objects.
#define INFINI_TRAIN_CPU_KERNEL_FAMILIES(V) \
    V(Attention)                            \
    V(ChannelSum)                           \
    V(ClipGrad)                             \
    V(Conv)                                 \
    V(Dropout)                              \
    V(Elementwise)                          \
    V(Fill)                                 \
    V(Indexing)                             \
    V(Loss)                                 \
    V(Matmul)                               \
    V(Normalization)                        \
    V(Optimizer)                            \
    V(Pooling)                              \
    V(Reduction)                            \
    V(Rotary)                               \
    V(Softmax)                              \
    V(Statistics)                           \
    V(SwiGlu)                               \
    V(Transform)

// The same for `void RegisterGemmCuda()`, in a build with CUDA.
#define INFINI_TRAIN_CUDA_KERNEL_FAMILIES(V) \
    V(Attention)                             \
    V(ChannelSum)                            \
    V(ClipGrad)                              \
    V(Conv)                                  \
    V(Dropout)                               \
    V(Elementwise)                           \
    V(Fill)                                  \
    V(Finite)                                \
    V(Indexing)                              \
    V(Loss)                                  \
    V(Matmul)                                \
    V(Normalization)                         \
    V(Optimizer)                             \
    V(Pooling)                               \
    V(Reduction)                             \
    V(Rotary)                                \
    V(Softmax)                               \
    V(Statistics)                            \
    V(SwiGlu)                                \
    V(Transform)

namespace infini_train::kernels {

#define INFINI_TRAIN_DECLARE_FAMILY(name) void Register##name##Cpu();
INFINI_TRAIN_CPU_KERNEL_FAMILIES(INFINI_TRAIN_DECLARE_FAMILY)
#undef INFINI_TRAIN_DECLARE_FAMILY

#define INFINI_TRAIN_DECLARE_FAMILY(name) void Register##name##Cuda();
INFINI_TRAIN_CUDA_KERNEL_FAMILIES(INFINI_TRAIN_DECLARE_FAMILY)
#undef INFINI_TRAIN_DECLARE_FAMILY

}  // namespace infini_train::kernels

namespace infini_train::cuda {

/// The DeviceBackend of DeviceType::kCUDA (src/cuda/backend.cc), in a build with CUDA.
void RegisterBackend();

}  // namespace infini_train::cuda
