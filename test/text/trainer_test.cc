#include <algorithm>

#include "infini_train/include/text/bpe_trainer.h"

#include "test/text/files.h"

namespace infini_train::text {
namespace {

class Trainer : public TextFiles {};

TEST_F(Trainer, LearnsWhatHuggingFaceLearns) {
    BpeTrainer trainer({401, 2, {"<|endoftext|>"}});  // More than there are pairs to merge.
    trainer.AddText(Fixture()["training_text"].get<std::string>());
    const auto tokenizer = trainer.Train();
    tokenizer->Save(Path("t.json"));
    const auto saved = nlohmann::json::parse(Slurp(Path("t.json")));
    const auto &expected = Fixture()["gpt2_like"]["tokenizer"];
    const auto &merges = expected["model"]["merges"];
    ASSERT_EQ(saved["model"]["merges"].size(), merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
        const std::string merge = merges[i].is_array()
                                      ? merges[i][0].get<std::string>() + " " + merges[i][1].get<std::string>()
                                      : merges[i].get<std::string>();
        ASSERT_EQ(saved["model"]["merges"][i], merge) << i;
    }
    auto vocab = expected["model"]["vocab"];
    ASSERT_LT(vocab.size(), 400U);
    vocab["<|endoftext|>"] = vocab.size();
    EXPECT_EQ(saved["model"]["vocab"], vocab);

    BpeTrainer smaller({300, 2, {}});
    smaller.AddText(Fixture()["training_text"].get<std::string>());
    smaller.Train()->Save(Path("smaller.json"));
    const auto first = nlohmann::json::parse(Slurp(Path("smaller.json")))["model"]["merges"];
    ASSERT_EQ(first.size(), 44U);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), saved["model"]["merges"].begin()));
}

TEST_F(Trainer, ByHand) {
    BpeTrainer trainer({260, 1, {}});
    trainer.AddText("abab abab");
    trainer.AddText("aaa");
    const auto tokenizer = trainer.Train();
    // ab, four times. Then aa and abab, two each: a has a smaller id than ab.
    EXPECT_EQ(tokenizer->vocab_size(), 260);
    EXPECT_EQ(tokenizer->FindToken("ab"), 256);
    EXPECT_EQ(tokenizer->FindToken("aa"), 257);
    EXPECT_EQ(tokenizer->FindToken("abab"), 258);
}

TEST_F(Trainer, EndsWhenNothingIsFrequentEnough) {
    BpeTrainer trainer({1000, 3, {"<a>", "<b>"}});
    trainer.AddText("xy xy xy zw zw");
    const auto tokenizer = trainer.Train();
    // "xy", then " xy", which is there twice only.
    EXPECT_EQ(tokenizer->vocab_size(), 256 + 1 + 2);
    EXPECT_EQ(tokenizer->FindToken("<a>"), 257);
    EXPECT_EQ(tokenizer->FindToken("<b>"), 258);
    const auto empty = BpeTrainer({300, 2, {}}).Train();
    EXPECT_EQ(empty->vocab_size(), 256);
    EXPECT_EQ(empty->Decode(empty->Encode("any text")), "any text");
}

TEST_F(Trainer, RefusesOptionsThatMakeNoSense) {
    EXPECT_TRUE(Contains(Thrown<ValueError>([] { BpeTrainer({256}); }), "from 257"));
    EXPECT_FALSE(Thrown<ValueError>([] { BpeTrainer({int64_t{1} << 40}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { BpeTrainer({300, 0}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { BpeTrainer({300, 2, {"a", "a"}}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { BpeTrainer({300, 2, {""}}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { BpeTrainer({300, 2, {"\xFF"}}); }).empty());
    EXPECT_FALSE(Thrown<ValueError>([] { BpeTrainer({300, 2, {"x"}}).Train(); }).empty());  // A byte's token.
}

TEST_F(Trainer, TextComesBack) {
    BpeTrainer trainer({600, 2, {}});
    std::mt19937 random(7);
    trainer.AddText(RandomText(&random, 5000, true));
    const auto tokenizer = trainer.Train();
    EXPECT_GT(tokenizer->vocab_size(), 400);
    const std::string text = RandomText(&random, 500, true);
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
    EXPECT_LT(tokenizer->Encode(text).size(), text.size());
}

}  // namespace
}  // namespace infini_train::text
