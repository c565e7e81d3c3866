# cmake -DCXX=<compiler> -DROOT=<repository> -DSOURCE=mistyped_kernel.cc -P mistyped_kernel.cmake
# A kernel of another type than its tag's must not compile, for that reason; its well-typed twin must.
set(compile "${CXX}" -std=c++20 "-I${ROOT}" -fsyntax-only "${SOURCE}")

execute_process(COMMAND ${compile} RESULT_VARIABLE result ERROR_VARIABLE errors)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "The well-typed kernel doesn't compile:\n${errors}")
endif()

set(ENV{LC_ALL} C)
execute_process(COMMAND ${compile} -DMISTYPED RESULT_VARIABLE result ERROR_VARIABLE errors)
if(result EQUAL 0)
    message(FATAL_ERROR "The mistyped kernel compiles")
endif()
if(NOT errors MATCHES "conver(t|sion) .*void \\(\\*\\)\\(float ?\\*\\)")
    message(FATAL_ERROR "The mistyped kernel fails for another reason:\n${errors}")
endif()
