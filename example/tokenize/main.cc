// Turns a text into files of token ids, or learns a vocabulary from it. `tokenize --help` lists the flags.

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gflags/gflags.h>

#include "infini_train/include/common/version.h"
#include "infini_train/include/data/token_dataset.h"
#include "infini_train/include/text/bpe_trainer.h"
#include "infini_train/include/text/char_tokenizer.h"
#include "infini_train/include/text/tokenizer.h"

#include "example/common/flags.h"
#include "example/common/table.h"
#include "example/common/terminal.h"
#include "example/common/text_file.h"

DEFINE_string(input, "", "the text, as UTF-8; any bytes will do");
DEFINE_string(tokenizer, "",
              "file or folder of a tokenizer: GPT-2's encoder.json beside vocab.bpe, Hugging Face's tokenizer.json, "
              "llama2.c's tokenizer.bin, or what --save_tokenizer wrote");
DEFINE_string(learn, "", "make a tokenizer from the input instead: bpe or char");
DEFINE_int32(vocab_size, 8192, "tokens that --learn=bpe makes: 256 bytes, <|endoftext|>, the rest learned");
DEFINE_string(save_tokenizer, "", "file to write the tokenizer to, as JSON (llama2.c's kind: as tokenizer.bin)");
DEFINE_string(output, "", "file to write the tokens to");
DEFINE_string(val_output, "", "file for the tokens of the text's end, by --val_fraction");
DEFINE_double(val_fraction, 0.1, "share of the characters that --val_output gets");
DEFINE_string(format, "llmc", "llmc (a header, then uint16), uint16 or uint32 (tokens only)");
DEFINE_bool(special, false, "special tokens in the text, such as <|endoftext|>, become those tokens");

namespace infini_train::example {
namespace {

constexpr int64_t kUint16Ids = 65536;

TokenFormat Format() {
    return FLAGS_format == "llmc"     ? TokenFormat::kLlmC
           : FLAGS_format == "uint16" ? TokenFormat::kUint16
                                      : TokenFormat::kUint32;
}

void CheckFlags() {
    RequireOneOf("format", FLAGS_format, {"llmc", "uint16", "uint32"});
    if (!FLAGS_learn.empty()) {
        RequireOneOf("learn", FLAGS_learn, {"bpe", "char"});
    }
    if (FLAGS_tokenizer.empty() == FLAGS_learn.empty()) {
        throw UsageError("expected either --tokenizer or --learn");
    }
    if (FLAGS_input.empty()) {
        throw UsageError("expected --input, the text");
    }
    if (FLAGS_output.empty() && FLAGS_save_tokenizer.empty()) {
        throw UsageError("expected --output or --save_tokenizer, or there is nothing to do");
    }
    if (!FLAGS_val_output.empty() && FLAGS_output.empty()) {
        throw UsageError("expected --output with --val_output");
    }
    RequireInRange("val_fraction", FLAGS_val_fraction, 0, 1);
    RequireReadable("input", FLAGS_input);
    RequireWritable("output", FLAGS_output);
    RequireWritable("val_output", FLAGS_val_output);
    RequireWritable("save_tokenizer", FLAGS_save_tokenizer);
}

std::unique_ptr<text::Tokenizer> MakeTokenizer(const std::string &content) {
    if (FLAGS_learn == "char") {
        return text::CharTokenizer::FromText(content);
    }
    if (FLAGS_learn == "bpe") {
        text::BpeTrainerOptions options;
        options.vocab_size = FLAGS_vocab_size;
        text::BpeTrainer trainer(options);
        trainer.AddText(content);
        return trainer.Train();
    }
    return text::LoadTokenizer(FLAGS_tokenizer);
}

int Main() {
    CheckFlags();
    const std::string content = ReadTextFile(FLAGS_input);
    const std::unique_ptr<text::Tokenizer> tokenizer = MakeTokenizer(content);
    if (!FLAGS_output.empty() && FLAGS_format == "uint16" && tokenizer->vocab_size() > kUint16Ids) {
        throw UsageError(fmt::format("flag --format: uint16 holds ids below {}, the vocabulary has {}; use uint32",
                                     kUint16Ids, tokenizer->vocab_size()));
    }
    Table table({"", ""});
    table.AddRow({"input", fmt::format("{}, {} bytes", FLAGS_input, content.size())});
    table.AddRow({"tokenizer", fmt::format("{}, {} tokens", tokenizer->type(), tokenizer->vocab_size())});

    const size_t begin = FLAGS_val_output.empty() ? content.size() : ValidationBegin(content, FLAGS_val_fraction);
    const auto write = [&](const std::string &path, std::string_view part) {
        if (path.empty()) {
            return;
        }
        const auto special = FLAGS_special ? text::SpecialText::kRecognise : text::SpecialText::kOrdinary;
        const auto start = std::chrono::steady_clock::now();
        const std::vector<text::TokenId> ids = tokenizer->Encode(part, special);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        WriteTokenFile(path, ids, Format());
        table.AddRow({path, fmt::format("{} tokens, {:.2f} bytes each, {:.1f} MB/s", ids.size(),
                                        static_cast<double>(part.size()) / std::max<double>(ids.size(), 1),
                                        static_cast<double>(part.size()) / std::max(seconds, 1e-9) / 1e6)});
    };
    write(FLAGS_output, std::string_view(content).substr(0, begin));
    write(FLAGS_val_output, std::string_view(content).substr(begin));
    if (!FLAGS_save_tokenizer.empty()) {
        tokenizer->Save(FLAGS_save_tokenizer);
        table.AddRow({FLAGS_save_tokenizer, "the tokenizer"});
    }
    std::cout << table.ToString(DetectTerminal(STDOUT_FILENO)) << std::flush;
    return 0;
}

}  // namespace
}  // namespace infini_train::example

int main(int argc, char **argv) {
    using namespace infini_train::example;
    const ProgramInfo info = {
        "tokenize",
        "Turns a text into files of token ids to train on, or learns a vocabulary from it.",
        fmt::format("{}.{}.{}", infini_train::kVersionMajor, infini_train::kVersionMinor, infini_train::kVersionPatch),
        {{"Text", {"input", "val_fraction"}},
         {"Tokenizer", {"tokenizer", "learn", "vocab_size", "special", "save_tokenizer"}},
         {"Output", {"output", "val_output", "format"}}},
        {"tokenize --tokenizer=gpt2 --input=text.txt --output=train.bin --val_output=val.bin",
         "tokenize --learn=bpe --vocab_size=1024 --input=text.txt --save_tokenizer=tokenizer.json --output=train.bin"}};
    return RunProgram(info, argc, argv, Main);
}
