// What a tokenizer's file can get wrong, and that noticing it takes little memory.
#include <cstring>
#include <functional>
#include <limits>

#include "infini_train/include/text/llama_tokenizer.h"

#include "infini_train/src/text/byte_alphabet.h"
#include "test/support/peak_memory.h"
#include "test/text/files.h"

namespace infini_train::text {
namespace {

using test::PeakMemory;
using test::ResetPeakMemory;

class Malformed : public TextFiles {
protected:
    // A tokenizer.json with this model and these other parts.
    std::string File(const std::string &model, const std::string &more = "") const {
        return R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)" + more + R"("model":{)" + model +
               "}}";
    }
    std::string RefusalOf(const std::string &model, const std::string &more = "") const {
        return Refusal("t.json", File(model, more));
    }
    std::string Unsupported(const std::string &content) const {
        const std::string path = Write("t.json", content);
        return Thrown<NotImplementedError>([&] { LoadTokenizer(path); });
    }

    // GPT-2's pair of files: 256 bytes, two merges, a special token.
    nlohmann::json Encoder() const {
        nlohmann::json encoder;
        for (int id = 0; id < 256; ++id) {
            encoder[BytesToCharacters(std::string(1, static_cast<char>(ByteAtPlace(id))))] = id;
        }
        encoder["th"] = 256;
        encoder["the"] = 257;
        encoder["<|endoftext|>"] = 258;
        return encoder;
    }
    std::string PairRefusal(const std::string &encoder, const std::string &merges) const {
        Write("vocab.bpe", merges);
        return Refusal("encoder.json", encoder);
    }

    static constexpr char kVocab[] = R"("vocab":{"a":0,"b":1,"ab":2})";
};

#define EXPECT_CONTAINS(text, part) EXPECT_TRUE(Contains(text, part)) << text

TEST_F(Malformed, FilesThatAreNoTokenizer) {
    EXPECT_CONTAINS(Thrown<IoError>([&] { LoadTokenizer(Path("missing.json")); }), "No such file");
    EXPECT_CONTAINS(Thrown<IoError>([&] { LoadTokenizer(Path("")); }), "in this folder, found none");
    for (const char *content : {"", " ", "hello", "[1]", "{", "{}", "{\"a\":", "\x01\x02", "{\"model\":5}",
                                "{\"model\":{}}", "{\"model\":[]}", "null", "#version: 0.2\n"}) {
        EXPECT_FALSE(Refusal("t.json", content).empty()) << content;
    }
}

TEST_F(Malformed, AnyCutOfATokenizerJson) {
    const std::string whole = Fixture()["gpt2_like"]["tokenizer"].dump();
    for (size_t size = 0; size < whole.size(); size += 1 + size / 50) {
        EXPECT_FALSE(Refusal("t.json", whole.substr(0, size)).empty()) << size;
    }
    EXPECT_CONTAINS(Refusal("t.json", whole.substr(0, whole.size() - 1)), "expected JSON");
    EXPECT_CONTAINS(Refusal("t.json", whole + "x"), "expected JSON");
}

TEST_F(Malformed, Vocabularies) {
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":0,"a":1},"merges":[])"), "a token that is there twice: 'a' with id 1");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":0,"b":0},"merges":[])"), "an id that another token has");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":-1},"merges":[])"), "whole number");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":1.5},"merges":[])"), "whole number");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":"0"},"merges":[])"), "whole number");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":{"b":0}},"merges":[])"), "whole number");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":1099511627776},"merges":[])"), "out of range");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":18446744073709551615},"merges":[])"), "out of range");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":["a"],"merges":[])"), "an object as 'model.vocab'");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":3,"merges":[])"), "an object as 'model.vocab'");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"\u65e5":0},"merges":[])"), "256 characters");
    EXPECT_CONTAINS(RefusalOf(R"("merges":[])"), "no 'vocab'");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":0})"), "no 'merges'");
    EXPECT_CONTAINS(RefusalOf(R"("vocab":{"a":0},"vocab":{"b":0},"merges":[])"), "'model.vocab' twice");
}

