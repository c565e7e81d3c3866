#include <vector>

#include "infini_train/src/common/format.h"
#include "infini_train/src/text/bpe_model.h"
#include "infini_train/src/text/byte_alphabet.h"
#include "infini_train/src/text/tokenizer_file.h"

namespace infini_train::text {
namespace {

// encoder.json: one object, token to id.
class EncoderHandler : public JsonHandler {
public:
    EncoderHandler(const std::string &path, Vocabulary *vocabulary) : path_(path), vocabulary_(vocabulary) {}

    bool Key(std::string &name) override {
        token_ = name;
        return true;
    }
    bool Scalar(Json value) override {
        Expect(open_, value.type_name());
        AddToken(path_, token_, value, vocabulary_);
        return true;
    }
    bool Begin(bool is_object) override {
        Expect(!open_ && is_object, is_object ? "an object within it" : "an array");
        open_ = true;
        return true;
    }
    bool End() override { return true; }

private:
    void Expect(bool good, const char *found) const {
        if (!good) {
            FailToRead(path_, "an object of tokens and ids", found);
        }
    }

    const std::string &path_;
    Vocabulary *vocabulary_;
    std::string token_;
    bool open_ = false;
};

void ReadMerges(const std::string &path, BpeModel *model) {
    TokenizerFile file(path);
    std::string line;
    for (int64_t number = 1; file.ReadLine(&line); ++number) {
        if (number == 1 && line.starts_with("#version")) {
            continue;
        }
        const size_t space = line.find(' ');
        if (space == std::string::npos || space == 0 || space + 1 == line.size() ||
            line.find(' ', space + 1) != std::string::npos) {
            FailToRead(path, fmt::format("two tokens and a space between them on line {}", number), Quote(line));
        }
        AddMerge(path, std::string_view(line).substr(0, space), std::string_view(line).substr(space + 1), model);
    }
}

// The tokens that are neither a byte nor made by a merge: special ones. Any other means that merges are missing.
void FindSpecialTokens(const std::string &vocab_bpe, BpeModel *model) {
    const Vocabulary &vocabulary = model->vocabulary;
    std::vector<bool> made(static_cast<size_t>(vocabulary.size()));
    for (const Merge &merge : model->merges.merges()) {
        made[merge.result] = true;
    }
    for (int byte = 0; byte < 256; ++byte) {
        const auto id = vocabulary.Find(BytesToCharacters(std::string(1, static_cast<char>(byte))));
        if (id.has_value()) {
            made[*id] = true;
        }
    }
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
        if (!vocabulary.Has(id) || made[id]) {
            continue;
        }
        const std::string_view token = vocabulary[id];
        if (token.size() < 3 || token.front() != '<' || token.back() != '>') {
            FailToRead(vocab_bpe, fmt::format("a merge that makes token {}, id {}", Quote(token), id), "none");
        }
        model->added.push_back({id, std::string(token), true});
    }
}

}  // namespace

std::unique_ptr<BpeModel> ReadGpt2Files(const std::string &encoder_json, const std::string &vocab_bpe) {
    auto model = std::make_unique<BpeModel>();
    model->vocabulary.Reserve(TokenizerFile(encoder_json).size());
    EncoderHandler handler(encoder_json, &model->vocabulary);
    ReadJson(encoder_json, &handler);
    for (int byte = 0; byte < 256; ++byte) {
        const std::string character = BytesToCharacters(std::string(1, static_cast<char>(byte)));
        if (!model->vocabulary.Find(character).has_value()) {
            FailToRead(encoder_json, fmt::format("a token for each byte, {} for 0x{:02x}", Quote(character), byte),
                       "none");
        }
    }
    ReadMerges(vocab_bpe, model.get());
    FindSpecialTokens(vocab_bpe, model.get());
    TokensToBytes(encoder_json, model.get());
    UseGpt2Splitter(model.get());
    return model;
}

}  // namespace infini_train::text
