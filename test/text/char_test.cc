#include "infini_train/include/text/char_tokenizer.h"

#include "test/text/files.h"

namespace infini_train::text {
namespace {

class Chars : public TextFiles {};

TEST_F(Chars, NumbersTheCharactersInTheirOrder) {
    const auto tokenizer = CharTokenizer::FromText("h\u00e9llo\n");
    EXPECT_EQ(tokenizer->type(), "char");
    EXPECT_EQ(tokenizer->vocab_size(), 5);
    EXPECT_EQ(tokenizer->Encode("\nhlo\u00e9"), (Ids{0, 1, 2, 3, 4}));
    EXPECT_EQ(tokenizer->Decode(Ids{1, 4, 2}), "h\u00e9l");
    EXPECT_EQ(tokenizer->FindToken("\u00e9"), 4);
    EXPECT_EQ(tokenizer->FindToken("x"), std::nullopt);
    EXPECT_EQ(tokenizer->FindToken("hl"), std::nullopt);
    EXPECT_TRUE(tokenizer->SpecialTokens().empty());
}

TEST_F(Chars, RefusesWhatItDoesNotHave) {
    const auto tokenizer = CharTokenizer::FromText("abc");
    Ids ids = {2};
    const std::string error = Thrown<ValueError>([&] { tokenizer->EncodeTo("ab\u00e9", &ids); });
    EXPECT_TRUE(Contains(error, "one of the vocabulary's 3 characters, got '\u00e9' at byte 2")) << error;
    EXPECT_EQ(ids, (Ids{2}));
    EXPECT_FALSE(Thrown<IndexError>([&] { tokenizer->Decode(Ids{3}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { CharTokenizer::FromText(""); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { CharTokenizer({"a", "a"}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { CharTokenizer({"ab"}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { CharTokenizer({""}); }).empty());
}

TEST_F(Chars, BytesThatAreNotUtf8AndFilesComeBack) {
    std::mt19937 random(4);
    const std::string text = RandomText(&random, 3000, true);
    const auto tokenizer = CharTokenizer::FromText(text);
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
    tokenizer->Save(Path("characters.json"));
    const auto loaded = LoadTokenizer(Path("characters.json"));
    EXPECT_EQ(loaded->type(), "char");
    EXPECT_EQ(loaded->vocab_size(), tokenizer->vocab_size());
    EXPECT_EQ(loaded->Encode(text), tokenizer->Encode(text));
}

TEST_F(Chars, TinyShakespeareHas65) {
    const std::string path = SharedData("shakespeare/input.txt");
    INFINI_TRAIN_NEEDS_SHARED(path);
    const std::string text = Slurp(path);
    const auto tokenizer = CharTokenizer::FromText(text);
    EXPECT_EQ(tokenizer->vocab_size(), 65);
    EXPECT_EQ(tokenizer->Encode("hii there"), (Ids{46, 47, 47, 1, 58, 46, 43, 56, 43}));  // As nanoGPT numbers them.
    EXPECT_EQ(tokenizer->Encode(text).size(), 1115394U);
}

}  // namespace
}  // namespace infini_train::text
