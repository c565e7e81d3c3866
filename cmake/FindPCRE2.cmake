# Finds PCRE2 for texts of bytes, the regular expressions (https://github.com/PCRE2Project/pcre2).
#
# Result: PCRE2_FOUND, PCRE2_VERSION and the target PCRE2::8BIT.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    pkg_check_modules(PC_PCRE2 QUIET libpcre2-8)
endif()

find_path(PCRE2_INCLUDE_DIR pcre2.h HINTS ${PC_PCRE2_INCLUDE_DIRS})
find_library(PCRE2_LIBRARY pcre2-8 HINTS ${PC_PCRE2_LIBRARY_DIRS})
mark_as_advanced(PCRE2_INCLUDE_DIR PCRE2_LIBRARY)

if(PCRE2_INCLUDE_DIR AND EXISTS "${PCRE2_INCLUDE_DIR}/pcre2.h")
    file(STRINGS "${PCRE2_INCLUDE_DIR}/pcre2.h" pcre2_version REGEX "#define PCRE2_(MAJOR|MINOR) +[0-9]+")
    string(REGEX REPLACE "PCRE2_" "" pcre2_version "${pcre2_version}")
    string(REGEX MATCHALL "[0-9]+" pcre2_version "${pcre2_version}")
    list(JOIN pcre2_version "." PCRE2_VERSION)
    unset(pcre2_version)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
    PCRE2
    REQUIRED_VARS PCRE2_LIBRARY PCRE2_INCLUDE_DIR
    VERSION_VAR PCRE2_VERSION)

if(PCRE2_FOUND AND NOT TARGET PCRE2::8BIT)
    add_library(PCRE2::8BIT UNKNOWN IMPORTED)
    set_target_properties(PCRE2::8BIT PROPERTIES
        IMPORTED_LOCATION "${PCRE2_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${PCRE2_INCLUDE_DIR}")
endif()
