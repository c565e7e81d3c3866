#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace infini_train::example {

/// All bytes of a file. Throws IoError with the path and the system's reason.
std::string ReadTextFile(const std::string &path);

/// Where in a UTF-8 text the last `fraction` (0 to 1) of its characters begins, in bytes.
size_t ValidationBegin(std::string_view text, double fraction);

}  // namespace infini_train::example
