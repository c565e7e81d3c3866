#include "example/language_model/session.h"

#include <iostream>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/core/parallel.h"

#include "example/common/flags.h"
#include "example/language_model/flags.h"

namespace infini_train::example {
namespace {

Device StartMachine() {
    const Device device = Device::FromString(FLAGS_device);
    GetDeviceBackend(device);  // throws where there is none
    if (FLAGS_threads > 0) {
        SetNumThreads(FLAGS_threads);
    }
    ManualSeed(FLAGS_seed);
    return device;
}

DataType Dtype() {
    return FLAGS_dtype == "bfloat16" ? DataType::kBFLOAT16 : DataType::kFLOAT32;
}

void FindCheckpoint(Session *session) {
    if (FLAGS_checkpoint_dir.empty()) {
        return;
    }
    const CheckpointFolder folder(FLAGS_checkpoint_dir);
    session->checkpoint = folder.Latest().value_or("");
    if (session->checkpoint.empty()) {
        if (FLAGS_resume) {
            std::cout << fmt::format("no checkpoint in {} yet: from the beginning\n", FLAGS_checkpoint_dir);
        }
        return;
    }
    if (!FLAGS_resume) {
        throw UsageError(
            fmt::format("--checkpoint_dir={} holds a training that came to {}; --resume goes on with it, "
                        "or name another folder",
                        FLAGS_checkpoint_dir, session->checkpoint));
    }
    session->resumed = Checkpoint::Verify(session->checkpoint);
    AdoptFlags(session->resumed->flags);
}

// `beside` is what lies beside the weights.
void ChooseTokenizer(Session *session, const std::string &beside) {
    std::string source = FLAGS_tokenizer;
    if (source.empty() && session->resumed) {
        source = FindTokenizer(FLAGS_checkpoint_dir);
    }
    source = source.empty() ? beside : source;
    if (source.empty() && !FLAGS_text.empty() && session->model == nullptr) {
        source = "char";
    }
    if (source.empty()) {
        return;
    }
    session->tokenizer =
        MakeTokenizer(source, session->content, session->model != nullptr ? session->model->config().vocab_size : 0);
    session->tokenizer_source = source == "char" ? "" : source;
}

int64_t VocabSize(const ModelFamily &family, const Session &session) {
    const int64_t tokens = session.tokenizer != nullptr ? session.tokenizer->vocab_size() : 0;
    if (FLAGS_vocab_size > 0) {
        if (FLAGS_vocab_size < tokens) {
            throw UsageError(fmt::format("flag --vocab_size: expected at least {}, the tokenizer's tokens, got {}",
                                         tokens, FLAGS_vocab_size));
        }
        return FLAGS_vocab_size;
    }
    return tokens > 0 ? tokens : family.vocab_size;
}

void MakeModel(const ModelFamily &family, Session *session) {
    if (session->resumed) {
        // Its values come with the rest of the checkpoint.
        session->model = std::make_shared<nn::Transformer>(ConfigFromText(session->resumed->flags, session->checkpoint),
                                                           session->device, Dtype(), /*initialize=*/false);
        session->model_source = fmt::format("checkpoint of step {}", session->resumed->step);
    } else if (session->model == nullptr) {
        session->model = std::make_shared<nn::Transformer>(ConfigFromFlags(family, VocabSize(family, *session)),
                                                           session->device, Dtype());
        session->model_source = FLAGS_model.empty() ? "new" : FLAGS_model + ", new";
    }
    const int64_t rows = session->model->config().vocab_size;
    if (session->tokenizer != nullptr && session->tokenizer->vocab_size() > rows) {
        throw ValueError(fmt::format("the tokenizer has {} tokens, the model {}: they don't belong together",
                                     session->tokenizer->vocab_size(), rows));
    }
}

}  // namespace

Session BeginTraining(const ModelFamily &family) {
    Session session;
    FindCheckpoint(&session);
    session.device = StartMachine();
    if (FLAGS_text.empty() && FLAGS_input_bin.empty()) {
        throw UsageError(
            fmt::format("nothing to learn from: give --text=FILE, --text=kjv or --input_bin=FILES, or "
                        "--generate to write with a trained model"));
    }
    if (!FLAGS_text.empty()) {
        session.content = ReadCorpusText(FLAGS_text);
    }
    std::string beside;
    if (!FLAGS_load.empty() && !session.resumed) {
        ModelSource loaded = LoadModelFrom(FLAGS_load, Dtype(), FLAGS_dropout, session.device);
        session.model = loaded.model;
        session.model_source = fmt::format("{}, {}", FLAGS_load, loaded.description);
        beside = loaded.tokenizer;
    }
    ChooseTokenizer(&session, beside);
    if (!FLAGS_text.empty() && session.tokenizer == nullptr) {
        throw UsageError(fmt::format("no tokenizer lies beside '{}': give --tokenizer", FLAGS_load));
    }
    MakeModel(family, &session);
    CheckContext(session.model->config(), FLAGS_sequence_length);
    return session;
}

Session BeginWriting() {
    if (FLAGS_load.empty() == FLAGS_checkpoint_dir.empty()) {
        throw UsageError("--generate: expected the model as either --load or --checkpoint_dir");
    }
    Session session;
    session.device = StartMachine();
    const std::string path = FLAGS_load.empty() ? FLAGS_checkpoint_dir : FLAGS_load;
    ModelSource loaded = LoadModelFrom(path, Dtype(), /*dropout=*/0, session.device);
    session.model = loaded.model;
    session.model_source = loaded.description;
    if (!FLAGS_text.empty()) {
        session.content = ReadCorpusText(FLAGS_text);  // for --tokenizer=char
    }
    ChooseTokenizer(&session, loaded.tokenizer);
    if (session.tokenizer == nullptr) {
        throw UsageError(fmt::format("no tokenizer lies beside '{}': give --tokenizer", path));
    }
    return session;
}

TextWriterOptions WriterOptions() {
    return {.prompt = FLAGS_prompt,
            .length = FLAGS_text_length,
            .temperature = FLAGS_greedy ? 0 : FLAGS_temperature,
            .top_k = FLAGS_top_k,
            .top_p = FLAGS_top_p,
            .repetition_penalty = FLAGS_repetition_penalty,
            .beams = FLAGS_num_beams,
            .length_penalty = FLAGS_length_penalty};
}

}  // namespace infini_train::example
