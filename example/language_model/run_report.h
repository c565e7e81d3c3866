#pragma once

#include "infini_train/include/utils/terminal.h"

#include "example/language_model/corpus.h"
#include "example/language_model/machine.h"
#include "example/language_model/run_log.h"
#include "example/language_model/schedule.h"
#include "example/language_model/session.h"
#include "example/language_model/training_loop.h"

namespace infini_train::example {

/// The table at the start of a training.
void PrintRun(const Session &session, const Corpus &corpus, const Schedule &schedule, const MemoryForecast &memory,
              double peak_flops, const utils::Terminal &terminal);

/// The lines at its end: why, how much memory, which files.
void PrintEnd(LoopEnd end, const TrainingLoop &loop, int64_t peak_memory, const MemoryForecast &memory,
              const RunLog &log);

}  // namespace infini_train::example
