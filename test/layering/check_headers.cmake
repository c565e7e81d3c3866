# cmake -DROOT=<repository> -DWORK=<folder> -DCXX=<compiler> -P check_headers.cmake: compiles each public header alone,
# included twice, without a warning.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE "${WORK}")
file(GLOB_RECURSE headers RELATIVE "${ROOT}" "${ROOT}/infini_train/include/*.h")
set(units "")
foreach(header IN LISTS headers)
    string(MAKE_C_IDENTIFIER "${header}" name)
    file(WRITE "${WORK}/${name}.cc" "#include \"${header}\"\n#include \"${header}\"\n")
    list(APPEND units "${WORK}/${name}.cc")
endforeach()

execute_process(
    COMMAND "${CXX}" -std=c++20 -fsyntax-only -Wall -Wextra -Werror "-I${ROOT}" ${units}
    COMMAND_ERROR_IS_FATAL ANY)
list(LENGTH headers count)
message(STATUS "${count} public headers compile alone")
