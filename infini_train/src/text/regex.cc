#include "infini_train/src/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train::text {
namespace {

std::string ErrorText(int code) {
    unsigned char text[256] = "";
    pcre2_get_error_message(code, text, sizeof(text));
    return reinterpret_cast<const char *>(text);
}

std::string WithUnicodeSpaces(const std::string &pattern) {
    std::string result;
    for (size_t i = 0; i < pattern.size(); ++i) {
        const std::string_view pair = std::string_view(pattern).substr(i, 2);
        if (pair == "\\s" || pair == "\\S") {
            result += pair == "\\s" ? "\\p{White_Space}" : "\\P{White_Space}";
            ++i;
        } else {
            result += pattern[i];
            if (pattern[i] == '\\' && i + 1 < pattern.size()) {
                result += pattern[++i];
            }
        }
    }
    return result;
}

}  // namespace

struct Regex::Code {
    ~Code() { pcre2_code_free(code); }
    pcre2_code *code = nullptr;
};

struct Regex::Matcher::Data {
    ~Data() { pcre2_match_data_free(data); }
    pcre2_match_data *data = nullptr;
};

Regex::Regex(std::string pattern) : pattern_(std::move(pattern)), code_(std::make_unique<Code>()) {
    const std::string translated = WithUnicodeSpaces(pattern_);
    int error = 0;
    size_t place = 0;
    code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr);
    if (code_->code == nullptr) {
        Throw<ValueError>("Regex: '{}' is no regular expression: {} at offset {} of '{}'", pattern_, ErrorText(error),
                          place, translated);
    }
    pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // Where there is no compiler, PCRE2 interprets.
}

Regex::~Regex() = default;

Regex::Matcher::Matcher(const Regex &regex) : regex_(regex), data_(std::make_unique<Data>()) {
    data_->data = pcre2_match_data_create(1, nullptr);
    if (data_->data == nullptr) {
        throw OutOfMemoryError("Regex: no memory for a match");
    }
}

Regex::Matcher::~Matcher() = default;

bool Regex::Matcher::Find(std::string_view text, size_t from, Match *match) {
    const auto search = [&](uint32_t options) {
        return pcre2_match(regex_.code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                           options | PCRE2_NO_UTF_CHECK, data_->data, nullptr);
    };
    int result = search(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
        result = search(PCRE2_NO_JIT);
    }
    if (result == PCRE2_ERROR_NOMATCH) {
        return false;
    }
    if (result < 0) {
        Throw<ValueError>("Regex: searching {} bytes for '{}': {}", text.size(), regex_.pattern_, ErrorText(result));
    }
    const size_t *offsets = pcre2_get_ovector_pointer(data_->data);
    *match = {offsets[0], offsets[1]};
    return true;
}

}  // namespace infini_train::text
