#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "example/common/terminal.h"

namespace infini_train::example {

/// Shows how far a loop is. In a terminal, one line that is redrawn at most ten times a second:
///
///     Epoch 1/5 ▕█████████████▌                ▏  45 %  27000/60000  loss 0.523  accuracy 81.2 %  12.3k/s  0:03 left
///
/// Elsewhere plain lines, at most one for each tenth of the way. The rate and the time left are added by the bar.
class ProgressBar {
public:
    /// Names and values, such as {"loss", "0.523"}.
    using Fields = std::vector<std::pair<std::string, std::string>>;

    /// `total` is the number of units (samples), which may be 0; `now` gives seconds and stands in for the steady clock
    /// in tests. Draws nothing yet. `out` must outlive the bar. Throws ValueError if `total` < 0.
    ProgressBar(std::string label, int64_t total, std::ostream &out, const Terminal &terminal,
                std::function<double()> now = {});
    /// Ends the line if it is still open, so that an error message gets its own.
    ~ProgressBar();

    ProgressBar(const ProgressBar &) = delete;
    ProgressBar &operator=(const ProgressBar &) = delete;

    /// Whether Update(done, ...) would draw: ask first where the fields cost something, such as a copy from a GPU.
    bool IsDue(int64_t done) const;

    /// Whether lines show the units a second; they do at first.
    void ShowRate(bool show) { shows_rate_ = show; }

    /// Starts the clock now, with `done` units that were there before: they count neither for the rate nor for the time
    /// left.
    void StartAt(int64_t done);

    /// Says that `done` units are behind us; draws if due.
    void Update(int64_t done, const Fields &fields);

    /// Draws a last time, with the time taken in place of the time left, and ends the line. `done` may be less than the
    /// total where the loop was interrupted.
    void Finish(int64_t done, const Fields &fields);

    /// Ends the open line, so that other text gets lines of its own; the next Update draws at once, below it.
    void Interrupt();

    /// Units a second since the start, NaN at the very start.
    double Rate(int64_t done) const;
    double SecondsElapsed() const;

private:
    std::string Line(int64_t done, const Fields &fields, bool finished) const;
    std::string Bar(int64_t done, int64_t cells) const;
    double FractionOf(int64_t done) const;
    int64_t TenthOf(int64_t done) const;
    void Draw(int64_t done, const Fields &fields, bool finished);

    std::string label_;
    int64_t total_;
    std::ostream &out_;
    Terminal terminal_;
    std::function<double()> now_;
    double start_;
    int64_t start_done_ = 0;
    double last_draw_;
    int64_t last_tenth_ = 0;
    int64_t drawn_width_ = 0;
    bool shows_rate_ = true;
    bool line_is_open_ = false;
};

}  // namespace infini_train::example
