#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace infini_train::text {

/// Throws IoError: `LoadTokenizer: <path>: expected ..., found ...`.
[[noreturn]] void FailToRead(const std::string &path, const std::string &expected, const std::string &found);

/// A few bytes of a file, for an error message.
std::string Quote(std::string_view text);

/// A tokenizer's file, read in small pieces. Its functions throw IoError.
class TokenizerFile {
public:
    explicit TokenizerFile(const std::string &path);

    const std::string &path() const { return path_; }
    uint64_t size() const { return size_; }

    /// Up to `capacity` bytes; 0 at the end.
    size_t Read(char *to, size_t capacity);

    /// Exactly that many, of what `what` names.
    void ReadExactly(char *to, size_t bytes, const char *what);

    /// The next line without its end; false at the end of the file.
    bool ReadLine(std::string *line);

private:
    std::string path_;
    std::ifstream file_;
    uint64_t size_ = 0;
    std::vector<char> buffer_;
    size_t position_ = 0;
    size_t filled_ = 0;
};

/// Writes a file, which appears under its name when it is complete. Throws IoError.
void WriteTokenizerFile(const std::string &path, std::string_view content);

}  // namespace infini_train::text
