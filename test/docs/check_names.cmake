# Fails if a document names a file or a test that doesn't exist.
#
#   cmake -DROOT=repository -P check_names.cmake
file(GLOB documents "${ROOT}/*.md" "${ROOT}/docs/*.md" "${ROOT}/docs/*/*.md" "${ROOT}/example/*.md" "${ROOT}/example/*/*.md"
     "${ROOT}/third_party/*.md")
file(GLOB_RECURSE tests "${ROOT}/test/*_test.cc" "${ROOT}/test/*/test_*.cc")
set(known_tests "")
foreach(test IN LISTS tests)
    file(STRINGS "${test}" lines REGEX "^(TEST|TEST_F|TEST_P|TYPED_TEST)\\(")
    string(APPEND known_tests "${lines};")
endforeach()

set(faults "")
set(checked 0)
foreach(document IN LISTS documents)
    file(READ "${document}" text)
    # Brackets and semicolons would join or part the entries of a list.
    string(REPLACE "](" " link(" plain "${text}")
    string(REGEX REPLACE "[][;]" " " plain "${plain}")
    get_filename_component(folder "${document}" DIRECTORY)

    # Paths from the repository's root, in backquotes or at the head of a change.
    string(REGEX MATCHALL "(`|\n\\+\\+\\+ )(infini_train|test|docs|example|scripts|cmake|third_party)/[A-Za-z0-9_./-]*[^A-Za-z0-9_./-]"
           paths "${plain}")
    foreach(path IN LISTS paths)
        string(REGEX REPLACE "^(`|\n\\+\\+\\+ )(.*).$" "\\2" name "${path}")
        math(EXPR checked "${checked} + 1")
        # A pattern such as <name> or * is no file.
        if(NOT path MATCHES "[<*{]$" AND NOT EXISTS "${ROOT}/${name}")
            string(APPEND faults "\n  ${document}: ${name} doesn't exist")
        endif()
    endforeach()

    # Links, relative to the document.
    string(REGEX MATCHALL " link[(][^)#: ]+[)#]" links "${plain}")
    foreach(link IN LISTS links)
        string(REGEX REPLACE "^ link.(.*).$" "\\1" name "${link}")
        math(EXPR checked "${checked} + 1")
        if(NOT EXISTS "${folder}/${name}")
            string(APPEND faults "\n  ${document}: the link to ${name} leads nowhere")
        endif()
    endforeach()

    # Tests: `Suite.Name`, and `.Name` of the same suite.
    string(REGEX MATCHALL "`([A-Z][A-Za-z0-9]*)?\\.[A-Z][A-Za-z0-9]+`" names "${plain}")
    foreach(name IN LISTS names)
        string(REGEX MATCH "^`([A-Za-z0-9]*)\\.([A-Za-z0-9]+)`$" name "${name}")
        set(test "${CMAKE_MATCH_2}")
        if(CMAKE_MATCH_1)
            set(suite "${CMAKE_MATCH_1}")
        endif()
        math(EXPR checked "${checked} + 1")
        if(NOT known_tests MATCHES "\\(${suite}, ${test}\\)")
            string(APPEND faults "\n  ${document}: there is no test ${suite}.${test}")
        endif()
    endforeach()
endforeach()
if(faults)
    message(FATAL_ERROR "names in the documents:${faults}")
endif()
message(STATUS "${checked} names checked")
