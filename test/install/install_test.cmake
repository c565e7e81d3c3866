# Run by ctest with -D for each of the names in test/install/CMakeLists.txt. Fails at the first step that does.
cmake_minimum_required(VERSION 3.25)

set(consumer "${CMAKE_CURRENT_LIST_DIR}/consumer")

# run(<what it is for> <command>...): the command's output is shown only if it fails.
function(run what)
    execute_process(
        COMMAND ${ARGN}
        RESULT_VARIABLE status
        OUTPUT_VARIABLE output
        ERROR_VARIABLE output)
    if(NOT status EQUAL 0)
        list(JOIN ARGN " " command)
        message(NOTICE "${command}\n${output}")
        message(FATAL_ERROR "not ${what}: status ${status}")
    endif()
    message(STATUS "${what}")
endfunction()

# build_with_cmake(<name> <cache entry>...): configures, builds and runs the consumer.
function(build_with_cmake name)
    run("${name}: configured"
        "${CMAKE_COMMAND}" -S "${consumer}" -B "${WORK}/${name}" -G "${GENERATOR}"
        "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" ${ARGN})
    run("${name}: built" "${CMAKE_COMMAND}" --build "${WORK}/${name}" --config "${CONFIG}" --parallel 2)
    run("${name}: ran" "${WORK}/${name}/consumer")
endfunction()

# use_prefix(<name> <prefix>): CMake's way and pkg-config's into an installed tree.
function(use_prefix name prefix)
    build_with_cmake("${name}_find_package" "-DCMAKE_PREFIX_PATH=${prefix}")
    file(STRINGS "${WORK}/${name}_find_package/CMakeCache.txt" found REGEX "^infini_train_DIR:")
    if(NOT found STREQUAL "infini_train_DIR:PATH=${prefix}/${LIBDIR}/cmake/infini_train")
        message(FATAL_ERROR "expected the package below ${prefix}, got ${found}")
    endif()

    set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig")
    execute_process(
        COMMAND "${PKG_CONFIG}" --cflags --libs infini_train
        OUTPUT_VARIABLE flags
        OUTPUT_STRIP_TRAILING_WHITESPACE
        COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    run("${name}_pkg_config: built"
        "${CXX}" -std=c++20 -O1 "${consumer}/main.cc" -o "${WORK}/${name}_pkg_config" ${flags})
    set(ENV{LD_LIBRARY_PATH} "${prefix}/${LIBDIR}")
    run("${name}_pkg_config: ran" "${WORK}/${name}_pkg_config")
    unset(ENV{LD_LIBRARY_PATH})
endfunction()

# The library is built once more as a subdirectory: with its precompiled headers, of which ccache wants to be told.
set(ENV{CCACHE_SLOPPINESS} "pch_defines,time_macros")
file(REMOVE_RECURSE "${WORK}")
run("installed" "${CMAKE_COMMAND}" --install "${BUILD}" --config "${CONFIG}" --prefix "${WORK}/prefix")
if(EXISTS "${WORK}/prefix/include/infini_train/src" OR EXISTS "${WORK}/prefix/include/gtest")
    message(FATAL_ERROR "expected only infini_train/include below the prefix's include folder")
endif()
use_prefix(first "${WORK}/prefix")

file(RENAME "${WORK}/prefix" "${WORK}/elsewhere")
use_prefix(moved "${WORK}/elsewhere")

build_with_cmake(subdirectory
    "-DINFINI_TRAIN_SOURCE=${SOURCE}" "-DBUILD_SHARED_LIBS=${SHARED}" "-DINFINI_TRAIN_WERROR=${WERROR}")
if(EXISTS "${WORK}/subdirectory/infini_train/test" OR EXISTS "${WORK}/subdirectory/infini_train/example")
    message(FATAL_ERROR "expected a subdirectory build without tests and examples")
endif()
