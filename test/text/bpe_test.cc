#include <thread>

#include "infini_train/include/text/bpe_tokenizer.h"

#include "test/text/files.h"

namespace infini_train::text {
namespace {

class Bpe : public TextFiles {};

TEST_F(Bpe, GivesTheIdsOfHuggingFace) {
    const auto texts = Fixture()["texts"].get<std::vector<std::string>>();
    const auto gpt2 = Gpt2Like();
    const auto llama3 = Llama3Like();
    EXPECT_EQ(gpt2->type(), "bpe");
    EXPECT_EQ(gpt2->vocab_size(), Fixture()["gpt2_like"]["tokenizer"]["model"]["vocab"].size() + 1);
    for (size_t i = 0; i < texts.size(); ++i) {
        // There special tokens are always recognised.
        EXPECT_EQ(gpt2->Encode(texts[i], SpecialText::kRecognise), Fixture()["gpt2_like"]["ids"][i].get<Ids>())
            << texts[i];
        EXPECT_EQ(llama3->Encode(texts[i]), Fixture()["llama3_like"]["ids"][i].get<Ids>()) << texts[i];
    }
}

TEST_F(Bpe, AnyBytesComeBack) {
    const auto gpt2 = Gpt2Like();
    const auto llama3 = Llama3Like();
    std::mt19937 random(2);
    for (int i = 0; i < 300; ++i) {
        const std::string text = RandomText(&random, random() % 60, true);
        EXPECT_EQ(gpt2->Decode(gpt2->Encode(text)), text);
        EXPECT_EQ(gpt2->Decode(gpt2->Encode(text, SpecialText::kRecognise)), text);
        EXPECT_EQ(llama3->Decode(llama3->Encode(text)), text);
    }
    std::string bytes;
    for (int i = 0; i < 256; ++i) {
        bytes += static_cast<char>(i);
    }
    EXPECT_EQ(gpt2->Decode(gpt2->Encode(bytes)), bytes);
}

TEST_F(Bpe, SpecialTokensAreTextUnlessAskedFor) {
    const auto tokenizer = Gpt2Like();
    const TokenId end = *tokenizer->FindToken("<|endoftext|>");
    EXPECT_EQ(tokenizer->SpecialTokens(), (std::map<std::string, TokenId>{{"<|endoftext|>", end}}));
    EXPECT_EQ(end, tokenizer->vocab_size() - 1);
    const Ids ordinary = tokenizer->Encode("a<|endoftext|>");
    EXPECT_EQ(std::count(ordinary.begin(), ordinary.end(), end), 0);
    const Ids special = tokenizer->Encode("a<|endoftext|><|endoftext", SpecialText::kRecognise);
    EXPECT_EQ(std::count(special.begin(), special.end(), end), 1);
    EXPECT_EQ(special[1], end);
    EXPECT_EQ(tokenizer->Decode(special), "a<|endoftext|><|endoftext");
}

TEST_F(Bpe, EncodeToAppends) {
    const auto tokenizer = Gpt2Like();
    Ids ids = {5};
    tokenizer->EncodeTo("the cat", &ids);
    tokenizer->EncodeTo("", &ids);
    Ids expected = tokenizer->Encode("the cat");
    expected.insert(expected.begin(), 5);
    EXPECT_EQ(ids, expected);
}

TEST_F(Bpe, UnknownIdsNameTheirPlace) {
    const auto tokenizer = Gpt2Like();
    const std::string error = Thrown<IndexError>([&] { tokenizer->Decode(Ids{1, 2, 100000}); });
    EXPECT_TRUE(Contains(error, "no token 100000") && Contains(error, "position 2 of 3")) << error;
    EXPECT_FALSE(Thrown<IndexError>([&] { tokenizer->Decode(Ids{-1}); }).empty());
}

// A model written by hand: bytes a, b, c; ab (rank 0), bc (1), abc = ab + c (2), aa (3).
std::string HandMade(const std::string &extra = "", const std::string &pre = "") {
    return R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":)" +
           (pre.empty() ? R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})" : pre) +
           R"(,"model":{"type":"BPE",)" + extra +
           R"("vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4,"abc":5,"aa":6,"ca":7,"Ġ":8},)"
           R"("merges":["a b",["b","c"],"ab c","a a"]}})";
}

TEST_F(Bpe, MergesInTheOrderOfRanks) {
    const auto tokenizer = LoadTokenizer(Write("t.json", HandMade()));
    EXPECT_EQ(tokenizer->Encode("abc"), (Ids{5}));
    EXPECT_EQ(tokenizer->Encode("bcab"), (Ids{4, 3}));
    EXPECT_EQ(tokenizer->Encode("aab"), (Ids{0, 3}));  // a b before a a.
    EXPECT_EQ(tokenizer->Encode("aaa"), (Ids{6, 0}));  // The leftmost of equals.
    EXPECT_EQ(tokenizer->Encode("bca"), (Ids{4, 0}));  // No merge makes ca.
    EXPECT_EQ(tokenizer->Encode("a a"), (Ids{0, 8, 0}));
    // Long words take another way.
    std::string text;
    Ids expected;
    for (int i = 0; i < 100; ++i) {
        text += "aaabc";
        expected.insert(expected.end(), {6, 5});
    }
    EXPECT_EQ(tokenizer->Encode(text), expected);
}

