#include "infini_train/src/text/tokenizer_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/io/new_file.h"

namespace infini_train::text {
namespace {

constexpr size_t kChunk = size_t{1} << 16;
constexpr size_t kMaxLine = size_t{1} << 20;

}  // namespace

void FailToRead(const std::string &path, const std::string &expected, const std::string &found) {
    Throw<IoError>("LoadTokenizer: {}: expected {}, found {}", path, expected, found);
}

std::string Quote(std::string_view text) {
    constexpr size_t kShown = 40;
    std::string quoted = "'";
    for (const char c : text.substr(0, kShown)) {
        const auto byte = static_cast<unsigned char>(c);
        quoted += byte < 0x20 || byte == 0x7F ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
    }
    return quoted + (text.size() > kShown ? "...'" : "'");
}

TokenizerFile::TokenizerFile(const std::string &path) : path_(path), file_(path, std::ios::binary), buffer_(kChunk) {
    std::error_code error;
    if (!file_ || std::filesystem::is_directory(path, error)) {
        FailToRead(path_, "a readable file", file_ ? "a folder" : std::strerror(errno));
    }
    file_.seekg(0, std::ios::end);
    size_ = static_cast<uint64_t>(std::max<std::streamoff>(file_.tellg(), 0));
    file_.clear();
    file_.seekg(0);
    file_.clear();  // A pipe can't seek; it is read as it comes.
}

size_t TokenizerFile::Read(char *to, size_t capacity) {
    if (position_ == filled_) {
        file_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
        if (file_.bad()) {
            FailToRead(path_, "a readable file", "a read error");
        }
        position_ = 0;
        filled_ = static_cast<size_t>(file_.gcount());
    }
    const size_t count = std::min(capacity, filled_ - position_);
    std::copy_n(buffer_.data() + position_, count, to);
    position_ += count;
    return count;
}

void TokenizerFile::ReadExactly(char *to, size_t bytes, const char *what) {
    for (size_t done = 0; done < bytes;) {
        const size_t count = Read(to + done, bytes - done);
        if (count == 0) {
            FailToRead(path_, fmt::format("{} bytes for {}", bytes, what),
                       fmt::format("the file's end after {}", done));
        }
        done += count;
    }
}

bool TokenizerFile::ReadLine(std::string *line) {
    line->clear();
    for (char c = 0; Read(&c, 1) == 1;) {
        if (c == '\n') {
            return true;
        }
        if (line->size() == kMaxLine) {
            FailToRead(path_, fmt::format("lines of at most {} bytes", kMaxLine), "a longer one");
        }
        line->push_back(c);
    }
    return !line->empty();
}

void WriteTokenizerFile(const std::string &path, std::string_view content) {
    io::NewFile file(path, "Tokenizer::Save");
    file.Write(content.data(), content.size());
    file.Commit();
}

}  // namespace infini_train::text
