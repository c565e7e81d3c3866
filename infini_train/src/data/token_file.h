#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "infini_train/include/data/token_dataset.h"

namespace infini_train {

/// Tokens of a mapped file, or a copy in memory.
class TokenFile {
public:
    /// Throws IoError for a file that can't be read or isn't what `format` says.
    TokenFile(const std::string &path, TokenFormat format);
    explicit TokenFile(const std::vector<int32_t> &tokens);
    ~TokenFile();
    TokenFile(const TokenFile &) = delete;
    TokenFile &operator=(const TokenFile &) = delete;

    /// For messages.
    const std::string &name() const { return name_; }
    uint64_t size() const { return size_; }
    bool is_wide() const { return wide_; }
    /// uint32 if wide, otherwise uint16; aligned to those.
    const void *tokens() const { return tokens_; }

private:
    [[noreturn]] void Fail(const std::string &expected, const std::string &found) const;
    void Map();
    void Unmap();
    size_t CheckHeader();

    const std::string name_;
    std::vector<uint32_t> copy_;
    void *mapping_ = nullptr;
    size_t bytes_ = 0;
    const void *tokens_ = nullptr;
    uint64_t size_ = 0;
    bool wide_ = true;
};

/// The paths, patterns replaced by what they match; IoError for a pattern without matches.
std::vector<std::string> ExpandPatterns(const std::vector<std::string> &patterns);

}  // namespace infini_train
