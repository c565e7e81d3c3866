# cmake -DROOT=<repository> -P check_uses.cmake: fails with one line for each source file that uses a standard header
# without including it, itself or through the repository's own headers. The compiler doesn't see that where a precompiled
# header brings it along.
cmake_minimum_required(VERSION 3.25)

# A header, and a name (the end of one, after "std::") that only it promises.
set(uses
    "algorithm" "(any_of|all_of|none_of|clamp|copy_n|count_if|fill_n|find_if|lower_bound|max_element|min_element|reverse|sort|stable_sort|transform|upper_bound)\\("
    "array" "array<"
    "cmath" "(ceil|cos|exp|floor|isfinite|isinf|isnan|log|lround|nextafter|pow|sin|sqrt)\\("
    "functional" "function<"
    "limits" "numeric_limits<"
    "map" "map<"
    "memory" "(make_shared|make_unique|shared_ptr|unique_ptr|weak_ptr)<"
    "mutex" "(lock_guard|mutex|unique_lock)[^_a-z]"
    "optional" "(nullopt|optional)[^_a-z]"
    "span" "span<"
    "string" "(string|to_string)[^_a-z]"
    "string_view" "string_view[^_a-z]"
    "utility" "(exchange|pair|swap)[(<]"
    "vector" "vector<")

# included_by(<variable> <file>): what the file includes, itself or through the repository's headers. Each file is read
# once.
function(included_by variable file)
    get_property(result GLOBAL PROPERTY "INCLUDED_BY_${file}" SET)
    if(NOT result)
        set_property(GLOBAL PROPERTY "INCLUDED_BY_${file}" "")  # ends a circle
        file(STRINGS "${ROOT}/${file}" lines REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
        list(TRANSFORM lines REPLACE "^[^<\"]*[<\"]([^>\"]*)[>\"].*$" "\\1")
        set(all "${lines}")
        foreach(line IN LISTS lines)
            if(EXISTS "${ROOT}/${line}")
                included_by(more "${line}")
                list(APPEND all ${more})
            endif()
        endforeach()
        list(REMOVE_DUPLICATES all)
        set_property(GLOBAL PROPERTY "INCLUDED_BY_${file}" "${all}")
    endif()
    get_property(result GLOBAL PROPERTY "INCLUDED_BY_${file}")
    set(${variable} "${result}" PARENT_SCOPE)
endfunction()

set(problems "")
file(GLOB_RECURSE files RELATIVE "${ROOT}"
    "${ROOT}/infini_train/src/*.cc" "${ROOT}/example/*.cc" "${ROOT}/test/*.cc")
foreach(file IN LISTS files)
    included_by(included "${file}")
    file(READ "${ROOT}/${file}" text)
    string(REGEX REPLACE "//[^\n]*" "" text "${text}")
    set(left ${uses})
    while(left)
        list(POP_FRONT left header names)
        if(NOT header IN_LIST included AND text MATCHES "std::${names}")
            list(APPEND problems "${file}: uses ${CMAKE_MATCH_0} without <${header}>")
        endif()
    endwhile()
    if(text MATCHES "fmt::" AND NOT included MATCHES "fmt/")
        list(APPEND problems "${file}: uses fmt without including it")
    endif()
endforeach()

if(problems)
    list(JOIN problems "\n  " problems)
    message(FATAL_ERROR "Includes are missing:\n  ${problems}\n")
endif()
