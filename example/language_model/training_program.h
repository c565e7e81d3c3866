#pragma once

#include "example/language_model/model_setup.h"

namespace infini_train::example {

/// Trains as the flags say, from the table at the start to the files at the end; the program's status.
int TrainModel(const ModelFamily &family);

}  // namespace infini_train::example
