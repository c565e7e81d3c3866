# What a build with CUDA adds, relative to this folder; test/cuda_emulation compiles the same files for the CPU. One a
# line, alphabetical within a directory.

# C++ for the host, compiled by its compiler.
set(INFINI_TRAIN_CUDA_SOURCES
    src/cuda/backend.cc
    src/cuda/blas.cc
    src/cuda/caching_allocator.cc
    src/cuda/error.cc
    src/cuda/graph.cc
    src/cuda/launch.cc
    src/cuda/pinned_allocator.cc
    src/cuda/runtime.cc
    src/cuda/scratch.cc
    src/cuda/strided_loop.cc
    src/kernels/cuda/matmul.cc
)

# Kernels, a file a family.
set(INFINI_TRAIN_CUDA_KERNEL_SOURCES
    src/kernels/cuda/attention_backward.cu
    src/kernels/cuda/attention_forward.cu
    src/kernels/cuda/clip_grad.cu
    src/kernels/cuda/conv.cu
    src/kernels/cuda/copy.cu
    src/kernels/cuda/dropout.cu
    src/kernels/cuda/elementwise.cu
    src/kernels/cuda/elementwise_select.cu
    src/kernels/cuda/elementwise_unary.cu
    src/kernels/cuda/embedding.cu
    src/kernels/cuda/fill.cu
    src/kernels/cuda/finite.cu
    src/kernels/cuda/indexing.cu
    src/kernels/cuda/loss.cu
    src/kernels/cuda/matmul_integer.cu
    src/kernels/cuda/normalization.cu
    src/kernels/cuda/optimizer.cu
    src/kernels/cuda/pooling.cu
    src/kernels/cuda/random.cu
    src/kernels/cuda/random_shift.cu
    src/kernels/cuda/reduction.cu
    src/kernels/cuda/reduction_position.cu
    src/kernels/cuda/rotary.cu
    src/kernels/cuda/softmax.cu
    src/kernels/cuda/statistics.cu
    src/kernels/cuda/swiglu.cu
    src/kernels/cuda/transform.cu
)
