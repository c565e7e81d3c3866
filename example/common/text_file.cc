#include "example/common/text_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {
namespace {

bool BeginsCharacter(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

}  // namespace

std::string ReadTextFile(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::string content;
    constexpr size_t kPiece = size_t{1} << 20;
    // In pieces, since a pipe has no size.
    while (file) {
        const size_t begin = content.size();
        content.resize(begin + kPiece);
        file.read(content.data() + begin, kPiece);
        content.resize(begin + static_cast<size_t>(file.gcount()));
    }
    if (!file.eof()) {
        throw IoError(fmt::format("{}: can't be read: {}", path, std::strerror(errno)));
    }
    return content;
}

size_t ValidationBegin(std::string_view text, double fraction) {
    const auto characters = static_cast<double>(std::count_if(text.begin(), text.end(), BeginsCharacter));
    auto train = static_cast<int64_t>(characters * (1 - fraction));
    size_t at = 0;
    while (at < text.size() && (train > 0 || !BeginsCharacter(text[at]))) {
        train -= BeginsCharacter(text[at]) ? 1 : 0;
        ++at;
    }
    return at;
}

}  // namespace infini_train::example
