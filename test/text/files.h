#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/text/tokenizer.h"

#include "test/support/tensors.h"

/// What the tests of text/ share. They run in the repository's root.
namespace infini_train::text {

using test::Contains;
using test::Thrown;
using Ids = std::vector<TokenId>;

inline std::string Slurp(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The texts with the ids that other implementations give.
inline const nlohmann::json &Fixture() {
    static const auto fixture = nlohmann::json::parse(Slurp("test/fixtures/tokenizers.json"));
    return fixture;
}

/// The project's shared data, or "" with a message where there is none.
inline std::string SharedData(const std::string &name) {
    const std::string path = "../shared/data/" + name;
    return std::filesystem::exists(path) ? path : "";
}
#define INFINI_TRAIN_NEEDS_SHARED(path)                                              \
    if ((path).empty()) {                                                            \
        GTEST_SKIP() << "../shared/data is not there: this comparison was NOT made"; \
    }

/// A folder of its own for each test.
class TextFiles : public ::testing::Test {
protected:
    void SetUp() override { std::filesystem::create_directories(folder_); }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string Path(const std::string &name) const { return folder_ / name; }
    std::string Write(const std::string &name, const std::string &content) const {
        std::ofstream(Path(name), std::ios::binary) << content;
        return Path(name);
    }
    /// The IoError of LoadTokenizer, or "".
    std::string Refusal(const std::string &name, const std::string &content) const {
        const std::string path = Write(name, content);
        return Thrown<IoError>([&] { LoadTokenizer(path); });
    }
    std::unique_ptr<Tokenizer> Gpt2Like() const {
        return LoadTokenizer(Write("gpt2.json", Fixture()["gpt2_like"]["tokenizer"].dump()));
    }
    std::unique_ptr<Tokenizer> Llama3Like() const {
        return LoadTokenizer(Write("llama3.json", Fixture()["llama3_like"]["tokenizer"].dump()));
    }
    std::string Llama2Bytes() const {
        const auto hex = Fixture()["llama2_like"]["tokenizer_bin"].get<std::string>();
        std::string bytes;
        for (size_t i = 0; i < hex.size(); i += 2) {
            bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
        }
        return bytes;
    }

private:
    const std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                          (std::string("infini_train_text_") +
                                           ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() +
                                           "_" + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

/// Text that finds the corners: letters, digits, spaces and marks of many scripts, contractions, and bytes that are
/// none.
inline std::string RandomText(std::mt19937 *random, size_t parts, bool with_invalid) {
    static const std::vector<std::string> kParts = {"a",
                                                    "Z",
                                                    "the",
                                                    "'",
                                                    "'s",
                                                    "'t",
                                                    "'re",
                                                    "'ve",
                                                    "'m",
                                                    "'ll",
                                                    "'d",
                                                    "'r",
                                                    "'l",
                                                    " ",
                                                    " ",
                                                    " ",
                                                    "  ",
                                                    "\n",
                                                    "\t",
                                                    "\r\n",
                                                    "\v",
                                                    "0",
                                                    "12",
                                                    ".",
                                                    "!?",
                                                    "_",
                                                    "\x1c",
                                                    "\x7f",
                                                    std::string(1, '\0'),
                                                    "é",
                                                    "ß",
                                                    "н",
                                                    "我",
                                                    "が",
                                                    "٣",
                                                    "Ⅷ",
                                                    "½",
                                                    "\u00a0",
                                                    "\u3000",
                                                    "\u2009",
                                                    "\u2028",
                                                    "\u180e",
                                                    "\u0085",
                                                    "\u200d",
                                                    "\ufeff",
                                                    "😀",
                                                    "𝒜",
                                                    "𝟘",
                                                    "\u0301",
                                                    "€",
                                                    "\U0010FFFF",
                                                    "<s>",
                                                    "<|endoftext|>"};
    static const std::vector<std::string> kInvalid = {
        "\x80",     "\xBF", "\xC3", "\xE2\x82",     "\xF0\x9F\x98",    "\xED\xA0\x80",
        "\xC0\xAF", "\xF5", "\xFF", "\xE0\x80\x80", "\xF4\x90\x80\x80"};
    std::string text;
    for (size_t i = 0; i < parts; ++i) {
        const uint32_t choice = (*random)();
        if (with_invalid && choice % 16 == 0) {
            text += kInvalid[(*random)() % kInvalid.size()];
        } else {
            text += kParts[(*random)() % kParts.size()];
        }
    }
    return text;
}

}  // namespace infini_train::text
