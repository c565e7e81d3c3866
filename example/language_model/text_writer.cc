#include "example/language_model/text_writer.h"

#include <ostream>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

#include "example/common/clock.h"
#include "example/common/signal.h"
#include "example/language_model/generate.h"

namespace infini_train::example {
namespace {

// What separates texts for this tokenizer, and so ends one and can begin one; none for characters.
std::vector<text::TokenId> Separators(const text::Tokenizer &tokenizer) {
    std::vector<text::TokenId> ids;
    const auto special = tokenizer.SpecialTokens();
    for (const char *text : {"<|endoftext|>", "<s>", "</s>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"}) {
        const auto found = special.find(text);
        if (found != special.end()) {
            ids.push_back(found->second);
        }
    }
    return ids;
}

// What stands in front of a prompt: LLaMA's models have only seen texts that begin with <s>; the others need something
// only where there is no prompt.
std::vector<text::TokenId> Beginning(const text::Tokenizer &tokenizer, bool has_prompt) {
    const auto special = tokenizer.SpecialTokens();
    for (const char *text : {"<s>", "<|begin_of_text|>"}) {
        if (special.contains(text)) {
            return {special.at(text)};
        }
    }
    if (has_prompt) {
        return {};
    }
    if (special.contains("<|endoftext|>")) {
        return {special.at("<|endoftext|>")};
    }
    return {tokenizer.FindToken("\n").value_or(0)};
}

}  // namespace

TextWriter::TextWriter(nn::Transformer &model, const text::Tokenizer &tokenizer, const TextWriterOptions &options)
    : model_(model), tokenizer_(tokenizer), options_(options) {
    const int64_t rows = model.config().vocab_size;
    if (tokenizer.vocab_size() > rows) {
        throw ValueError(fmt::format("the tokenizer has {} tokens, the model {}: they don't belong together",
                                     tokenizer.vocab_size(), rows));
    }
    prompt_ = Beginning(tokenizer, !options.prompt.empty());
    tokenizer.EncodeTo(options.prompt, &prompt_);
    stop_ = Separators(tokenizer);
}

TextWriter::Stats TextWriter::Write(std::ostream &out, Generator *generator) const {
    if (options_.beams > 1) {
        return WriteBeams(out);
    }
    const SamplingOptions sampling = {.temperature = options_.temperature,
                                      .top_k = options_.top_k,
                                      .top_p = options_.top_p,
                                      .repetition_penalty = options_.repetition_penalty,
                                      .stop = stop_};
    out << options_.prompt << std::flush;
    text::StreamDecoder decoder(tokenizer_);
    // The prompt's tokens say whether a space that begins a text is one that the next token has.
    for (const text::TokenId id : prompt_) {
        decoder.Push(id);
    }
    Stats stats;
    const double begin = SecondsNow();
    // A model may have more rows than the tokenizer has tokens.
    const auto is_known = [&](text::TokenId id) { return id < tokenizer_.vocab_size(); };
    Generate(model_, prompt_, options_.length, sampling, generator, [&](text::TokenId id) {
        ++stats.tokens;
        out << (is_known(id) ? decoder.Push(id) : "\uFFFD") << std::flush;
        return !StopRequested();
    });
    stats.seconds = SecondsNow() - begin;
    out << decoder.Finish() << '\n' << std::flush;
    return stats;
}

TextWriter::Stats TextWriter::WriteBeams(std::ostream &out) const {
    const double begin = SecondsNow();
    const std::vector<Beam> beams = BeamSearch(model_, prompt_, options_.length,
                                               {.beams = options_.beams,
                                                .length_penalty = options_.length_penalty,
                                                .repetition_penalty = options_.repetition_penalty,
                                                .stop = stop_});
    Stats stats;
    for (const Beam &beam : beams) {
        stats.tokens += static_cast<int64_t>(beam.ids.size());
        std::vector<text::TokenId> all = prompt_;
        all.insert(all.end(), beam.ids.begin(), beam.ids.end());
        text::StreamDecoder decoder(tokenizer_);
        std::string text;
        for (size_t i = 0; i < all.size(); ++i) {
            const std::string piece = all[i] < tokenizer_.vocab_size() ? decoder.Push(all[i]) : "\uFFFD";
            text += i < prompt_.size() ? "" : piece;
        }
        out << fmt::format("[{:.4f}] ", beam.score) << options_.prompt << text << decoder.Finish() << '\n';
    }
    out << std::flush;
    stats.seconds = SecondsNow() - begin;
    return stats;
}

}  // namespace infini_train::example
