#pragma once

#include <cstddef>

namespace infini_train::cuda {

/// Device memory for what a kernel leaves for the next one on the current stream. It may go out of scope while the
/// kernels still run: nobody else gets it before they are done.
class Scratch {
public:
    explicit Scratch(size_t bytes);
    ~Scratch();
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    void *data() const { return data_; }
    template <typename T>
    T *As() const {
        return static_cast<T *>(data_);
    }

private:
    const int device_;
    const size_t bytes_;
    void *data_;
};

/// Copies from the device and waits for it; what is queued on the current stream comes first.
void ReadBackBytes(void *destination, const void *source, size_t bytes);

template <typename T>
T ReadBack(const T *source) {
    T value;
    ReadBackBytes(&value, source, sizeof(T));
    return value;
}

}  // namespace infini_train::cuda
