# Finds libmd, the message digests of the BSDs (https://www.hadrons.org/software/libmd/).
#
# Result: LibMd_FOUND and the target LibMd::md.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(PC_LibMd QUIET libmd)
endif()

find_path(LibMd_INCLUDE_DIR md5.h HINTS ${PC_LibMd_INCLUDE_DIRS})
find_library(LibMd_LIBRARY md HINTS ${PC_LibMd_LIBRARY_DIRS})
mark_as_advanced(LibMd_INCLUDE_DIR LibMd_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibMd REQUIRED_VARS LibMd_LIBRARY LibMd_INCLUDE_DIR)

if(LibMd_FOUND AND NOT TARGET LibMd::md)
    add_library(LibMd::md UNKNOWN IMPORTED)
    set_target_properties(LibMd::md PROPERTIES
        IMPORTED_LOCATION "${LibMd_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${LibMd_INCLUDE_DIR}")
endif()
