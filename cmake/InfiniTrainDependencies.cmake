# The library's own dependencies. All of them are private: no public header includes any.
find_package(Highway 1.0 REQUIRED)
find_package(PCRE2 10.40 REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.9 REQUIRED)
find_package(glog REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(Threads REQUIRED)

# ThreadSanitizer doesn't understand libgomp's barriers: the library then uses std::thread.
set(INFINI_TRAIN_WITH_OPENMP OFF)
if(INFINI_TRAIN_USE_OPENMP AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*thread")
    find_package(OpenMP COMPONENTS CXX)
    if(OpenMP_CXX_FOUND)
        set(INFINI_TRAIN_WITH_OPENMP ON)
    else()
        message(WARNING "No OpenMP runtime found for this compiler: the CPU kernels will use std::thread, which is slower")
    endif()
endif()
