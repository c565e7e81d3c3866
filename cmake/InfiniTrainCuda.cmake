# INFINI_TRAIN_USE_CUDA: kernels for NVIDIA GPUs, on where a toolkit is found. No GPU and no driver are needed to build,
# nor to start what was built: the driver's own library isn't linked.

# The host's part of a .cu file goes to the same compiler as everything else.
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)

if(NOT DEFINED INFINI_TRAIN_USE_CUDA)
    include(CheckLanguage)
    find_package(CUDAToolkit 12 QUIET)
    set(infini_train_has_cuda OFF)
    if(CUDAToolkit_FOUND)
        # The compiler of a toolkit that isn't on the PATH.
        if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
            set(ENV{CUDACXX} "${CUDAToolkit_NVCC_EXECUTABLE}")
        endif()
        check_language(CUDA)
        if(CMAKE_CUDA_COMPILER)
            set(infini_train_has_cuda ON)
        endif()
    endif()
endif()
option(INFINI_TRAIN_USE_CUDA "Build the kernels for NVIDIA GPUs; on where a CUDA toolkit is found" ${infini_train_has_cuda})

if(INFINI_TRAIN_USE_CUDA)
    find_package(CUDAToolkit 12 REQUIRED)
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
        set(ENV{CUDACXX} "${CUDAToolkit_NVCC_EXECUTABLE}")
    endif()
    enable_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER_LAUNCHER AND CMAKE_CXX_COMPILER_LAUNCHER)
        # The launcher alone, without what precompiled headers want of it.
        list(GET CMAKE_CXX_COMPILER_LAUNCHER -1 CMAKE_CUDA_COMPILER_LAUNCHER)
    endif()
endif()

# infini_train_configure_cuda_target(<target>): the language level and the warnings of a target with .cu and .cc files.
function(infini_train_configure_cuda_target target)
    infini_train_configure_target(${target})
    # The language level as a flag, because CMake 3.25 doesn't know that nvcc has C++20. Constexpr functions of the standard
    # library, such as std::array's and std::bit_cast, serve device code, too.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>")
    if(INFINI_TRAIN_WERROR)
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>)
    endif()
endfunction()
