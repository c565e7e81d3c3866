#include "example/language_model/run_report.h"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "infini_train/include/core/parallel.h"

#include "example/common/table.h"
#include "example/common/terminal.h"
#include "example/language_model/flags.h"

namespace infini_train::example {
namespace {

void AddDataRows(const Session &session, const Corpus &corpus, Table *table) {
    table->AddRow({"data", corpus.source});
    table->AddRow({"tokens", fmt::format("{} to train, {} for validation", corpus.train->NumTokens(),
                                         corpus.validation != nullptr ? corpus.validation->NumTokens() : 0)});
    if (session.tokenizer != nullptr) {
        table->AddRow(
            {"tokenizer", fmt::format("{}, {} tokens{}{}", session.tokenizer->type(), session.tokenizer->vocab_size(),
                                      session.tokenizer_source.empty() ? "" : ", ", session.tokenizer_source)});
    }
}

}  // namespace

void PrintRun(const Session &session, const Corpus &corpus, const Schedule &schedule, const MemoryForecast &memory,
              double peak_flops, const Terminal &terminal) {
    const nn::Transformer &model = *session.model;
    Table table({"", ""});
    AddDataRows(session, corpus, &table);
    table.AddRow({"model", fmt::format("{}: {}", session.model_source, DescribeConfig(model.config()))});
    int64_t decayed = 0;
    for (const TensorPtr &parameter : model.DecayParameters()) {
        decayed += parameter->NumElements();
    }
    table.AddRow({"parameters", fmt::format("{}, {} of them with weight decay {}", model.config().NumParameters(),
                                            decayed, FLAGS_weight_decay)});
    table.AddRow({"step", fmt::format("{} tokens: {} x {} sequences of {}", TokensPerStep(), AccumulationSteps(),
                                      FLAGS_batch_size, FLAGS_sequence_length)});
    const double epochs = static_cast<double>(NumIterations() * TokensPerStep()) /
                          static_cast<double>(std::max<uint64_t>(corpus.train->NumTokens(), 1));
    table.AddRow({"steps", fmt::format("{}, {} tokens, {:.2f} times the data", NumIterations(),
                                       NumIterations() * TokensPerStep(), epochs)});
    table.AddRow({"optimizer", fmt::format("AdamW, {}", schedule.Describe())});
    table.AddRow({"memory", fmt::format("about {}: parameters {}, gradients {}, optimizer {}, activations {}",
                                        FormatBytes(memory.process), FormatBytes(memory.parameters),
                                        FormatBytes(memory.gradients), FormatBytes(memory.optimizer),
                                        FormatBytes(memory.activations))});
    table.AddRow({"device", fmt::format("{}, {} threads, {}, {:.0f} GFLOP/s at most", session.device.ToString(),
                                        GetNumThreads(), FLAGS_dtype, peak_flops / 1e9)});
    table.AddRow({"seed", std::to_string(FLAGS_seed)});
    std::cout << table.ToString(terminal) << std::flush;
}

void PrintEnd(LoopEnd end, const TrainingLoop &loop, int64_t peak_memory, const MemoryForecast &memory,
              const RunLog &log) {
    if (end == LoopEnd::kPatience) {
        std::cout << fmt::format("ended early: {} validations without a better loss\n", FLAGS_patience);
    }
    if (end == LoopEnd::kStopped) {
        std::cout << fmt::format("stopped after step {}{}\n", loop.step(),
                                 FLAGS_checkpoint_dir.empty()
                                     ? ""
                                     : fmt::format("; go on with --checkpoint_dir={} --resume", FLAGS_checkpoint_dir));
    }
    std::cout << fmt::format("memory:  {} at most, {} forecast\n", FormatBytes(peak_memory),
                             FormatBytes(memory.process));
    if (!log.IsEmpty()) {
        std::cout << fmt::format("history: {}, {}\n", log.csv_path(), log.plot_path());
    }
    if (!FLAGS_save.empty()) {
        std::cout << fmt::format("model:   {}\n", FLAGS_save);
    }
}

}  // namespace infini_train::example
