#include "example/language_model/program.h"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "infini_train/include/common/version.h"

#include "example/common/flags.h"
#include "example/common/signal.h"
#include "example/language_model/flags.h"
#include "example/language_model/session.h"
#include "example/language_model/training_program.h"

namespace infini_train::example {
namespace {

int WriteText() {
    const StopOnSignal stop;
    const Session session = BeginWriting();
    const TextWriter writer(*session.model, *session.tokenizer, WriterOptions());
    Generator generator(FLAGS_seed, kWritingStream);
    TextWriter::Stats all;
    for (int i = 0; i < FLAGS_num_samples && !StopRequested(); ++i) {
        std::cout << (i > 0 ? "---\n" : "");
        const TextWriter::Stats stats = writer.Write(std::cout, &generator);
        all.tokens += stats.tokens;
        all.seconds += stats.seconds;
    }
    // The text alone goes to the output.
    std::cerr << fmt::format("\n{}: {} tokens in {:.2f} s, {:.0f} a second\n", session.model_source, all.tokens,
                             all.seconds, static_cast<double>(all.tokens) / std::max(all.seconds, 1e-9));
    return 0;
}

}  // namespace

int RunLanguageModel(const ModelFamily &family, int argc, char **argv) {
    ProgramInfo info;
    info.name = family.name;
    info.summary = family.summary;
    info.version =
        fmt::format("{}.{}.{}", infini_train::kVersionMajor, infini_train::kVersionMinor, infini_train::kVersionPatch);
    info.groups = LanguageModelFlagGroups();
    info.examples = family.examples;
    return RunProgram(info, argc, argv, [&family] {
        CheckLanguageModelFlags();
        return FLAGS_generate ? WriteText() : TrainModel(family);
    });
}

}  // namespace infini_train::example