TEST_F(Malformed, Merges) {
    const auto with = [&](const std::string &merges) {
        return RefusalOf(std::string(kVocab) + R"(,"merges":)" + merges);
    };
    EXPECT_EQ(with(R"(["a b"])"), "");
    EXPECT_CONTAINS(with(R"(["a b","a b"])"), "that of 'a' and 'b' twice");
    EXPECT_CONTAINS(with(R"(["a c"])"), "'ac', which isn't");
    EXPECT_CONTAINS(with(R"(["b a"])"), "the result of merge 0");
    EXPECT_CONTAINS(with(R"(["ab"])"), "a space between them");
    EXPECT_CONTAINS(with(R"(["a b c"])"), "a space between them");
    EXPECT_CONTAINS(with(R"([["a"]])"), "two tokens");
    EXPECT_CONTAINS(with(R"([["a","b","c"]])"), "two tokens");
    EXPECT_CONTAINS(with(R"([["a",["b"]]])"), "two tokens");
    EXPECT_CONTAINS(with(R"([{"a":"b"}])"), "two tokens");
    EXPECT_CONTAINS(with(R"([5])"), "texts as merges");
    EXPECT_CONTAINS(with(R"({"a":"b"})"), "an array as 'model.merges'");
    EXPECT_CONTAINS(with(R"("a b")"), "'model.merges'");
}

TEST_F(Malformed, AddedTokens) {
    const std::string model = std::string(kVocab) + R"(,"merges":["a b"])";
    const auto with = [&](const std::string &added) { return RefusalOf(model, R"("added_tokens":)" + added + ","); };
    EXPECT_EQ(with(R"([{"id":3,"content":"<s>","special":true}])"), "");
    EXPECT_CONTAINS(with(R"([{"id":3,"content":"<s>"},{"id":3,"content":"<t>"}])"), "each added token and its id once");
    EXPECT_CONTAINS(with(R"([{"id":3,"content":"<s>"},{"id":4,"content":"<s>"}])"), "each added token and its id once");
    EXPECT_CONTAINS(with(R"([{"id":1,"content":"<s>"}])"), "agrees with the vocabulary");
    EXPECT_CONTAINS(with(R"([{"id":3,"content":"ab"}])"), "agrees with the vocabulary");
    EXPECT_CONTAINS(with(R"([{"id":4294967296,"content":"<s>"}])"), "an id below");
    EXPECT_CONTAINS(with(R"([{"id":3,"content":""}])"), "an added token with a content");
    EXPECT_CONTAINS(with(R"([{"id":3,"content":5}])"), "a text as 'content'");
    EXPECT_CONTAINS(with(R"([{"id":3,"id":4,"content":"<s>"}])"), "'id' twice");
    EXPECT_CONTAINS(with(R"([5])"), "an object with 'id'");
    EXPECT_CONTAINS(with(R"({})"), "an array as 'added_tokens'");
}

TEST_F(Malformed, WhatIsNotSupportedIsNamed) {
    const std::string model = std::string(kVocab) + R"(,"merges":["a b"])";
    EXPECT_CONTAINS(Unsupported(File(model + R"(,"type":"WordPiece")")),
                    "model of this type isn't supported: \"WordPiece\"");
    EXPECT_CONTAINS(Unsupported(File(model + R"(,"byte_fallback":true)")), "byte_fallback");
    EXPECT_CONTAINS(Unsupported(File(model + R"(,"dropout":0.1)")), "dropout");
    EXPECT_CONTAINS(Unsupported(File(model + R"(,"end_of_word_suffix":"</w>")")), "end_of_word_suffix");
    EXPECT_CONTAINS(Unsupported(File(model, R"("normalizer":{"type":"NFC"},)")), "a normalizer");
    EXPECT_CONTAINS(Unsupported(File(model, R"("added_tokens":[{"id":3,"content":"<s>","lstrip":true}],)")), "lstrip");
    for (const char *pre : {"null", R"({"type":"Whitespace"})", R"({"type":"Digits","individual_digits":true})",
                            R"({"type":"Split","pattern":{"String":"x"},"behavior":"MergedWithNext"})"}) {
        EXPECT_FALSE(Unsupported(R"({"pre_tokenizer":)" + std::string(pre) + R"(,"model":{)" + model + "}}").empty())
            << pre;
    }
    EXPECT_CONTAINS(
        Refusal("t.json", R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"a("},"behavior":"Isolated"},)"
                          R"("model":{)" +
                              model + "}}"),
        "a regular expression");
    EXPECT_CONTAINS(Refusal("t.json", R"({"pre_tokenizer":{"type":5},"model":{)" + model + "}}"), "a text as 'type'");
}

