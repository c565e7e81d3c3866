#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/data/token_dataset.h"
#include "infini_train/include/text/tokenizer.h"

namespace infini_train::example {

/// What to learn from, and what its ids mean.
struct Corpus {
    std::shared_ptr<const TokenDataset> train;
    std::shared_ptr<const TokenDataset> validation;  // null: there is none
    std::string source;                              // for the table
};

struct CorpusOptions {
    std::string text;                     // a file, or "kjv"
    std::vector<std::string> input_bins;  // in its place
    std::vector<std::string> validation_bins;
    TokenFormat format = TokenFormat::kLlmC;
    double validation_fraction = 0.1;
    size_t window = 64;
    size_t stride = 0;       // of the training windows; 0: 1 for a text below 4 million tokens, the window for files
    int64_t vocab_size = 0;  // ids have to be below
};

/// "kjv" stands for what Debian's program `bible` prints; anything else is a file. Throws IoError.
std::string ReadCorpusText(const std::string &text);

/// The tokenizer that a flag names: "char" makes one of `content`. Throws IoError as LoadTokenizer does. `vocab_size`
/// is the model's, where it is known, or 0.
std::unique_ptr<text::Tokenizer> MakeTokenizer(const std::string &flag, const std::string &content, int64_t vocab_size);

/// The path of the tokenizer in a folder, or "" if there is none.
std::string FindTokenizer(const std::string &folder);
/// Writes it into a folder, under the name by which FindTokenizer finds it.
void SaveTokenizer(const text::Tokenizer &tokenizer, const std::string &folder);

/// `content` and `tokenizer` are those of a text; without one, null will do. Throws what TokenDataset throws, and
/// ValueError for a text that is too short for a window.
Corpus MakeCorpus(const CorpusOptions &options, const std::string &content, const text::Tokenizer *tokenizer);

}  // namespace infini_train::example
