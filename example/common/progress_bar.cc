#include "example/common/progress_bar.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <ostream>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {

namespace {

constexpr double kSecondsBetweenDraws = 0.1;
constexpr int64_t kWidestBar = 30;
constexpr int64_t kNarrowestBar = 5;

double SteadySeconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ProgressBar::ProgressBar(std::string label, int64_t total, std::ostream &out, const Terminal &terminal,
                         std::function<double()> now)
    : label_(std::move(label)),
      total_(total),
      out_(out),
      terminal_(terminal),
      now_(now ? std::move(now) : SteadySeconds),
      start_(now_()),
      last_draw_(-std::numeric_limits<double>::infinity()) {
    if (total < 0) {
        throw ValueError("ProgressBar: expected a total of at least 0, got " + std::to_string(total));
    }
}

ProgressBar::~ProgressBar() {
    if (line_is_open_) {
        out_ << '\n' << std::flush;
    }
}

double ProgressBar::FractionOf(int64_t done) const {
    return total_ == 0 ? 1 : std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0);
}

int64_t ProgressBar::TenthOf(int64_t done) const {
    // The small addend keeps 3 of 10 from being 2.999 tenths.
    return static_cast<int64_t>(FractionOf(done) * 10 + 1e-9);
}

bool ProgressBar::IsDue(int64_t done) const {
    return terminal_.is_terminal ? now_() - last_draw_ >= kSecondsBetweenDraws : TenthOf(done) > last_tenth_;
}

double ProgressBar::SecondsElapsed() const {
    return now_() - start_;
}

double ProgressBar::Rate(int64_t done) const {
    const double seconds = SecondsElapsed();
    return seconds > 0 ? static_cast<double>(done - start_done_) / seconds : std::numeric_limits<double>::quiet_NaN();
}

void ProgressBar::StartAt(int64_t done) {
    start_ = now_();
    start_done_ = done;
    last_tenth_ = TenthOf(done);
}

void ProgressBar::Interrupt() {
    if (line_is_open_) {
        out_ << '\n' << std::flush;
        line_is_open_ = false;
        drawn_width_ = 0;
        last_draw_ = -std::numeric_limits<double>::infinity();
    }
}

void ProgressBar::Update(int64_t done, const Fields &fields) {
    if (IsDue(done)) {
        Draw(done, fields, false);
    }
}

void ProgressBar::Finish(int64_t done, const Fields &fields) {
    Draw(done, fields, true);
    if (line_is_open_) {
        out_ << '\n' << std::flush;
        line_is_open_ = false;
    }
}

void ProgressBar::Draw(int64_t done, const Fields &fields, bool finished) {
    last_draw_ = now_();
    last_tenth_ = TenthOf(done);
    const std::string line = Line(done, fields, finished);
    if (!terminal_.is_terminal) {
        out_ << line << '\n' << std::flush;
        return;
    }
    // Spaces wipe what a longer line before has left.
    const int64_t width = std::min<int64_t>(DisplayWidth(line), CurrentWidth(terminal_) - 1);
    const std::string shown = PadRight(Truncated(line, width), drawn_width_);
    const std::string label = Truncated(label_, width);
    out_ << '\r' << Styled(terminal_, Style::kBold, label) << shown.substr(label.size()) << std::flush;
    drawn_width_ = width;
    line_is_open_ = true;
}

std::string ProgressBar::Line(int64_t done, const Fields &fields, bool finished) const {
    std::string rest = fmt::format("{:3.0f} %  {:>{}}/{}", std::floor(100 * FractionOf(done) + 1e-9), done,
                                   fmt::formatted_size("{}", total_), total_);
    for (const auto &[name, value] : fields) {
        rest += "  " + (name.empty() ? value : name + " " + value);
    }
    const double rate = Rate(done);
    rest += shows_rate_ ? "  " + FormatCount(rate) + "/s  " : "  ";
    rest += finished ? "in " + FormatDuration(SecondsElapsed())
                     : FormatDuration(static_cast<double>(total_ - done) / rate) + " left";
    if (!terminal_.is_terminal) {
        return label_ + "  " + rest;
    }
    // The last column stays free, since some terminals wrap when it is filled.
    const int64_t space = CurrentWidth(terminal_) - 1 - DisplayWidth(label_) - DisplayWidth(rest) - 2;
    const int64_t cells = std::min(space, kWidestBar);
    return label_ + " " + (cells >= kNarrowestBar ? Bar(done, cells) + " " : "") + rest;
}

std::string ProgressBar::Bar(int64_t done, int64_t cells) const {
    std::string bar;
    if (!terminal_.utf8) {
        const auto full = static_cast<int64_t>(FractionOf(done) * static_cast<double>(cells - 2));
        bar = "[" + std::string(static_cast<size_t>(full), '=');
        return PadRight(bar + (full < cells - 2 ? ">" : ""), cells - 1) + "]";
    }
    static constexpr const char *kEighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const auto eighths = static_cast<int64_t>(FractionOf(done) * static_cast<double>(8 * (cells - 2)));
    for (int64_t i = 0; i < eighths / 8; ++i) {
        bar += "█";
    }
    bar += eighths % 8 > 0 ? kEighths[eighths % 8] : "";
    return "▕" + PadRight(bar, cells - 2) + "▏";
}

}  // namespace infini_train::example