TEST_F(Bpe, TheOptionsOfAModel) {
    EXPECT_EQ(LoadTokenizer(Write("t.json", HandMade(R"("ignore_merges":true,)")))->Encode("ca"), (Ids{7}));
    const auto prefix = LoadTokenizer(Write("t.json", HandMade("", R"({"type":"ByteLevel","add_prefix_space":true})")));
    EXPECT_EQ(prefix->Encode("ab"), (Ids{8, 3}));
    EXPECT_EQ(prefix->Encode(" ab"), (Ids{8, 3}));
    EXPECT_EQ(prefix->Encode(""), Ids());

    const auto strict = LoadTokenizer(Write("t.json", HandMade()));
    Ids ids = {1};
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { strict->EncodeTo("abx", &ids); }), "no token for byte 0x78"));
    EXPECT_EQ(ids, (Ids{1}));
    EXPECT_EQ(LoadTokenizer(Write("t.json", HandMade(R"("unk_token":"c",)")))->Encode("axxa"), (Ids{0, 2, 2, 0}));
    EXPECT_EQ(LoadTokenizer(Write("t.json", HandMade(R"("unk_token":"c","fuse_unk":true,)")))->Encode("axxa"),
              (Ids{0, 2, 0}));

    const auto digits = LoadTokenizer(Write(
        "t.json",
        HandMade(
            "",
            R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"String":"b"},"behavior":"Isolated"},)"
            R"({"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})")));
    EXPECT_EQ(digits->Encode("abc"), (Ids{0, 1, 2}));
}

TEST_F(Bpe, SavesWhatItLoaded) {
    for (const auto &tokenizer : {Gpt2Like(), Llama3Like()}) {
        tokenizer->Save(Path("saved.json"));
        EXPECT_FALSE(std::filesystem::exists(Path("saved.json.tmp")));
        const auto loaded = LoadTokenizer(Path("saved.json"));
        EXPECT_EQ(loaded->vocab_size(), tokenizer->vocab_size());
        EXPECT_EQ(loaded->SpecialTokens(), tokenizer->SpecialTokens());
        for (const auto &text : Fixture()["texts"]) {
            const auto bytes = text.get<std::string>();
            EXPECT_EQ(loaded->Encode(bytes), tokenizer->Encode(bytes)) << bytes;
            EXPECT_EQ(loaded->Encode(bytes, SpecialText::kRecognise),
                      tokenizer->Encode(bytes, SpecialText::kRecognise));
        }
    }
    EXPECT_TRUE(Contains(Thrown<IoError>([&] { Gpt2Like()->Save(Path("none/x.json")); }), "No such file"));
}

TEST_F(Bpe, TheOrderWithinTheFileDoesNotMatter) {
    auto file = Fixture()["gpt2_like"]["tokenizer"];
    const std::string merges = file["model"]["merges"].dump();
    const std::string vocab = file["model"]["vocab"].dump();
    const std::string text = R"({"pre_tokenizer":)" + file["pre_tokenizer"].dump() + R"(,"model":{"merges":)" + merges +
                             R"(,"vocab":)" + vocab + R"(},"added_tokens":)" + file["added_tokens"].dump() + "}";
    const auto tokenizer = LoadTokenizer(Write("t.json", text));
    const auto reference = Gpt2Like();
    for (const auto &example : Fixture()["texts"]) {
        EXPECT_EQ(tokenizer->Encode(example.get<std::string>()), reference->Encode(example.get<std::string>()));
    }
}

TEST_F(Bpe, ThreadsShareIt) {
    const auto tokenizer = Gpt2Like();
    std::mt19937 random(3);
    const std::string text = RandomText(&random, 2000, true);
    const Ids expected = tokenizer->Encode(text);
    std::vector<Ids> results(4);
    std::vector<std::thread> threads;
    for (Ids &result : results) {
        threads.emplace_back([&] {
            for (int i = 0; i < 5; ++i) {
                result = tokenizer->Encode(text);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (const Ids &result : results) {
        EXPECT_EQ(result, expected);
    }
}

TEST_F(Bpe, Gpt2IdForId) {
    const std::string folder = SharedData("gpt2_bpe");
    const std::string cases = SharedData("tokenizer/gpt2_encodings.json");
    INFINI_TRAIN_NEEDS_SHARED(folder);
    const auto tokenizer = LoadTokenizer(folder);
    EXPECT_EQ(tokenizer->vocab_size(), 50257);
    EXPECT_EQ(tokenizer->SpecialTokens(), (std::map<std::string, TokenId>{{"<|endoftext|>", 50256}}));
    int count = 0;
    for (const auto &test : nlohmann::json::parse(Slurp(cases))) {
        const auto text = test["text"].get<std::string>();
        EXPECT_EQ(tokenizer->Encode(text), test["ids"].get<Ids>()) << text;
        EXPECT_EQ(tokenizer->Decode(test["ids"].get<Ids>()), text);
        ++count;
    }
    EXPECT_GT(count, 20);
    // The same through Hugging Face's format.
    tokenizer->Save(Path("tokenizer.json"));
    EXPECT_EQ(LoadTokenizer(Path("tokenizer.json"))->Encode(" Hello world"), (Ids{18435, 995}));
    EXPECT_EQ(LoadTokenizer(folder + "/vocab.bpe")->Encode(" Hello world"), (Ids{18435, 995}));
}

TEST_F(Bpe, TinyShakespeare) {
    const std::string folder = SharedData("gpt2_bpe");
    INFINI_TRAIN_NEEDS_SHARED(folder);
    const auto tokenizer = LoadTokenizer(folder);
    const std::string text = Slurp(SharedData("shakespeare/input.txt"));
    ASSERT_EQ(text.size(), 1115394U);
    // 90 % of the characters train; the counts are nanoGPT's.
    const Ids train = tokenizer->Encode(std::string_view(text).substr(0, 1003854));
    const Ids val = tokenizer->Encode(std::string_view(text).substr(1003854));
    EXPECT_EQ(train.size(), 301966U);
    EXPECT_EQ(val.size(), 36059U);
    EXPECT_EQ(tokenizer->Decode(train) + tokenizer->Decode(val), text);
}

}  // namespace
}  // namespace infini_train::text
