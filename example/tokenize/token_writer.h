#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "infini_train/include/text/tokenizer.h"

namespace infini_train::example {

/// "llmc", "uint16" or "uint32".
bool TakesId(const std::string &format, int64_t id);

/// Writes a file of tokens, little-endian, which appears under its name when it is complete:
///   - "llmc": llm.c's 256 int32 (the magic 20240520, version 1, the number of tokens, zeros), then uint16;
///   - "uint16", "uint32": nothing but the tokens.
/// Throws ValueError for an id that the format can't hold or too many tokens for llm.c's header, IoError with the
/// system's reason.
void WriteTokens(const std::string &path, std::span<const text::TokenId> ids, const std::string &format);

}  // namespace infini_train::example
