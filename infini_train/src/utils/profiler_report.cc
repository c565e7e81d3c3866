#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "infini_train/include/utils/profiler.h"
#include "infini_train/include/utils/table.h"

namespace infini_train::utils {
namespace {

const char *PhaseName(ProfilePhase phase) {
    return phase == ProfilePhase::kForward ? "forward" : phase == ProfilePhase::kBackward ? "backward" : "optimizer";
}

double Seconds(int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) * 1e-9;
}

// 812 ns, 1.23 us, 45.6 ms, 2.50 s
std::string FormatTime(double seconds) {
    constexpr const char *kUnits[] = {"s", "ms", "us", "ns"};
    size_t unit = 0;
    while (seconds < 0.9995 && seconds > 0 && unit + 1 < std::size(kUnits)) {
        seconds *= 1000;
        ++unit;
    }
    return fmt::format("{:.{}f} {}", seconds, seconds >= 99.95 ? 0 : (seconds >= 9.995 ? 1 : 2), kUnits[unit]);
}

// An amount a second, in billions; nothing for none.
std::string Rate(int64_t amount, int64_t nanoseconds) {
    return amount == 0 || nanoseconds <= 0
               ? std::string()
               : FormatFixed(static_cast<double>(amount) / static_cast<double>(nanoseconds), 2);
}

std::string Share(int64_t part, int64_t whole) {
    return whole <= 0 ? "-" : FormatPercent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string Bytes(int64_t bytes) {
    return bytes == 0 ? std::string() : FormatBytes(bytes);
}

// What both tables have: counts and times, of a step if that is wanted.
class Numbers {
public:
    Numbers(const ProfileTableOptions &options, const ProfileTotals &totals)
        : steps_(options.per_step && totals.steps > 0 ? static_cast<double>(totals.steps) : 1) {}

    std::string Time(int64_t nanoseconds) const {
        return nanoseconds == 0 ? "" : FormatTime(Seconds(nanoseconds) / steps_);
    }
    std::string Amount(int64_t amount) const {
        return amount == 0 ? "" : FormatCount(static_cast<double>(amount) / steps_);
    }
    std::string Calls(int64_t calls) const {
        const double each = static_cast<double>(calls) / steps_;
        return each == static_cast<double>(static_cast<int64_t>(each)) ? fmt::format("{:.0f}", each)
                                                                       : FormatFixed(each, 1);
    }

private:
    const double steps_;
};

// Whether a row comes before another; `stats(row)` and `name(row)` tell.
bool Before(ProfileOrder order, const ProfileStats &a, const ProfileStats &b) {
    switch (order) {
        case ProfileOrder::kTotalTime:
            return a.total_ns > b.total_ns;
        case ProfileOrder::kCalls:
            return a.calls > b.calls;
        case ProfileOrder::kFlops:
            return a.flops > b.flops;
        case ProfileOrder::kBytes:
            return a.bytes > b.bytes;
        case ProfileOrder::kPeak:
            return a.peak_bytes > b.peak_bytes;
        default:
            return a.self_ns > b.self_ns;
    }
}

ProfileStats Both(const ModuleProfile &module) {
    ProfileStats both = module.forward;
    both.total_ns += module.backward.total_ns;
    both.self_ns += module.backward.self_ns;
    both.flops += module.backward.flops;
    both.bytes += module.backward.bytes;
    both.peak_bytes = std::max(both.peak_bytes, module.backward.peak_bytes);
    both.growth_bytes = std::max(both.growth_bytes, module.backward.growth_bytes);
    return both;
}

// A note under a table that was cut short.
std::string LeftOut(size_t rows, size_t shown) {
    return rows > shown ? fmt::format("{} more rows\n", rows - shown) : std::string();
}

}  // namespace

std::string Profiler::OperatorTable(const ProfileTableOptions &options) const {
    std::vector<OperatorProfile> rows = Operators();
    const ProfileTotals totals = Totals();
    const Numbers numbers(options, totals);
    const int64_t whole = totals.forward_ns + totals.backward_ns + totals.optimizer_ns;
    std::stable_sort(rows.begin(), rows.end(), [&](const OperatorProfile &a, const OperatorProfile &b) {
        return options.order == ProfileOrder::kName ? std::tie(a.type, a.phase) < std::tie(b.type, b.phase)
                                                    : Before(options.order, a.stats, b.stats);
    });
    const auto right = Table::kRight;
    Table table(
        {"operator", "phase", "calls", "total", "self", "share", "FLOPs", "GFLOP/s", "bytes", "GB/s", "peak", "growth"},
        {Table::kLeft, Table::kLeft, right, right, right, right, right, right, right, right, right, right});
    const size_t shown = std::min(rows.size(), options.max_rows);
    for (size_t i = 0; i < shown; ++i) {
        const auto &[type, phase, stats] = rows[i];
        table.AddRow({type, PhaseName(phase), numbers.Calls(stats.calls), numbers.Time(stats.total_ns),
                      numbers.Time(stats.self_ns), Share(stats.self_ns, whole), numbers.Amount(stats.flops),
                      Rate(stats.flops, stats.self_ns), numbers.Amount(stats.bytes), Rate(stats.bytes, stats.self_ns),
                      Bytes(stats.peak_bytes), Bytes(stats.growth_bytes)});
    }
    return table.ToString(options.terminal) + LeftOut(rows.size(), shown);
}

std::string Profiler::ModuleTable(const ProfileTableOptions &options) const {
    std::vector<ModuleProfile> rows = Modules();
    const ProfileTotals totals = Totals();
    const Numbers numbers(options, totals);
    const int64_t whole = totals.forward_ns + totals.backward_ns + totals.module_ns;
    std::stable_sort(rows.begin(), rows.end(), [&](const ModuleProfile &a, const ModuleProfile &b) {
        return options.order == ProfileOrder::kName ? a.name < b.name : Before(options.order, Both(a), Both(b));
    });
    const auto right = Table::kRight;
    Table table({"module", "calls", "forward", "self", "backward", "self", "share", "FLOPs", "GFLOP/s", "bytes", "peak",
                 "growth"},
                {Table::kLeft, right, right, right, right, right, right, right, right, right, right, right});
    const size_t shown = std::min(rows.size(), options.max_rows);
    for (size_t i = 0; i < shown; ++i) {
        const ModuleProfile &row = rows[i];
        const ProfileStats both = Both(row);
        table.AddRow({row.name, numbers.Calls(row.forward.calls), numbers.Time(row.forward.total_ns),
                      numbers.Time(row.forward.self_ns), numbers.Time(row.backward.total_ns),
                      numbers.Time(row.backward.self_ns), Share(both.self_ns, whole), numbers.Amount(both.flops),
                      Rate(both.flops, both.total_ns), numbers.Amount(both.bytes), Bytes(both.peak_bytes),
                      Bytes(both.growth_bytes)});
    }
    return table.ToString(options.terminal) + LeftOut(rows.size(), shown);
}

std::string Profiler::ToString(const ProfileTableOptions &options) const {
    const ProfileTotals totals = Totals();
    const auto part = [&](const char *what, int64_t nanoseconds) {
        return nanoseconds == 0 ? std::string() : fmt::format(", {} {}", what, FormatTime(Seconds(nanoseconds)));
    };
    std::string text =
        fmt::format("{} step{} in {}", totals.steps, totals.steps == 1 ? "" : "s", FormatTime(Seconds(totals.wall_ns)));
    text += part("forward", totals.forward_ns) + part("backward", totals.backward_ns) +
            part("optimizer", totals.optimizer_ns) + part("modules' own", totals.module_ns) +
            part("profiler", totals.profiler_ns) + "\n";
    text += fmt::format("{} FLOPs, {} GFLOP/s in operators, {}B moved at least, memory peak {}\n",
                        FormatCount(static_cast<double>(totals.flops)),
                        Rate(totals.flops, totals.forward_ns + totals.backward_ns),
                        FormatCount(static_cast<double>(totals.bytes)), FormatBytes(totals.peak_bytes));
    if (!totals.uncounted.empty()) {
        text += fmt::format("no costs known of: {}\n", fmt::join(totals.uncounted, ", "));
    }
    if (totals.dropped_events > 0) {
        text += fmt::format("{} events are not in the trace\n", totals.dropped_events);
    }
    return text + OperatorTable(options) + ModuleTable(options);
}

std::ostream &operator<<(std::ostream &stream, const Profiler &profiler) {
    return stream << profiler.ToString();
}

}  // namespace infini_train::utils
