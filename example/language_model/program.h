#pragma once

#include "example/language_model/model_setup.h"

namespace infini_train::example {

/// The whole of a trainer: parses the flags, trains or writes text, and gives the program's status.
int RunLanguageModel(const ModelFamily &family, int argc, char **argv);

}  // namespace infini_train::example
