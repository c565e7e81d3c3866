#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace infini_train::text {

/// GPT-2's files write each byte as a visible character: the printable ones of Latin-1 as themselves, the others, in
/// their order, as U+0100 and on. A space is U+0120, "Ġ".

/// The character of `byte`.
uint32_t CharacterOfByte(unsigned char byte);

/// The byte that is `place` in the order of the characters, which is the id that GPT-2 gives it.
unsigned char ByteAtPlace(int place);

/// Bytes as their characters in UTF-8.
std::string BytesToCharacters(std::string_view bytes);

/// Writes the bytes of `characters` to `bytes` (one that holds as much may be the same memory) and returns their
/// number, or -1 if there is a character that stands for none.
int64_t CharactersToBytes(std::string_view characters, char *bytes);

}  // namespace infini_train::text
