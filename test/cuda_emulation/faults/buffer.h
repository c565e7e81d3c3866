#pragma once

#include <cstddef>
#include <vector>

#include <cuda_runtime_api.h>

#include "infini_train/src/cuda/error.h"

namespace infini_train::test {

/// Device memory of a kernel's test.
template <typename T>
class Buffer {
public:
    explicit Buffer(size_t count) : count_(count) {
        cuda::CheckCuda(cudaMalloc(reinterpret_cast<void **>(&data_), count * sizeof(T)), "cudaMalloc");
    }
    explicit Buffer(const std::vector<T> &values) : Buffer(values.size()) {
        cuda::CheckCuda(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    ~Buffer() { (void)cudaFree(data_); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    T *data() const { return data_; }
    std::vector<T> Values() const {
        std::vector<T> values(count_);
        cuda::CheckCuda(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
        return values;
    }

private:
    size_t count_;
    T *data_ = nullptr;
};

}  // namespace infini_train::test
