#include <cstring>
#include <map>

#include "infini_train/include/text/llama_tokenizer.h"

#include "test/text/files.h"

namespace infini_train::text {
namespace {

class Llama : public TextFiles {};

// llama2.c's algorithm on the bytes of its file: join the neighbours with the best score until there are none.
class Reference {
public:
    explicit Reference(const std::string &file) {
        for (size_t at = 4; at < file.size();) {
            float score = 0;
            int32_t length = 0;
            std::memcpy(&score, &file[at], 4);
            std::memcpy(&length, &file[at + 4], 4);
            pieces_.push_back(file.substr(at + 8, static_cast<size_t>(length)));
            scores_.push_back(score);
            if (pieces_.size() > 259) {  // Behind the special tokens and the bytes.
                ids_[pieces_.back()] = static_cast<TokenId>(pieces_.size() - 1);
            }
            at += 8 + static_cast<size_t>(length);
        }
    }

    Ids Encode(std::string text) const {
        if (text.empty()) {
            return {};
        }
        text = " " + text;
        Ids ids;
        for (size_t at = 0; at < text.size();) {
            const auto lead = static_cast<unsigned char>(text[at]);
            const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
            const auto found = ids_.find(text.substr(at, length));
            if (found != ids_.end()) {
                ids.push_back(found->second);
            } else {
                for (size_t i = 0; i < length; ++i) {
                    ids.push_back(3 + static_cast<unsigned char>(text[at + i]));
                }
            }
            at += length;
        }
        while (true) {
            size_t best = ids.size();
            TokenId result = 0;
            for (size_t i = 0; i + 1 < ids.size(); ++i) {
                const auto found = ids_.find(pieces_[ids[i]] + pieces_[ids[i + 1]]);
                if (found != ids_.end() && (best == ids.size() || scores_[found->second] > scores_[result])) {
                    best = i;
                    result = found->second;
                }
            }
            if (best == ids.size()) {
                return ids;
            }
            ids[best] = result;
            ids.erase(ids.begin() + static_cast<int64_t>(best) + 1);
        }
    }

private:
    std::vector<std::string> pieces_;
    std::vector<float> scores_;
    std::map<std::string, TokenId> ids_;
};

TEST_F(Llama, GivesTheIdsOfSentencePiece) {
    const auto tokenizer = LoadTokenizer(Write("tokenizer.bin", Llama2Bytes()));
    EXPECT_EQ(tokenizer->type(), "llama");
    EXPECT_EQ(tokenizer->vocab_size(), 340);
    const auto &fixture = Fixture()["llama2_like"];
    for (size_t i = 0; i < fixture["texts"].size(); ++i) {
        const auto text = fixture["texts"][i].get<std::string>();
        EXPECT_EQ(tokenizer->Encode(text), fixture["ids"][i].get<Ids>()) << "'" << text << "'";
        EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
    }
}

TEST_F(Llama, EqualsTheSlowAlgorithmOnRandomText) {
    const std::string bytes = Llama2Bytes();
    const auto tokenizer = LoadTokenizer(Write("tokenizer.bin", bytes));
    const Reference reference(bytes);
    std::mt19937 random(5);
    std::string training = Fixture()["training_text"];
    std::erase_if(training, [](char c) { return (c & 0x80) != 0; });  // Any part of it is a text.
    for (int i = 0; i < 200; ++i) {
        const std::string text =
            i % 2 == 0 ? RandomText(&random, random() % 40, false) : training.substr(random() % 3000, random() % 300);
        EXPECT_EQ(tokenizer->Encode(text), reference.Encode(text)) << ::testing::PrintToString(text);
    }
}

TEST_F(Llama, AnyBytesComeBack) {
    const auto tokenizer = LoadTokenizer(Write("tokenizer.bin", Llama2Bytes()));
    std::mt19937 random(6);
    for (int i = 0; i < 300; ++i) {
        const std::string text = RandomText(&random, random() % 60, true);
        EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
    }
}

TEST_F(Llama, SpecialTokens) {
    const auto tokenizer = LlamaTokenizer::FromFile(Write("tokenizer.bin", Llama2Bytes()), 340);
    EXPECT_EQ(tokenizer->SpecialTokens(), (std::map<std::string, TokenId>{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}}));
    EXPECT_EQ(tokenizer->FindToken("<s>"), LlamaTokenizer::kBegin);
    EXPECT_EQ(tokenizer->FindToken("\x07"), 3 + 7);
    EXPECT_EQ(tokenizer->FindToken("<0x07>"), std::nullopt);
    Ids expected = {LlamaTokenizer::kBegin};
    tokenizer->EncodeTo("the cat", &expected);
    EXPECT_EQ(tokenizer->Encode("<s>the cat", SpecialText::kRecognise), expected);
    EXPECT_EQ(tokenizer->Decode(expected), "the cat");  // The space in front is gone, and so is <s>.
}

TEST_F(Llama, SavesTheFileThatItRead) {
    LoadTokenizer(Write("tokenizer.bin", Llama2Bytes()))->Save(Path("again.bin"));
    EXPECT_EQ(Slurp(Path("again.bin")), Llama2Bytes());
}

TEST_F(Llama, Stories260k) {
    const std::string path = SharedData("stories260k/tok512.bin");
    INFINI_TRAIN_NEEDS_SHARED(path);
    const auto tokenizer = LlamaTokenizer::FromFile(path, 512);
    const Reference reference(Slurp(path));
    for (const char *text : {"Once upon a time, there was a little girl named Lily.",
                             "I'm 5!\n\n\"Caf\u00e9\" \u2014 \U0001F600", "  two  spaces "}) {
        EXPECT_EQ(tokenizer->Encode(text), reference.Encode(text)) << text;
        EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
    }
    EXPECT_EQ(tokenizer->Encode("Once upon a time"), (Ids{403, 407, 261, 378}));
}

}  // namespace
}  // namespace infini_train::text
