#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace infini_train::io {

/// A file under a temporary name, which takes its own once it is complete and on the disk: a crash leaves what was
/// there before, or the new one whole.
class NewFile {
public:
    /// `who` begins messages. Throws IoError, as the others do.
    NewFile(const std::string &path, const char *who);
    /// Removes a file that wasn't committed.
    ~NewFile();
    NewFile(const NewFile &) = delete;
    NewFile &operator=(const NewFile &) = delete;

    void Write(const void *data, size_t bytes);
    void Commit();

    uint64_t bytes() const { return bytes_; }
    /// The CRC-32 of what was written.
    uint32_t crc32() const { return crc32_; }

private:
    [[noreturn]] void Fail(const char *what) const;

    const std::string path_;
    const char *const who_;
    const std::string temporary_;
    int fd_ = -1;
    uint64_t bytes_ = 0;
    uint32_t crc32_ = 0;
};

/// Brings the names in a folder to the disk.
void SyncFolder(const std::string &path, const char *who);

}  // namespace infini_train::io
