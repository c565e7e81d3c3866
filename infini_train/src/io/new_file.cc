#include "infini_train/src/io/new_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include <zlib.h>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train::io {

NewFile::NewFile(const std::string &path, const char *who) : path_(path), who_(who), temporary_(path + ".tmp") {
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd_ < 0) {
        Fail("opened");
    }
}

NewFile::~NewFile() {
    if (fd_ >= 0) {
        ::close(fd_);
        ::unlink(temporary_.c_str());
    }
}

void NewFile::Fail(const char *what) const {
    Throw<IoError>("{}: {}: can't be {}: {}", who_, path_, what, std::strerror(errno));
}

void NewFile::Write(const void *data, size_t bytes) {
    const char *from = static_cast<const char *>(data);
    while (bytes > 0) {
        const ssize_t written = ::write(fd_, from, std::min<size_t>(bytes, size_t{1} << 30));
        if (written < 0 && errno != EINTR) {
            Fail("written");
        }
        const auto count = static_cast<size_t>(std::max<ssize_t>(written, 0));
        crc32_ = static_cast<uint32_t>(::crc32_z(crc32_, reinterpret_cast<const Bytef *>(from), count));
        from += count;
        bytes -= count;
        bytes_ += count;
    }
}

void NewFile::Commit() {
    if (::fsync(fd_) != 0) {
        Fail("flushed");
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
        Fail("renamed");
    }
    ::close(std::exchange(fd_, -1));
    SyncFolder(std::filesystem::path(path_).parent_path().string(), who_);
}

void SyncFolder(const std::string &path, const char *who) {
    const int fd = ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int status = fd >= 0 ? ::fsync(fd) : -1;
    const int error = errno;
    if (fd >= 0) {
        ::close(fd);
    }
    // Some file systems can't flush a folder.
    if (status != 0 && error != EINVAL && error != EROFS) {
        Throw<IoError>("{}: {}: can't be flushed: {}", who, path, std::strerror(error));
    }
}

}  // namespace infini_train::io
