# What a build with CUDA adds, relative to this folder; test/cuda_emulation compiles the same files for the CPU. One a
# line, alphabetical within a directory.

# C++ for the host, compiled by its compiler.
set(INFINI_TRAIN_CUDA_SOURCES
    src/cuda/backend.cc
    src/cuda/caching_allocator.cc
    src/cuda/error.cc
    src/cuda/launch.cc
    src/cuda/pinned_allocator.cc
    src/cuda/runtime.cc
    src/cuda/scratch.cc
    src/cuda/strided_loop.cc
)

# Kernels, a file a family.
set(INFINI_TRAIN_CUDA_KERNEL_SOURCES
)
