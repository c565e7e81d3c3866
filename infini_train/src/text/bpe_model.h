#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infini_train/include/text/tokenizer.h"

#include "infini_train/src/text/json_reader.h"
#include "infini_train/src/text/merge_table.h"
#include "infini_train/src/text/splitter.h"
#include "infini_train/src/text/vocabulary.h"

namespace infini_train::text {

/// A token that is found in the text before it is split.
struct AddedToken {
    TokenId id;
    std::string text;
    bool special;  // Otherwise it is recognised in any text.
};

/// What a byte-level BPE tokenizer is made of.
struct BpeModel {
    Vocabulary vocabulary;  // The bytes of all tokens but the added ones.
    MergeTable merges;
    std::vector<AddedToken> added;
    Splitter splitter;
    std::string pre_tokenizer;       // The splitter in Hugging Face's format.
    bool add_prefix_space = false;   // In front of a text that begins with none.
    bool ignore_merges = false;      // A word that is a token is that token, whatever the merges say.
    std::optional<TokenId> unknown;  // For bytes that have no token.
    bool fuse_unknown = false;       // One for several such bytes in a row.
};

/// Splits as GPT-2 does.
void UseGpt2Splitter(BpeModel *model);

/// Reads Hugging Face's format. Throws as LoadTokenizer does.
std::unique_ptr<BpeModel> ReadTokenizerJson(const std::string &path);

/// Reads GPT-2's two files. Throws as LoadTokenizer does.
std::unique_ptr<BpeModel> ReadGpt2Files(const std::string &encoder_json, const std::string &vocab_bpe);

/// The text of a file in Hugging Face's format.
std::string ToTokenizerJson(const BpeModel &model);

// What the two readers share; `path` is for the error message.

/// Adds a token, named by its characters, with the id that stands in the file.
void AddToken(const std::string &path, std::string_view token, const Json &id, Vocabulary *vocabulary);

/// Adds the merge of two tokens, named by their characters, behind the others.
void AddMerge(const std::string &path, std::string_view left, std::string_view right, BpeModel *model);

/// Replaces all tokens but the added ones by their bytes, and drops those.
void TokensToBytes(const std::string &path, BpeModel *model);

}  // namespace infini_train::text
