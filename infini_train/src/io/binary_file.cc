#include "infini_train/include/io/binary_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/io/new_file.h"

namespace infini_train::io {
namespace {

constexpr size_t kBufferBytes = size_t{16} << 20;
constexpr size_t kMostAtOnce = size_t{1} << 30;  // read takes less than 2 GiB

}  // namespace

BinaryFile::BinaryFile(const std::string &path, const std::string &who) : path_(path), who_(who) {
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (fd_ < 0 || fstat(fd_, &status) != 0) {
        const std::string reason = std::strerror(errno);
        if (fd_ >= 0) {
            close(fd_);
        }
        Fail("a readable file", reason);
    }
    if (!S_ISREG(status.st_mode)) {
        close(fd_);
        Fail("a regular file", S_ISDIR(status.st_mode) ? "a folder" : "something else");
    }
    size_ = static_cast<uint64_t>(status.st_size);
}

BinaryFile::~BinaryFile() {
    close(fd_);
}

void BinaryFile::Fail(const std::string &expected, const std::string &found) const {
    Throw<IoError>("{}: {}: expected {}, found {}", who_, path_, expected, found);
}

void BinaryFile::Read(uint64_t offset, void *to, size_t bytes, const char *what) const {
    if (offset > size_ || bytes > size_ - offset) {
        Fail(fmt::format("{} up to byte {}", what, offset + bytes), fmt::format("a file of {} bytes", size_));
    }
    char *position = static_cast<char *>(to);
    while (bytes > 0) {
        const ssize_t got = pread(fd_, position, std::min(bytes, kMostAtOnce), static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            Fail(what, got < 0 ? std::strerror(errno) : "a file that became shorter");
        }
        position += got;
        offset += static_cast<uint64_t>(got);
        bytes -= static_cast<size_t>(got);
    }
}

void BinaryFile::ReadTensor(uint64_t offset, DataType stored, const TensorPtr &to, const std::string &what) const {
    if (to == nullptr) {
        throw ValueError("BinaryFile::ReadTensor: expected a tensor, got null");
    }
    const bool on_cpu = to->GetDevice() == Device();
    if (to->NumElements() == 0) {
        return;
    }
    const autograd::NoGradGuard no_grad;
    if (on_cpu && to->IsContiguous() && to->Dtype() == stored) {
        Read(offset, to->DataPtr(), to->SizeInBytes(), what.c_str());
        to->storage()->BumpVersion();
        return;
    }
    const auto view = to->NumDims() == 0 ? to->Detach()->Unsqueeze(0) : to->Detach();
    const int64_t rows = view->Dim(0);
    const size_t row_bytes = static_cast<size_t>(view->NumElements() / rows) * SizeOf(stored);
    const int64_t at_once = std::clamp<int64_t>(static_cast<int64_t>(kBufferBytes / row_bytes), 1, rows);
    auto dims = view->Dims();
    dims[0] = at_once;
    const auto buffer = Tensor::Empty(dims, stored);
    for (int64_t row = 0; row < rows; row += at_once) {
        const int64_t count = std::min(at_once, rows - row);
        Read(offset, buffer->DataPtr(), static_cast<size_t>(count) * row_bytes, what.c_str());
        offset += static_cast<uint64_t>(count) * row_bytes;
        view->Narrow(0, row, count)->Copy_(buffer->Narrow(0, 0, count)->To(view->GetDevice()));
    }
}

void WriteFile(const std::string &path, std::string_view content, const std::string &who) {
    NewFile file(path, who.c_str());
    file.Write(content.data(), content.size());
    file.Commit();
}

}  // namespace infini_train::io
