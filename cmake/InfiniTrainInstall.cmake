# Install rules: headers, library, CMake package and pkg-config file, none of which remembers the prefix.
include(CMakePackageConfigHelpers)

set(INFINI_TRAIN_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/infini_train")

install(TARGETS infini_train EXPORT infini_trainTargets)
install(
    DIRECTORY "${PROJECT_SOURCE_DIR}/infini_train/include"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/infini_train"
    FILES_MATCHING PATTERN "*.h")
install(
    EXPORT infini_trainTargets
    NAMESPACE infini_train::
    DESTINATION "${INFINI_TRAIN_CMAKE_DIR}")

configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/infini_trainConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/infini_trainConfig.cmake"
    INSTALL_DESTINATION "${INFINI_TRAIN_CMAKE_DIR}")
write_basic_package_version_file(
    "${PROJECT_BINARY_DIR}/infini_trainConfigVersion.cmake"
    COMPATIBILITY SameMajorVersion)
install(
    FILES
        "${PROJECT_BINARY_DIR}/infini_trainConfig.cmake"
        "${PROJECT_BINARY_DIR}/infini_trainConfigVersion.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindHighway.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindLibMd.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindPCRE2.cmake"
    DESTINATION "${INFINI_TRAIN_CMAKE_DIR}")

# A static library's dependencies belong to every link line, so that `pkg-config --libs` is enough without --static.
set(requires "libhwy, libpcre2-8, libglog, libmd, fmt, zlib")
set(libs "-pthread ${OpenMP_CXX_FLAGS}")
if(NOT INFINI_TRAIN_WITH_OPENMP)
    set(libs "-pthread")
endif()
if(INFINI_TRAIN_USE_CUDA)
    # A toolkit mostly lies where neither linker looks.
    string(APPEND libs " -L${CUDAToolkit_LIBRARY_DIR} -Wl,-rpath,${CUDAToolkit_LIBRARY_DIR} -lcublas -lcudart")
endif()
if(BUILD_SHARED_LIBS)
    set(INFINI_TRAIN_PC_REQUIRES "Requires.private: ${requires}")
    set(INFINI_TRAIN_PC_LIBS "Libs: -L\${libdir} -linfini_train\nLibs.private: ${libs}")
else()
    set(INFINI_TRAIN_PC_REQUIRES "Requires: ${requires}")
    set(INFINI_TRAIN_PC_LIBS "Libs: -L\${libdir} -linfini_train ${libs}")
endif()
file(RELATIVE_PATH INFINI_TRAIN_PC_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
string(REGEX REPLACE "/$" "" INFINI_TRAIN_PC_PREFIX "${INFINI_TRAIN_PC_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/infini_train.pc.in" "${PROJECT_BINARY_DIR}/infini_train.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/infini_train.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
