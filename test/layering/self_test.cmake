# cmake -DWORK=<empty folder> -P self_test.cmake: a tree with known faults, each of which check_includes.cmake must name,
# and the same tree without them, which it must accept; and the same for check_uses.cmake.
cmake_minimum_required(VERSION 3.25)

function(run_check variable script)
    execute_process(
        COMMAND "${CMAKE_COMMAND}" "-DROOT=${WORK}" -P "${CMAKE_CURRENT_LIST_DIR}/${script}.cmake"
        RESULT_VARIABLE status
        OUTPUT_VARIABLE output
        ERROR_VARIABLE output)
    # CMake wraps the lines of a message; what is compared has one space between words.
    string(REGEX REPLACE "[ \n]+" " " output "${output}")
    set(${variable} "${status} ${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
set(include "${WORK}/infini_train/include")
set(source "${WORK}/infini_train/src")
file(WRITE "${include}/tensor.h" "#include <memory>\n#include \"infini_train/include/device.h\"\n")
file(WRITE "${include}/device.h" "#pragma once\n")
file(WRITE "${source}/nn/linear.cc" "#include <random>\n#include \"infini_train/include/tensor.h\"\n")
file(WRITE "${WORK}/infini_train/CMakeLists.txt" "set(SOURCES\n    src/nn/linear.cc\n)\n")
file(WRITE "${WORK}/example/mnist/main.cc" "#include \"infini_train/include/tensor.h\"\n")
file(WRITE "${WORK}/example/CMakeLists.txt" "add_executable(mnist mnist/main.cc)\n")

run_check(result check_includes)
if(NOT result MATCHES "^0 ")
    message(FATAL_ERROR "expected a sound tree to pass, got: ${result}")
endif()

file(WRITE "${include}/core/storage.h" "#include <Eigen/Core>\n  #  include  \"infini_train/include/tensor.h\"\n")
file(WRITE "${include}/nn/module.h" "#include <iostream>\n#include \"infini_train/src/nn/private.h\"\n")
file(WRITE "${source}/kernels/cpu/relu.cc" "#include \"infini_train/include/autograd/function.h\"\n")
file(WRITE "${source}/misc/a.cc" "#include \"example/mnist/idx.h\"\n")
file(WRITE "${source}/io/b.cc" "#include \"example/mnist/idx.h\"\n")
file(WRITE "${WORK}/test/CMakeLists.txt" "")
file(WRITE "${WORK}/test/nn/linear_test.cc" "")
file(WRITE "${WORK}/example/gpt2/main.cc" "#include \"infini_train/src/kernels/cpu/gemm.h\"\n")

run_check(result check_includes)
foreach(expected IN ITEMS
        "include/core/storage.h: a public header includes Eigen/Core"
        "include/core/storage.h: includes infini_train/include/tensor.h of a higher layer"
        "include/nn/module.h: a public header includes iostream"
        "include/nn/module.h: a public header includes the private infini_train/src/nn/private.h"
        "src/kernels/cpu/relu.cc: includes infini_train/include/autograd/function.h of a higher layer"
        "src/kernels/cpu/relu.cc: infini_train/CMakeLists.txt doesn't name it"
        "test/nn/linear_test.cc: test/CMakeLists.txt doesn't name it"
        "src/misc/a.cc: belongs to no layer"
        "src/io/b.cc: the library includes example/mnist/idx.h"
        "example/gpt2/main.cc: an example includes infini_train/src/kernels/cpu/gemm.h")
    string(FIND "${result}" "${expected}" position)
    if(position EQUAL -1)
        message(FATAL_ERROR "expected '${expected}', got: ${result}")
    endif()
endforeach()

file(WRITE "${include}/a.h" "#include <vector>\n#include \"infini_train/include/device.h\"\n")
file(WRITE "${source}/nn/sound.cc" "#include \"infini_train/include/a.h\"\nstd::vector<int> a;  // no std::map<int, int>\n")
run_check(result check_uses)
if(NOT result MATCHES "^0 ")
    message(FATAL_ERROR "expected files with all includes to pass, got: ${result}")
endif()
file(WRITE "${source}/nn/faulty.cc" "#include \"infini_train/include/a.h\"\nstd::optional<int> a; fmt::format();\n")
run_check(result check_uses)
foreach(expected IN ITEMS
        "src/nn/faulty.cc: uses std::optional< without <optional>"
        "src/nn/faulty.cc: uses fmt without including it")
    string(FIND "${result}" "${expected}" position)
    if(position EQUAL -1)
        message(FATAL_ERROR "expected '${expected}', got: ${result}")
    endif()
endforeach()
