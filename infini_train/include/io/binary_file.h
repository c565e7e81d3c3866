#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"

namespace infini_train::io {

/// A file of numbers, little-endian as everywhere in the library, read at the places that are asked for. All errors are
/// IoErrors that begin with who reads and the path: `LoadModel: gpt2.bin: expected ..., found ...`.
class INFINI_TRAIN_EXPORT BinaryFile {
public:
    /// `who` begins the messages.
    BinaryFile(const std::string &path, const std::string &who);
    ~BinaryFile();
    BinaryFile(const BinaryFile &) = delete;
    BinaryFile &operator=(const BinaryFile &) = delete;

    const std::string &path() const { return path_; }
    uint64_t size() const { return size_; }

    /// `what` names what is read, for the message where the file ends before it does.
    void Read(uint64_t offset, void *to, size_t bytes, const char *what) const;

    /// Fills a tensor of any strides, floating-point or integer type and device with elements of type `stored` that lie
    /// in the file in the order of the tensor's dims. They pass through a buffer of 16 MiB at most, or of one position
    /// of the first dimension; through none where they need no conversion. Unrecorded.
    void ReadTensor(uint64_t offset, DataType stored, const TensorPtr &to, const std::string &what) const;

    [[noreturn]] void Fail(const std::string &expected, const std::string &found) const;

private:
    const std::string path_;
    const std::string who_;
    int fd_ = -1;
    uint64_t size_ = 0;
};

/// Writes a file, which appears under its name when it is complete: what was there before stays until then. Throws
/// IoError, which begins with `who`, with the system's reason.
INFINI_TRAIN_EXPORT void WriteFile(const std::string &path, std::string_view content, const std::string &who);

}  // namespace infini_train::io