TEST_F(Malformed, Gpt2Files) {
    const std::string encoder = Encoder().dump();
    EXPECT_EQ(PairRefusal(encoder, "#version: 0.2\nt h\nth e\n"), "");
    EXPECT_EQ(PairRefusal(encoder, "t h\nth e"), "");
    EXPECT_EQ(LoadTokenizer(Path("encoder.json"))->Encode("the<|endoftext|>", SpecialText::kRecognise),
              (Ids{257, 258}));

    EXPECT_CONTAINS(PairRefusal(encoder, "#version: 0.2\nt h\n"), "a merge that makes token 'the', id 257");
    EXPECT_CONTAINS(PairRefusal(encoder, "t h\nth "), "a space between them on line 2");
    EXPECT_CONTAINS(PairRefusal(encoder, "t h\nth"), "a space between them on line 2");
    EXPECT_CONTAINS(PairRefusal(encoder, "t h\n\nth e\n"), "on line 2");
    EXPECT_CONTAINS(PairRefusal(encoder, "t h\nth e\nt h\n"), "'t' and 'h' twice");
    EXPECT_CONTAINS(PairRefusal(encoder, "t h\nth e\nth i\n"), "'thi', which isn't");
    EXPECT_CONTAINS(PairRefusal(encoder, std::string(2 << 20, 'x')), "lines of at most");
    EXPECT_CONTAINS(PairRefusal(encoder.substr(0, encoder.size() / 2), "t h\nth e\n"), "expected JSON");
    EXPECT_CONTAINS(PairRefusal(encoder.substr(0, encoder.size() - 1) + R"(,"th":300})", "t h\nth e\n"), "twice");
    auto incomplete = Encoder();
    incomplete.erase("!");
    EXPECT_CONTAINS(PairRefusal(incomplete.dump(), "t h\nth e\n"), "a token for each byte, '!'");
    std::filesystem::remove(Path("vocab.bpe"));
    EXPECT_CONTAINS(Refusal("encoder.json", encoder), "vocab.bpe or merges.txt beside it");
}

TEST_F(Malformed, TokenizerBin) {
    const std::string whole = Llama2Bytes();
    ASSERT_EQ(Refusal("t.bin", whole), "");
    for (size_t size = 0; size < whole.size(); size += size < 200 ? 1 : 13) {
        const std::string path = Write("t.bin", whole.substr(0, size));
        EXPECT_FALSE(Thrown<IoError>([&] { LlamaTokenizer::FromFile(path, 340); }).empty()) << size;
    }
    const auto with = [&](size_t at, const auto &value) {
        std::string bytes = whole;
        std::memcpy(&bytes[at], &value, sizeof(value));
        return Refusal("t.bin", bytes);
    };
    EXPECT_CONTAINS(with(0, int32_t{-1}), "longest length");
    EXPECT_CONTAINS(with(0, INT32_MAX), "longest length");
    EXPECT_CONTAINS(with(0, int32_t{100}), "a token of 100 bytes");
    EXPECT_CONTAINS(with(4, std::numeric_limits<float>::quiet_NaN()), "a finite score");
    EXPECT_CONTAINS(with(8, int32_t{0}), "token 0");
    EXPECT_CONTAINS(with(8, int32_t{-5}), "token 0");
    EXPECT_CONTAINS(with(8, INT32_MAX), "token 0");
    EXPECT_CONTAINS(Refusal("t.bin", whole + whole.substr(4, 8 + 5)), "a token that is there twice");
    EXPECT_CONTAINS(Refusal("t.bin", whole + "x"), "4 bytes for token 340");
    std::string bytes = whole;
    bytes.replace(bytes.find("<0x41>"), 6, "<0x4x>");
    EXPECT_CONTAINS(Refusal("t.bin", bytes), "<0x41> as token 68");
    EXPECT_CONTAINS(Thrown<IoError>([&] { LlamaTokenizer::FromFile(Write("t.bin", whole), 512); }),
                    "512 tokens, found 340");
}

