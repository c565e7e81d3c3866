#include "infini_train/src/data/token_file.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <glob.h>
#include <limits>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/io/new_file.h"

// llm.c's format: dev/data/data_common.py and llmc/dataloader.h of https://github.com/karpathy/llm.c

namespace infini_train {
namespace {

static_assert(std::endian::native == std::endian::little, "big-endian machines would need to swap bytes here");

constexpr size_t kHeaderNumbers = 256;
constexpr size_t kHeaderBytes = kHeaderNumbers * sizeof(int32_t);
constexpr int32_t kMagic16 = 20240520;
constexpr int32_t kVersion16 = 1;
constexpr int32_t kMagic32 = 20240801;
constexpr int32_t kVersion32 = 7;

}  // namespace

TokenFile::TokenFile(const std::string &path, TokenFormat format) : name_(path) {
    Map();
    try {
        const size_t header = format == TokenFormat::kLlmC ? CheckHeader() : 0;
        if (format != TokenFormat::kLlmC) {
            wide_ = format == TokenFormat::kUint32;
            const size_t token = wide_ ? sizeof(uint32_t) : sizeof(uint16_t);
            if (bytes_ == 0 || bytes_ % token != 0) {
                Fail(fmt::format("tokens of {} bytes each", token), fmt::format("{} bytes", bytes_));
            }
            size_ = bytes_ / token;
        }
        tokens_ = static_cast<const char *>(mapping_) + header;
    } catch (...) {
        Unmap();
        throw;
    }
}

TokenFile::TokenFile(const std::vector<int32_t> &tokens) : name_("tokens"), size_(tokens.size()) {
    copy_.reserve(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] < 0) {
            Throw<ValueError>("TokenDataset: expected ids >= 0, got {} at token {}", tokens[i], i);
        }
        copy_.push_back(static_cast<uint32_t>(tokens[i]));
    }
    tokens_ = copy_.data();
}

TokenFile::~TokenFile() {
    Unmap();
}

void TokenFile::Fail(const std::string &expected, const std::string &found) const {
    Throw<IoError>("TokenDataset: {}: expected {}, found {}", name_, expected, found);
}

void TokenFile::Map() {
    const int fd = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        Fail("a readable file", std::strerror(errno));
    }
    const std::unique_ptr<const int, void (*)(const int *)> closer(&fd, [](const int *open) { ::close(*open); });
    struct stat info = {};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        Fail("a file", "something else");
    }
    bytes_ = static_cast<size_t>(info.st_size);
    if (bytes_ > 0) {
        void *mapping = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
        if (mapping == MAP_FAILED) {
            Fail("a file that can be mapped", std::strerror(errno));
        }
        mapping_ = mapping;
    }
}

void TokenFile::Unmap() {
    if (mapping_ != nullptr) {
        ::munmap(mapping_, bytes_);
        mapping_ = nullptr;
    }
}

// Sets the size and the kind of tokens; gives the bytes before them.
size_t TokenFile::CheckHeader() {
    if (bytes_ < kHeaderBytes) {
        Fail(fmt::format("a header of {} bytes", kHeaderBytes), fmt::format("{} bytes", bytes_));
    }
    int32_t header[3];
    std::memcpy(header, mapping_, sizeof(header));
    const auto [magic, version, count] = header;
    if (magic != kMagic16 && magic != kMagic32) {
        Fail(fmt::format("the magic number {} or {}", kMagic16, kMagic32), std::to_string(magic));
    }
    wide_ = magic == kMagic32;
    const int32_t known_version = wide_ ? kVersion32 : kVersion16;
    if (version != known_version) {
        Fail(fmt::format("version {}", known_version), std::to_string(version));
    }
    const size_t token = wide_ ? sizeof(uint32_t) : sizeof(uint16_t);
    const size_t data = bytes_ - kHeaderBytes;
    if (data % token != 0) {
        Fail(fmt::format("tokens of {} bytes each behind the header", token), fmt::format("{} bytes", data));
    }
    if (count < 0 || static_cast<size_t>(count) != data / token) {
        Fail(fmt::format("the {} tokens that the header counts", count), fmt::format("{}", data / token));
    }
    size_ = data / token;
    return kHeaderBytes;
}

std::vector<std::string> ExpandPatterns(const std::vector<std::string> &patterns) {
    std::vector<std::string> paths;
    for (const std::string &pattern : patterns) {
        if (pattern.find_first_of("*?[") == std::string::npos || ::access(pattern.c_str(), F_OK) == 0) {
            paths.push_back(pattern);
            continue;
        }
        glob_t found = {};
        const int status = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
        const std::unique_ptr<glob_t, void (*)(glob_t *)> freer(&found, [](glob_t *g) { ::globfree(g); });
        if (status != 0 || found.gl_pathc == 0) {
            Throw<IoError>("TokenDataset: expected files that match {}, found none", pattern);
        }
        paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    return paths;
}

void WriteTokenFile(const std::string &path, const std::vector<int32_t> &tokens, TokenFormat format) {
    constexpr int32_t kMax16 = std::numeric_limits<uint16_t>::max();
    bool fits16 = true;
    for (size_t i = 0; i < tokens.size(); ++i) {
        fits16 = fits16 && tokens[i] <= kMax16;
        if (tokens[i] < 0 || (format == TokenFormat::kUint16 && tokens[i] > kMax16)) {
            Throw<ValueError>("WriteTokenFile: expected ids from 0 to {}, got {} at token {}",
                              format == TokenFormat::kUint16 ? kMax16 : std::numeric_limits<int32_t>::max(), tokens[i],
                              i);
        }
    }
    const bool wide = format == TokenFormat::kUint32 || (format == TokenFormat::kLlmC && !fits16);
    io::NewFile file(path, "WriteTokenFile");
    if (format == TokenFormat::kLlmC) {
        if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
            Throw<ValueError>("WriteTokenFile: expected at most 2147483647 tokens for one file, got {}", tokens.size());
        }
        std::vector<int32_t> header(kHeaderNumbers);
        header[0] = wide ? kMagic32 : kMagic16;
        header[1] = wide ? kVersion32 : kVersion16;
        header[2] = static_cast<int32_t>(tokens.size());
        file.Write(header.data(), kHeaderBytes);
    }
    if (wide) {
        file.Write(tokens.data(), tokens.size() * sizeof(uint32_t));
    } else {
        const std::vector<uint16_t> narrow(tokens.begin(), tokens.end());
        file.Write(narrow.data(), narrow.size() * sizeof(uint16_t));
    }
    file.Commit();
}

}  // namespace infini_train
