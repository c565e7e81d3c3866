#pragma once

#include <string>
#include <vector>

namespace infini_train::example {

/// The marks of an axis: round numbers one step apart, and their labels.
struct AxisTicks {
    double step = 1;
    std::vector<double> values;
    std::vector<std::string> labels;
};

/// At most `max_ticks` (at least 2) marks in [low, high], whose step is 1, 2 or 5 times a power of ten, or a whole
/// number if `whole_numbers`. Both ends must be finite and low < high, else ValueError.
AxisTicks NiceTicks(double low, double high, int max_ticks, bool whole_numbers = false);

}  // namespace infini_train::example
