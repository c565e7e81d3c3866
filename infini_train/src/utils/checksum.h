#pragma once

#include <cstdint>
#include <string_view>

namespace infini_train::utils {

/// CRC-32 of Castagnoli's polynomial (RFC 3720, appendix B.4), as TFRecord files have it.
uint32_t Crc32c(std::string_view bytes);

/// CRC-32 of ISO 3309, as PNG has it; `crc` is what an earlier part gave.
uint32_t Crc32(std::string_view bytes, uint32_t crc = 0);

/// Adler-32 (RFC 1950).
uint32_t Adler32(std::string_view bytes);

}  // namespace infini_train::utils
