# cmake -DROOT=<repository> -P check_kernels.cmake: fails with a line for each place where a kernel breaks a rule that
# the emulation relies on and can't check itself.
cmake_minimum_required(VERSION 3.25)

set(problems "")
set(forbidden
    "<<<" "launches go through cuda::Launch"
    "__activemask" "masks are explicit"
    "asm[ \t]*(volatile)?[ \t]*\\(" "no inline PTX"
    "__CUDA_ARCH__" "one code for all architectures"
    "cooperative_groups" "barriers and masks are explicit"
    "include <cub/" "reductions are those of reduce.cuh"
    "include <thrust/" "reductions are those of reduce.cuh"
    "__noinline__" "the standard library uses the name")
file(GLOB files RELATIVE "${ROOT}" "${ROOT}/infini_train/src/kernels/cuda/*.cu" "${ROOT}/infini_train/src/kernels/cuda/*.cuh")
list(LENGTH forbidden count)
math(EXPR last "${count} - 1")
set(kernels 0)
foreach(file IN LISTS files)
    file(READ "${ROOT}/${file}" text)
    string(REGEX REPLACE "//[^\n]*" "" text "${text}")
    foreach(i RANGE 0 ${last} 2)
        math(EXPR next "${i} + 1")
        list(GET forbidden ${i} pattern)
        list(GET forbidden ${next} why)
        if(text MATCHES "${pattern}")
            list(APPEND problems "${file}: ${CMAKE_MATCH_0}: ${why}")
        endif()
    endforeach()
    string(REGEX MATCHALL "__global__[^(]*\\(?[^(]*" heads "${text}")
    foreach(head IN LISTS heads)
        math(EXPR kernels "${kernels} + 1")
        if(NOT head MATCHES "__launch_bounds__\\(")
            string(STRIP "${head}" head)
            list(APPEND problems "${file}: ${head}: every kernel has __launch_bounds__(kBlock)")
        endif()
    endforeach()
endforeach()

if(problems)
    list(JOIN problems "\n" problems)
    message(FATAL_ERROR "${problems}")
endif()
if(kernels EQUAL 0)
    message(FATAL_ERROR "no kernels were found below ${ROOT}")
endif()
message(STATUS "${kernels} kernels keep the rules")
