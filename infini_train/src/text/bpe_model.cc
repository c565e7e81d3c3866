#include "infini_train/src/text/bpe_model.h"

#include <algorithm>
#include <unordered_set>

#include "infini_train/src/common/format.h"
#include "infini_train/src/text/byte_alphabet.h"
#include "infini_train/src/text/tokenizer_file.h"

namespace infini_train::text {
namespace {

std::string Quoted(std::string_view text) {
    return Json(text).dump();
}

}  // namespace

void UseGpt2Splitter(BpeModel *model) {
    model->splitter.AddGpt2();
    model->pre_tokenizer =
        R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";
}

void AddToken(const std::string &path, std::string_view token, const Json &id, Vocabulary *vocabulary) {
    if (!id.is_number_unsigned()) {
        FailToRead(path, "a whole number as the id of token " + Quote(token), id.dump().substr(0, 40));
    }
    const auto number = static_cast<int64_t>(std::min<uint64_t>(id.get<uint64_t>(), kMaxVocabSize));
    if (const char *problem = vocabulary->Add(token, number)) {
        FailToRead(path, fmt::format("each token and each id once, ids below {}", kMaxVocabSize),
                   fmt::format("{}: {} with id {}", problem, Quote(token), id.dump()));
    }
}

void AddMerge(const std::string &path, std::string_view left, std::string_view right, BpeModel *model) {
    const size_t rank = model->merges.merges().size();
    const auto find = [&](std::string_view token, const char *what) {
        const auto id = model->vocabulary.Find(token);
        if (!id.has_value()) {
            FailToRead(path, fmt::format("{} merge {} in the vocabulary", what, rank), Quote(token) + ", which isn't");
        }
        return *id;
    };
    if (rank == static_cast<size_t>(kMaxVocabSize)) {
        FailToRead(path, fmt::format("at most {} merges", kMaxVocabSize), "more");
    }
    const TokenId result = find(std::string(left) + std::string(right), "the result of");
    const Merge merge{find(left, "the first part of"), find(right, "the second part of"), result,
                      static_cast<uint32_t>(rank)};
    if (!model->merges.Add(merge)) {
        FailToRead(path, "each merge once", fmt::format("that of {} and {} twice", Quote(left), Quote(right)));
    }
}

void TokensToBytes(const std::string &path, BpeModel *model) {
    std::unordered_set<TokenId> added;
    for (const AddedToken &token : model->added) {
        added.insert(token.id);
    }
    const auto bad = model->vocabulary.RewriteAll([&](TokenId id, std::string_view token, char *to) -> int64_t {
        return added.contains(id) ? Vocabulary::kRemove : CharactersToBytes(token, to);
    });
    if (bad.has_value()) {
        FailToRead(path, "tokens written in the 256 characters that stand for bytes",
                   fmt::format("another one in {}, id {}", Quote(model->vocabulary[*bad]), *bad));
    }
}

std::string ToTokenizerJson(const BpeModel &model) {
    std::string text =
        "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [";
    const char *separator = "\n    ";
    for (const AddedToken &token : model.added) {
        text += separator;
        text += fmt::format(R"({{"id": {}, "content": {}, "single_word": false, "lstrip": false, "rstrip": false, )"
                            R"("normalized": false, "special": {}}})",
                            token.id, Quoted(token.text), token.special);
        separator = ",\n    ";
    }
    text += model.added.empty() ? "],\n" : "\n  ],\n";
    text += "  \"normalizer\": null,\n  \"pre_tokenizer\": " + model.pre_tokenizer + ",\n  \"post_processor\": null,\n";
    text += R"(  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},)";
    // A token's text: its characters, or for an added one the text itself.
    std::vector<std::string> tokens(static_cast<size_t>(model.vocabulary.size()));
    for (TokenId id = 0; id < model.vocabulary.size(); ++id) {
        if (model.vocabulary.Has(id)) {
            tokens[id] = BytesToCharacters(model.vocabulary[id]);
        }
    }
    for (const AddedToken &token : model.added) {
        tokens.resize(std::max(tokens.size(), static_cast<size_t>(token.id) + 1));
        tokens[token.id] = token.text;
    }
    text += fmt::format("\n  \"model\": {{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n",
                        model.unknown.has_value() ? Quoted(tokens[*model.unknown]) : "null");
    text += fmt::format(
        "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": {},\n"
        "    \"byte_fallback\": false,\n    \"ignore_merges\": {},\n    \"vocab\": {{",
        model.fuse_unknown, model.ignore_merges);
    separator = "\n      ";
    for (size_t id = 0; id < tokens.size(); ++id) {
        if (!tokens[id].empty()) {
            text += separator + Quoted(tokens[id]) + ": " + std::to_string(id);
            separator = ",\n      ";
        }
    }
    text += "\n    },\n    \"merges\": [";
    separator = "\n      ";
    for (const Merge &merge : model.merges.merges()) {
        text += separator + Quoted(tokens[merge.left] + " " + tokens[merge.right]);
        separator = ",\n      ";
    }
    return text + "\n    ]\n  }\n}\n";
}

}  // namespace infini_train::text
