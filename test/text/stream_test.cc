#include "infini_train/include/text/char_tokenizer.h"
#include "infini_train/include/text/llama_tokenizer.h"
#include "infini_train/include/text/tokenizer.h"

#include "test/text/files.h"

namespace infini_train::text {
namespace {

class Stream : public TextFiles {
protected:
    // One token for each byte.
    std::unique_ptr<Tokenizer> Bytes() const {
        nlohmann::json file = Fixture()["gpt2_like"]["tokenizer"];
        file["model"]["merges"] = nlohmann::json::array();
        return LoadTokenizer(Write("bytes.json", file.dump()));
    }
    std::vector<std::string> Pushed(const std::string &bytes) const {
        const auto tokenizer = Bytes();
        StreamDecoder decoder(*tokenizer);
        std::vector<std::string> parts;
        for (const TokenId id : tokenizer->Encode(bytes)) {
            parts.push_back(decoder.Push(id));
        }
        parts.push_back(decoder.Finish());
        return parts;
    }
};

using Parts = std::vector<std::string>;
constexpr char kBad[] = "\xEF\xBF\xBD";

TEST_F(Stream, EmitsWholeSequencesOnly) {
    EXPECT_EQ(Pushed("a\u00e9b"), (Parts{"a", "", "\u00e9", "b", ""}));
    EXPECT_EQ(Pushed("\U0001F600"), (Parts{"", "", "", "\U0001F600", ""}));
    EXPECT_EQ(Pushed("\u6211x"), (Parts{"", "", "\u6211", "x", ""}));
}

TEST_F(Stream, BytesThatCanNotBecomeUtf8) {
    EXPECT_EQ(Pushed("\xFF"), (Parts{kBad, ""}));
    EXPECT_EQ(Pushed("\x80z"), (Parts{kBad, "z", ""}));
    EXPECT_EQ(Pushed("\xE2\x82z"), (Parts{"", "", kBad + std::string("z"), ""}));
    EXPECT_EQ(Pushed("\xE2\x82"), (Parts{"", "", kBad}));
    EXPECT_EQ(Pushed("\xED\xA0"), (Parts{"", kBad + std::string(kBad), ""}));  // A surrogate.
    EXPECT_EQ(Pushed("\xF0\x9F\xF0\x9F\x98\x80"), (Parts{"", "", kBad, "", "", "\U0001F600", ""}));
}

TEST_F(Stream, EqualsDecodeForText) {
    std::mt19937 random(8);
    const std::string bytes = Llama2Bytes();
    for (const auto &tokenizer : {Gpt2Like(), Llama3Like(), LoadTokenizer(Write("tokenizer.bin", bytes))}) {
        for (int i = 0; i < 100; ++i) {
            const std::string text = RandomText(&random, random() % 40, false);
            StreamDecoder decoder(*tokenizer);
            std::string streamed;
            for (const TokenId id : tokenizer->Encode(text)) {
                streamed += decoder.Push(id);
            }
            EXPECT_EQ(streamed + decoder.Finish(), text);
        }
    }
}

TEST_F(Stream, ASpecialTokenBeginsANewText) {
    const auto tokenizer = LoadTokenizer(Write("tokenizer.bin", Llama2Bytes()));
    StreamDecoder decoder(*tokenizer);
    std::string streamed;
    for (int i = 0; i < 2; ++i) {
        streamed += decoder.Push(LlamaTokenizer::kBegin);
        for (const TokenId id : tokenizer->Encode("cat")) {
            streamed += decoder.Push(id);
        }
    }
    EXPECT_EQ(streamed, "catcat");
}

}  // namespace
}  // namespace infini_train::text
