#include "example/mnist/byte_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>

#include <zlib.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {

namespace {

// Deflate can't pack more tightly than this, see zlib's technical notes.
constexpr int64_t kMaxDeflateRatio = 1032;
constexpr int kGzipWindowBits = 15 + 16;

std::string ErrnoText() {
    return std::strerror(errno);
}

}  // namespace

struct ByteSource::State {
    std::string path;
    std::FILE *file = nullptr;
    int64_t file_bytes = 0;
    bool is_gzip = false;
    bool inflating = false;
    bool at_end = false;
    z_stream stream = {};
    std::array<uint8_t, 1 << 16> input = {};

    ~State() {
        if (inflating) {
            inflateEnd(&stream);
        }
        if (file != nullptr) {
            std::fclose(file);
        }
    }

    void Open();
    int64_t ReadFile(uint8_t *out, int64_t size);
    bool Refill();
    int64_t Inflate(uint8_t *out, int64_t size);
    void EndMember();
};

void ByteSource::State::Open() {
    file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) {
        throw IoError("ByteSource: can't open '" + path + "': " + ErrnoText());
    }
    struct stat info = {};
    if (fstat(fileno(file), &info) != 0) {
        throw IoError("ByteSource: can't examine '" + path + "': " + ErrnoText());
    }
    if (!S_ISREG(info.st_mode)) {
        throw IoError("ByteSource: expected a regular file at '" + path + "', got " +
                      (S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe"));
    }
    file_bytes = info.st_size;
    std::array<uint8_t, 2> start = {};
    is_gzip = ReadFile(start.data(), 2) == 2 && start[0] == 0x1f && start[1] == 0x8b;
    std::rewind(file);
    if (is_gzip) {
        if (inflateInit2(&stream, kGzipWindowBits) != Z_OK) {
            throw OutOfMemoryError("ByteSource: no memory to unpack '" + path + "'");
        }
        inflating = true;
    }
}

int64_t ByteSource::State::ReadFile(uint8_t *out, int64_t size) {
    const size_t got = std::fread(out, 1, static_cast<size_t>(size), file);
    if (std::ferror(file) != 0) {
        throw IoError("ByteSource: can't read '" + path + "': " + ErrnoText());
    }
    return static_cast<int64_t>(got);
}

// Makes sure that there is input; false at the end of the file.
bool ByteSource::State::Refill() {
    if (stream.avail_in == 0) {
        stream.next_in = input.data();
        stream.avail_in = static_cast<uInt>(ReadFile(input.data(), static_cast<int64_t>(input.size())));
    }
    return stream.avail_in > 0;
}

// A gzip file may hold several members one after another; anything else behind a member is damage.
void ByteSource::State::EndMember() {
    if (!Refill()) {
        at_end = true;
        return;
    }
    if (stream.next_in[0] != 0x1f) {
        throw IoError("ByteSource: expected '" + path + "' to end after its gzip data, got more bytes behind it");
    }
    inflateReset(&stream);
}

int64_t ByteSource::State::Inflate(uint8_t *out, int64_t size) {
    constexpr int64_t kMaxStep = 1 << 30;
    int64_t done = 0;
    while (done < size && !at_end) {
        if (!Refill()) {
            throw IoError("ByteSource: expected the rest of the gzip data in '" + path +
                          "', got the end of the file after " + std::to_string(file_bytes) +
                          " bytes; it was cut short");
        }
        const int64_t step = std::min(size - done, kMaxStep);
        stream.next_out = out + done;
        stream.avail_out = static_cast<uInt>(step);
        const int status = inflate(&stream, Z_NO_FLUSH);
        done += step - stream.avail_out;
        if (status == Z_STREAM_END) {
            EndMember();
        } else if (status == Z_MEM_ERROR) {
            throw OutOfMemoryError("ByteSource: no memory to unpack '" + path + "'");
        } else if (status != Z_OK && status != Z_BUF_ERROR) {
            throw IoError("ByteSource: expected sound gzip data in '" + path + "', got damage (" +
                          (stream.msg != nullptr ? stream.msg : "unknown") + ")");
        }
    }
    return done;
}

ByteSource::ByteSource(const std::string &path) : state_(std::make_unique<State>()) {
    state_->path = path;
    state_->Open();
}

ByteSource::~ByteSource() = default;

int64_t ByteSource::Read(uint8_t *out, int64_t size) {
    return state_->is_gzip ? state_->Inflate(out, size) : state_->ReadFile(out, size);
}

int64_t ByteSource::MaxBytes() const {
    return state_->is_gzip ? state_->file_bytes * kMaxDeflateRatio : state_->file_bytes;
}

int64_t ByteSource::file_bytes() const {
    return state_->file_bytes;
}

bool ByteSource::is_gzip() const {
    return state_->is_gzip;
}

}  // namespace infini_train::example
