#include "example/common/axis_ticks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {

namespace {

// The label of `value` on an axis that shows nothing finer than `step`, with a true minus sign.
std::string LabelOf(double value, double step, double largest) {
    constexpr double kLarge = 1e6;
    constexpr double kSmall = 1e-4;
    std::string text;
    if (largest >= kLarge || largest < kSmall) {
        if (value == 0) {
            return "0";
        }
        // As many digits as tell neighbours apart.
        const double digits = std::clamp(std::ceil(std::log10(std::abs(value) / step) + 1e-9), 0.0, 12.0) + 1;
        text = fmt::format("{:.{}g}", std::abs(value), static_cast<int>(digits));
    } else {
        const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
        text = fmt::format("{:.{}f}", std::abs(value), decimals);
    }
    return value < 0 ? "−" + text : text;
}

// The smallest step of the form 1, 2 or 5 times 10^k that is at least `wanted`.
double RoundStep(double wanted) {
    const double power = std::pow(10, std::floor(std::log10(wanted)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= wanted * (1 - 1e-9)) {
            return factor * power;
        }
    }
    return 10 * power;
}

}  // namespace

AxisTicks NiceTicks(double low, double high, int max_ticks, bool whole_numbers) {
    if (!std::isfinite(low) || !std::isfinite(high) || !(low < high) || !std::isfinite(high - low)) {
        throw ValueError(fmt::format("NiceTicks: expected a finite range, got {} to {}", low, high));
    }
    if (max_ticks < 2) {
        throw ValueError(fmt::format("NiceTicks: expected at least 2 ticks, got {}", max_ticks));
    }
    AxisTicks ticks;
    ticks.step = RoundStep((high - low) / (max_ticks - 1));
    if (whole_numbers) {
        ticks.step = std::max(ticks.step, 1.0);
    }
    // A range that begins between two marks may hold one mark more than steps.
    const double slack = ticks.step * 1e-9;
    const double first = std::ceil((low - slack) / ticks.step);
    const double last = std::floor((high + slack) / ticks.step);
    const double largest = std::max(std::abs(first), std::abs(last)) * ticks.step;
    for (double i = first; i <= last && std::ssize(ticks.values) < max_ticks; ++i) {
        ticks.values.push_back(i == 0 ? 0 : i * ticks.step);
        ticks.labels.push_back(LabelOf(ticks.values.back(), ticks.step, largest));
    }
    return ticks;
}

}  // namespace infini_train::example
