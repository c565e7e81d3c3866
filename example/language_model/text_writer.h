#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/text/tokenizer.h"

namespace infini_train::example {

/// The stream of random numbers for texts, besides those of weights and dropout; a training adds the step.
inline constexpr uint64_t kWritingStream = uint64_t{0x77726974} << 32;

struct TextWriterOptions {
    std::string prompt;
    int64_t length = 200;  // tokens
    double temperature = 0.8;
    int64_t top_k = 0;
    double top_p = 1;
    double repetition_penalty = 1;
    int64_t beams = 1;  // above 1: beam search
    double length_penalty = 1;
};

/// Lets a model write, and shows the text while it comes.
class TextWriter {
public:
    /// Throws ValueError for a prompt that the tokenizer can't express, and for a tokenizer with ids that the model
    /// lacks.
    TextWriter(nn::Transformer &model, const text::Tokenizer &tokenizer, const TextWriterOptions &options);

    struct Stats {
        int64_t tokens = 0;
        double seconds = 0;
    };
    /// Writes the prompt and what follows, then a line end. Ctrl-C (StopRequested) ends the text early.
    Stats Write(std::ostream &out, Generator *generator) const;

private:
    Stats WriteBeams(std::ostream &out) const;

    nn::Transformer &model_;
    const text::Tokenizer &tokenizer_;
    const TextWriterOptions options_;
    std::vector<text::TokenId> prompt_;
    std::vector<text::TokenId> stop_;
};

}  // namespace infini_train::example
