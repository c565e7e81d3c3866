# infini_train_configure_target(<target>): the language level and the warnings that all of our own targets share.
function(infini_train_configure_target target)
    target_compile_features(${target} PUBLIC cxx_std_20)
    set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
    # GCC 12 sees overlapping copies in the concatenation of strings where there are none.
    set(options
        -Wall
        -Wextra
        $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
        $<$<BOOL:${INFINI_TRAIN_WERROR}>:-Werror>)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${options}>)
    # GCC 12 sees uninitialised members of empty std::optionals where a sanitizer has instrumented them.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
    endif()
endfunction()

# infini_train_precompile_headers(<target> <header>...): what most of the target's files include, compiled once for all of
# them. Files still include what they use: without INFINI_TRAIN_PRECOMPILED_HEADERS nothing here exists.
function(infini_train_precompile_headers target)
    if(NOT INFINI_TRAIN_PRECOMPILED_HEADERS)
        return()
    endif()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    # ccache needs the first. Where std::string comes out of a precompiled header, GCC 12 also sees overflows where there
    # are none.
    set(gcc12 "$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>")
    target_compile_options(${target} PRIVATE
        $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
        $<${gcc12}:-Wno-array-bounds>
        $<${gcc12}:-Wno-stringop-overflow>)
endfunction()
