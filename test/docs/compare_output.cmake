# Fails unless a program prints what a file holds.
#
#   cmake -DPROGRAM=program -DEXPECTED=file -P compare_output.cmake
execute_process(COMMAND "${PROGRAM}" RESULT_VARIABLE status OUTPUT_VARIABLE output)
file(READ "${EXPECTED}" expected)
if(NOT status EQUAL 0 OR NOT output STREQUAL expected)
    message(FATAL_ERROR "${PROGRAM} ended with ${status} and doesn't print what ${EXPECTED} holds, but:\n${output}")
endif()
