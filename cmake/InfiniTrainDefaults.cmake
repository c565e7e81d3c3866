# What a build of this repository itself defaults to; a project that adds it as a subdirectory keeps its own choices.
get_property(is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT is_multi_config AND NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(INFINI_TRAIN_CCACHE ccache)
    mark_as_advanced(INFINI_TRAIN_CCACHE)
    if(INFINI_TRAIN_CCACHE)
        set(CMAKE_CXX_COMPILER_LAUNCHER "${INFINI_TRAIN_CCACHE}")
        # ccache wants to be told that precompiled headers are all right; no file of ours uses __TIME__.
        if(INFINI_TRAIN_PRECOMPILED_HEADERS)
            list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros)
        endif()
    endif()
endif()
