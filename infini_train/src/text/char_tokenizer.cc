#include "infini_train/include/text/char_tokenizer.h"

#include <algorithm>
#include <set>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/text/json_reader.h"
#include "infini_train/src/text/tokenizer_file.h"
#include "infini_train/src/text/utf8.h"

namespace infini_train::text {
namespace {

constexpr char kFormat[] = "infini_train.characters";

// A character as a number: its code point, or behind all of them the byte that isn't UTF-8.
constexpr uint32_t kFirstByte = kMaxCodePoint + 1;

struct Character {
    uint32_t number;
    uint32_t length;
};

Character CharacterAt(const char *at, const char *end) {
    const auto [code_point, length] = DecodeUtf8(at, end);
    return length == 0 ? Character{kFirstByte + static_cast<unsigned char>(*at), 1} : Character{code_point, length};
}

std::string TextOf(uint32_t number) {
    std::string text;
    if (number >= kFirstByte) {
        text += static_cast<char>(number - kFirstByte);
    } else {
        AppendUtf8(number, &text);
    }
    return text;
}

class FileHandler : public JsonHandler {
public:
    explicit FileHandler(const std::string &path) : builder_(path) {}
    bool Key(std::string &name) override {
        builder_.Key(name);
        return true;
    }
    bool Scalar(Json value) override {
        builder_.Scalar(std::move(value));
        return true;
    }
    bool Begin(bool is_object) override {
        builder_.Begin(is_object);
        return true;
    }
    bool End() override {
        builder_.End();
        return true;
    }
    Json Take() { return builder_.Take(); }

private:
    JsonBuilder builder_;
};

}  // namespace

/// The id of each character, in pages of 256.
class CharTokenizer::Index {
public:
    // False if it is there already.
    bool Add(uint32_t number, TokenId id) {
        std::vector<TokenId> &page = pages_[number >> 8];
        page.resize(256, -1);
        return page[number & 0xFF] < 0 && (page[number & 0xFF] = id, true);
    }
    // -1: there is none.
    TokenId Find(uint32_t number) const {
        const std::vector<TokenId> &page = pages_[number >> 8];
        return page.empty() ? -1 : page[number & 0xFF];
    }

private:
    std::vector<std::vector<TokenId>> pages_ = std::vector<std::vector<TokenId>>((kFirstByte >> 8) + 1);
};

std::unique_ptr<CharTokenizer> CharTokenizer::FromText(std::string_view text) {
    std::vector<bool> seen(kFirstByte + 256);
    const char *const end = text.data() + text.size();
    for (const char *at = text.data(); at < end;) {
        const auto [number, length] = CharacterAt(at, end);
        seen[number] = true;
        at += length;
    }
    std::vector<std::string> characters;
    for (uint32_t number = 0; number < seen.size(); ++number) {
        if (seen[number]) {
            characters.push_back(TextOf(number));
        }
    }
    return std::make_unique<CharTokenizer>(std::move(characters));
}

std::unique_ptr<CharTokenizer> CharTokenizer::FromFile(const std::string &path) {
    FileHandler handler(path);
    ReadJson(path, &handler);
    const Json file = handler.Take();
    if (!file.is_object() || file.value("format", Json()) != kFormat || file.value("version", Json()) != 1 ||
        !file.contains("characters") || !file["characters"].is_array()) {
        FailToRead(path, fmt::format("format '{}', version 1, and an array of characters", kFormat),
                   file.is_object() ? "another object" : file.type_name());
    }
    std::vector<std::string> characters;
    for (const Json &character : file["characters"]) {
        const bool is_byte = character.is_number_unsigned() && character.get<uint64_t>() < 256;
        if (!is_byte && !character.is_string()) {
            FailToRead(path, "a text or a byte as character", character.dump().substr(0, 40));
        }
        characters.push_back(is_byte ? std::string(1, static_cast<char>(character.get<int>()))
                                     : character.get<std::string>());
    }
    try {
        return std::make_unique<CharTokenizer>(std::move(characters));
    } catch (const ValueError &error) {
        FailToRead(path, "a list of different characters", error.what());
    }
}

CharTokenizer::CharTokenizer(std::vector<std::string> characters) : characters_(std::move(characters)) {
    if (characters_.empty()) {
        throw ValueError("CharTokenizer: expected at least one character, got none");
    }
    auto index = std::make_unique<Index>();
    for (size_t id = 0; id < characters_.size(); ++id) {
        const std::string &text = characters_[id];
        const Character character =
            text.empty() ? Character{0, 0} : CharacterAt(text.data(), text.data() + text.size());
        if (text.empty() || character.length != text.size()) {
            Throw<ValueError>("CharTokenizer: expected one character as number {}, got {}", id, Quote(text));
        }
        if (!index->Add(character.number, static_cast<TokenId>(id))) {
            Throw<ValueError>("CharTokenizer: expected each character once, got {} twice", Quote(text));
        }
    }
    index_ = std::move(index);
}

CharTokenizer::~CharTokenizer() = default;

void CharTokenizer::EncodeTo(std::string_view text, std::vector<TokenId> *ids, SpecialText /*special*/) const {
    const size_t before = ids->size();
    const char *const end = text.data() + text.size();
    ids->reserve(before + text.size());
    for (const char *at = text.data(); at < end;) {
        const auto [number, length] = CharacterAt(at, end);
        const TokenId id = index_->Find(number);
        if (id < 0) {
            ids->resize(before);
            Throw<ValueError>("CharTokenizer: expected one of the vocabulary's {} characters, got {} at byte {}",
                              characters_.size(), Quote({at, length}), at - text.data());
        }
        ids->push_back(id);
        at += length;
    }
}

bool CharTokenizer::AppendToken(TokenId id, bool /*at_start*/, std::string *bytes) const {
    if (id < 0 || id >= vocab_size()) {
        Throw<IndexError>("CharTokenizer: there is no token {}; ids are below {}", id, vocab_size());
    }
    *bytes += characters_[id];
    return false;
}

std::optional<TokenId> CharTokenizer::FindToken(std::string_view bytes) const {
    if (bytes.empty()) {
        return std::nullopt;
    }
    const auto [number, length] = CharacterAt(bytes.data(), bytes.data() + bytes.size());
    const TokenId id = index_->Find(number);
    return id < 0 || length != bytes.size() ? std::nullopt : std::optional<TokenId>(id);
}

void CharTokenizer::Save(const std::string &path) const {
    Json characters = Json::array();
    for (const std::string &text : characters_) {
        const bool is_text = CharacterAt(text.data(), text.data() + text.size()).number < kFirstByte;
        characters.push_back(is_text ? Json(text) : Json(static_cast<unsigned char>(text[0])));
    }
    WriteTokenizerFile(
        path, fmt::format("{{\"format\": \"{}\", \"version\": 1, \"characters\": {}}}\n", kFormat, characters.dump()));
}

}  // namespace infini_train::text