TEST_F(Malformed, CharacterFiles) {
    const auto with = [&](const std::string &characters) {
        return Refusal("c.json", R"({"format":"infini_train.characters","version":1,"characters":)" + characters + "}");
    };
    EXPECT_EQ(with(R"(["a","b",255])"), "");
    EXPECT_CONTAINS(with(R"(["a","a"])"), "'a' twice");
    EXPECT_CONTAINS(with(R"(["ab"])"), "one character");
    EXPECT_CONTAINS(with(R"([""])"), "one character");
    EXPECT_CONTAINS(with(R"([])"), "at least one");
    EXPECT_CONTAINS(with(R"([256])"), "a text or a byte");

    EXPECT_CONTAINS(with("5"), "an array of characters");
    EXPECT_CONTAINS(Refusal("c.json", R"({"format":"x"})"), "format 'infini_train.characters'");
    EXPECT_CONTAINS(Refusal("c.json", R"({"format":"infini_train.characters","version":2,"characters":["a"]})"),
                    "version 1");
}

TEST_F(Malformed, RandomlyDamagedFilesNeverCrash) {
    const std::string json = Fixture()["llama3_like"]["tokenizer"].dump();
    const std::string binary = Llama2Bytes();
    std::mt19937 random(9);
    for (int i = 0; i < 400; ++i) {
        std::string damaged = i % 2 == 0 ? json : binary;
        for (uint32_t j = 0; j <= random() % 3; ++j) {
            damaged[random() % damaged.size()] = static_cast<char>(random());
        }
        const std::string path = Write("t", damaged);
        try {
            const auto tokenizer = LoadTokenizer(path);
            const std::string text = "the cat 123";
            tokenizer->Decode(tokenizer->Encode(text));
        } catch (const Error &) {  // The only kind of exception that there may be.
        }
    }
}

TEST_F(Malformed, PeakMemoryStaysWithinTheFileAnd64MiB) {
    if (INFINI_TRAIN_SANITIZED || !ResetPeakMemory() || PeakMemory() == 0) {
        GTEST_SKIP() << "memory can't be measured here";
    }
    constexpr size_t kSize = 24 << 20;
    constexpr int64_t kAllowed = kSize + (int64_t{64} << 20);
    const auto repeated = [](const std::string &head, const std::string &part, const std::string &tail) {
        std::string content = head;
        content.reserve(kSize + 100);
        while (content.size() < kSize) {
            content += part;
        }
        return content + tail;
    };
    std::vector<std::function<std::string()>> contents = {
        [&] { return repeated("{\"x\":\"", std::string(1 << 16, 'y'), "\"}"); },               // A giant text,
        [&] { return repeated("{\"model\":{\"vocab\":{\"", std::string(1 << 16, 'y'), ""); },  // a giant token,
        [&] { return repeated("{\"x\":", "[", ""); },                                          // depth,
        [&] { return repeated("{\"added_tokens\":[", "[],", "0]}"); },                         // small values,
        [&] { return repeated("{\"added_tokens\":", "[", ""); },
        [&] { return repeated("{\"x\":[", "0,", "0]}"); },
        [&] {
            return repeated("{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"", ",\"a b\"", "]}}");
        },
        [&] { return repeated("{\"a\":", "1", "}"); },  // a giant number,
        [&] { return repeated("{", " ", "}"); },        // nothing,
        [&] { return repeated(std::string("\x7f\xff\xff\x7f", 4), "x", ""); },
    };
    contents.emplace_back([] {  // as many tokens as fit.
        std::string content = "{\"model\":{\"vocab\":{\"a\":0";
        content.reserve(kSize + 100);
        for (int id = 1; content.size() < kSize; ++id) {
            content += ",\"t" + std::to_string(id) + "\":" + std::to_string(id);
        }
        return content + "},\"merges\":[]}}";
    });
    contents.emplace_back([] {  // tokens of tokenizer.bin.
        std::string content;
        const auto add = [&](const auto &value) {
            content.append(reinterpret_cast<const char *>(&value), sizeof(value));
        };
        add(int32_t{256});
        for (int i = 0; content.size() < kSize; ++i) {
            const std::string piece = std::to_string(i) + std::string(200, 'a');
            add(1.0F);
            add(static_cast<int32_t>(piece.size()));
            content += piece;
        }
        return content;
    });
    for (size_t i = 0; i < contents.size(); ++i) {
        const std::string path = Write("big", contents[i]());
        ASSERT_TRUE(ResetPeakMemory());
        const int64_t before = PeakMemory();
        const std::string error = Thrown<Error>([&] { LoadTokenizer(path); });
        EXPECT_LT(PeakMemory() - before, kAllowed) << i;
        EXPECT_FALSE(error.empty()) << i;
    }
}

}  // namespace
}  // namespace infini_train::text
