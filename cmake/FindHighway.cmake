# Finds Highway, the SIMD library (https://github.com/google/highway), with or without its own CMake or pkg-config files,
# which not every distribution ships whole.
#
# Result: Highway_FOUND, Highway_VERSION and the target Highway::hwy.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(PC_Highway QUIET libhwy)
endif()

find_path(Highway_INCLUDE_DIR hwy/highway.h HINTS ${PC_Highway_INCLUDE_DIRS})
find_library(Highway_LIBRARY hwy HINTS ${PC_Highway_LIBRARY_DIRS})
mark_as_advanced(Highway_INCLUDE_DIR Highway_LIBRARY)

# The version's macros have moved from one header to the other.
foreach(highway_header IN ITEMS highway.h base.h)
    if(Highway_INCLUDE_DIR AND NOT Highway_VERSION AND EXISTS "${Highway_INCLUDE_DIR}/hwy/${highway_header}")
        file(STRINGS "${Highway_INCLUDE_DIR}/hwy/${highway_header}" highway_version REGEX
             "#define HWY_(MAJOR|MINOR|PATCH) [0-9]+")
        string(REGEX MATCHALL "[0-9]+" highway_version "${highway_version}")
        list(JOIN highway_version "." Highway_VERSION)
        unset(highway_version)
    endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
    Highway
    REQUIRED_VARS Highway_LIBRARY Highway_INCLUDE_DIR
    VERSION_VAR Highway_VERSION)

if(Highway_FOUND AND NOT TARGET Highway::hwy)
    add_library(Highway::hwy UNKNOWN IMPORTED)
    set_target_properties(Highway::hwy PROPERTIES
        IMPORTED_LOCATION "${Highway_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${Highway_INCLUDE_DIR}")
    # Headers of a shared Highway have to know that it is one.
    if(Highway_LIBRARY MATCHES "\\.(so|dylib)")
        set_property(TARGET Highway::hwy PROPERTY INTERFACE_COMPILE_DEFINITIONS HWY_SHARED_DEFINE)
    endif()
endif()
