#include "infini_train/include/text/bpe_tokenizer.h"

#include <unordered_map>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/text/added_matcher.h"
#include "infini_train/src/text/bpe_model.h"
#include "infini_train/src/text/tokenizer_file.h"
#include "infini_train/src/text/word_encoder.h"

namespace infini_train::text {

struct BpeTokenizer::Impl {
    explicit Impl(std::unique_ptr<BpeModel> a_model);

    // The ids of a word before anything is merged, then after.
    void EncodeWord(std::string_view word, std::vector<TokenId> *ids) const;

    // Text without added tokens.
    void EncodePlain(std::string_view text, WordCache *cache, IdWriter *writer) const;

    std::unique_ptr<const BpeModel> model;
    int64_t vocab_size = 0;
    std::array<TokenId, 256> byte_ids{};  // -1: there is none.
    std::unordered_map<TokenId, const AddedToken *> added;
    AddedMatcher always;      // What is recognised in any text.
    AddedMatcher everything;  // The special tokens, too.
    mutable WordCaches caches;
};

BpeTokenizer::Impl::Impl(std::unique_ptr<BpeModel> a_model) : model(std::move(a_model)) {
    vocab_size = model->vocabulary.size();
    for (const AddedToken &token : model->added) {
        vocab_size = std::max<int64_t>(vocab_size, token.id + 1);
        added[token.id] = &token;
        everything.Add(token.text, token.id);
        if (!token.special) {
            always.Add(token.text, token.id);
        }
    }
    for (int byte = 0; byte < 256; ++byte) {
        const char c = static_cast<char>(byte);
        byte_ids[byte] = model->vocabulary.Find({&c, 1}).value_or(-1);
    }
    for (const AddedToken &token : model->added) {  // A byte's token may be declared special, too.
        TokenId &id = byte_ids[static_cast<unsigned char>(token.text[0])];
        id = token.text.size() == 1 && id < 0 ? token.id : id;
    }
}

void BpeTokenizer::Impl::EncodeWord(std::string_view word, std::vector<TokenId> *ids) const {
    if (model->ignore_merges) {
        if (const auto id = model->vocabulary.Find(word)) {
            ids->push_back(*id);
            return;
        }
    }
    bool unknown = false;  // The byte before.
    for (const char c : word) {
        const TokenId id = byte_ids[static_cast<unsigned char>(c)];
        if (id < 0 && !model->unknown.has_value()) {
            Throw<ValueError>("BpeTokenizer: the vocabulary has no token for byte 0x{:02x}",
                              static_cast<unsigned char>(c));
        }
        if (id >= 0 || !unknown || !model->fuse_unknown) {
            ids->push_back(id < 0 ? *model->unknown : id);
        }
        unknown = id < 0;
    }
    model->merges.Apply(ids);
}

void BpeTokenizer::Impl::EncodePlain(std::string_view text, WordCache *cache, IdWriter *writer) const {
    std::string prefixed;
    if (model->add_prefix_space && !text.empty() && text[0] != ' ') {
        prefixed.reserve(text.size() + 1);
        prefixed += ' ';
        prefixed += text;
        text = prefixed;
    }
    const char *const end = text.data() + text.size();
    model->splitter.ForEachWord(text, [&](const char *word, size_t bytes) {
        cache->Write(word, bytes, end, writer, [&](std::vector<TokenId> *ids) { EncodeWord({word, bytes}, ids); });
    });
}

std::unique_ptr<BpeTokenizer> BpeTokenizer::FromGpt2Files(const std::string &encoder_json,
                                                          const std::string &vocab_bpe) {
    return std::make_unique<BpeTokenizer>(ReadGpt2Files(encoder_json, vocab_bpe));
}

std::unique_ptr<BpeTokenizer> BpeTokenizer::FromTokenizerJson(const std::string &path) {
    return std::make_unique<BpeTokenizer>(ReadTokenizerJson(path));
}

BpeTokenizer::BpeTokenizer(std::unique_ptr<BpeModel> model) : impl_(std::make_unique<Impl>(std::move(model))) {}

BpeTokenizer::~BpeTokenizer() = default;

int64_t BpeTokenizer::vocab_size() const {
    return impl_->vocab_size;
}

void BpeTokenizer::EncodeTo(std::string_view text, std::vector<TokenId> *ids, SpecialText special) const {
    const AddedMatcher &matcher = special == SpecialText::kRecognise ? impl_->everything : impl_->always;
    IdWriter writer(ids, text.size() / 4 + 16);
    impl_->caches.With([&](WordCache &cache) {
        matcher.ForEachPart(
            text, [&](std::string_view part) { impl_->EncodePlain(part, &cache, &writer); },
            [&](TokenId id) { writer.Add(id); });
    });
    writer.Commit();
}

bool BpeTokenizer::AppendToken(TokenId id, bool /*at_start*/, std::string *bytes) const {
    if (impl_->model->vocabulary.Has(id)) {
        *bytes += impl_->model->vocabulary[id];
        return false;
    }
    const auto found = impl_->added.find(id);
    if (found == impl_->added.end()) {
        Throw<IndexError>("BpeTokenizer: there is no token {}; ids are below {}", id, vocab_size());
    }
    *bytes += found->second->text;
    return found->second->special;
}

std::optional<TokenId> BpeTokenizer::FindToken(std::string_view bytes) const {
    for (const AddedToken &token : impl_->model->added) {
        if (token.text == bytes) {
            return token.id;
        }
    }
    return impl_->model->vocabulary.Find(bytes);
}

std::map<std::string, TokenId> BpeTokenizer::SpecialTokens() const {
    std::map<std::string, TokenId> tokens;
    for (const AddedToken &token : impl_->model->added) {
        if (token.special) {
            tokens[token.text] = token.id;
        }
    }
    return tokens;
}

void BpeTokenizer::Save(const std::string &path) const {
    WriteTokenizerFile(path, ToTokenizerJson(*impl_->model));
}

}  // namespace infini_train::text
