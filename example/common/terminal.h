#pragma once

#include "infini_train/include/utils/terminal.h"

/// The library's, under the trainers' names.
namespace infini_train::example {

using utils::ColorDepth;
using utils::CurrentWidth;
using utils::DetectTerminal;
using utils::DisplayWidth;
using utils::FormatCount;
using utils::FormatDuration;
using utils::FormatFixed;
using utils::FormatPercent;
using utils::PadLeft;
using utils::PadRight;
using utils::Style;
using utils::Styled;
using utils::Terminal;
using utils::Truncated;

}  // namespace infini_train::example
