#include "example/tokenize/token_writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {
namespace {

static_assert(std::endian::native == std::endian::little, "big-endian machines would need to swap bytes here");

template <typename T>
void WriteAs(std::span<const text::TokenId> ids, std::ofstream *file) {
    constexpr size_t kChunk = size_t{1} << 16;
    std::vector<T> chunk;
    for (size_t at = 0; at < ids.size(); at += chunk.size()) {
        const auto part = ids.subspan(at, std::min(kChunk, ids.size() - at));
        chunk.assign(part.begin(), part.end());
        file->write(reinterpret_cast<const char *>(chunk.data()),
                    static_cast<std::streamsize>(chunk.size() * sizeof(T)));
    }
}

void WriteHeader(size_t count, std::ofstream *file) {
    std::array<int32_t, 256> header{};
    header[0] = 20240520;
    header[1] = 1;
    header[2] = static_cast<int32_t>(count);
    file->write(reinterpret_cast<const char *>(header.data()), sizeof(header));
}

}  // namespace

bool TakesId(const std::string &format, int64_t id) {
    return id >= 0 && (format == "uint32" || id <= std::numeric_limits<uint16_t>::max());
}

void WriteTokens(const std::string &path, std::span<const text::TokenId> ids, const std::string &format) {
    const auto bad = std::find_if(ids.begin(), ids.end(), [&](text::TokenId id) { return !TakesId(format, id); });
    if (bad != ids.end()) {
        throw ValueError(
            fmt::format("{}: expected ids that {} can hold, got {}; --format uint32 takes all", path, format, *bad));
    }
    if (format == "llmc" && ids.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
        throw ValueError(fmt::format("{}: expected at most {} tokens in llm.c's format, got {}", path,
                                     std::numeric_limits<int32_t>::max(), ids.size()));
    }
    const std::string temporary = path + ".tmp";
    std::ofstream file(temporary, std::ios::binary);
    if (format == "llmc") {
        WriteHeader(ids.size(), &file);
    }
    if (format == "uint32") {
        WriteAs<uint32_t>(ids, &file);
    } else {
        WriteAs<uint16_t>(ids, &file);
    }
    file.close();
    if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
        const std::string reason = std::strerror(errno);
        std::error_code ignored;
        std::filesystem::remove(temporary, ignored);
        throw IoError(fmt::format("{}: can't be written: {}", path, reason));
    }
}

}  // namespace infini_train::example
