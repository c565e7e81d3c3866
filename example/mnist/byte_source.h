#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace infini_train::example {

/// The bytes of a regular file, unpacked on the way if it is gzip. Stricter than zlib's own gz functions: bytes after
/// the last gzip member are an error. All failures are IoErrors that name the path.
class ByteSource {
public:
    explicit ByteSource(const std::string &path);
    ~ByteSource();

    ByteSource(const ByteSource &) = delete;
    ByteSource &operator=(const ByteSource &) = delete;

    /// Fills `out` with up to `size` bytes and returns how many; fewer than `size` only at the end of the data.
    int64_t Read(uint8_t *out, int64_t size);

    /// The most bytes that the data can have: the file's size, or what gzip could at best have packed into it.
    int64_t MaxBytes() const;

    int64_t file_bytes() const;
    bool is_gzip() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace infini_train::example
