#pragma once

#include <memory>
#include <optional>
#include <string>

#include "infini_train/include/checkpoint/checkpoint.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"

#include "example/language_model/corpus.h"
#include "example/language_model/model_setup.h"
#include "example/language_model/text_writer.h"

namespace infini_train::example {

/// The model of a run and what its ids mean.
struct Session {
    Device device;
    std::shared_ptr<nn::Transformer> model;
    std::string model_source;                    // "new", or where the weights come from
    std::unique_ptr<text::Tokenizer> tokenizer;  // null: ids are just numbers
    std::string tokenizer_source;
    std::string content;                    // of --text
    std::string checkpoint;                 // to go on from, "" for a fresh start
    std::optional<CheckpointInfo> resumed;  // what it says
};

/// Threads, device and seed. With --resume the flags of the latest checkpoint are taken over first. Throws UsageError
/// for --checkpoint_dir with the checkpoints of another run.
Session BeginTraining(const ModelFamily &family);

/// For --generate: weights from --load or --checkpoint_dir. Throws UsageError without either, and without a tokenizer.
Session BeginWriting();

TextWriterOptions WriterOptions();

}  // namespace infini_train::example
