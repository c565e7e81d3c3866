#include "infini_train/include/utils/table.h"

#include <algorithm>
#include <numeric>

#include "infini_train/include/common/error.h"

namespace infini_train::utils {

// The characters of the frame: a rule's left end, crossing and right end for the top, the middle and the bottom.
struct Table::Frame {
    const char *bar;
    const char *rule;
    const char *ends[3][3];
};

namespace {

constexpr int64_t kNarrowest = 8;

}  // namespace

Table::Table(std::vector<std::string> header, std::vector<Align> align)
    : header_(std::move(header)), align_(std::move(align)) {
    if (header_.empty()) {
        throw ValueError("Table: expected at least one column, got none");
    }
    if (align_.size() > header_.size()) {
        throw ValueError("Table: expected at most " + std::to_string(header_.size()) + " alignments, got " +
                         std::to_string(align_.size()));
    }
    align_.resize(header_.size(), kLeft);
}

void Table::AddRow(std::vector<std::string> cells) {
    if (cells.size() != header_.size()) {
        throw ValueError("Table: expected " + std::to_string(header_.size()) + " cells, got " +
                         std::to_string(cells.size()));
    }
    for (std::string &cell : cells) {
        std::replace_if(
            cell.begin(), cell.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
    }
    rows_.push_back(std::move(cells));
}

void Table::AddSeparator() {
    rows_.emplace_back();
}

std::vector<int64_t> Table::Widths(const Terminal &terminal) const {
    std::vector<int64_t> widths;
    for (const std::string &name : header_) {
        widths.push_back(DisplayWidth(name));
    }
    for (const std::vector<std::string> &row : rows_) {
        for (size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], DisplayWidth(row[i]));
        }
    }
    // Each column has a bar and two spaces, and one more bar ends the line.
    const int64_t total = std::accumulate(widths.begin(), widths.end(), int64_t{0}) + 3 * std::ssize(widths) + 1;
    const int64_t excess = total - CurrentWidth(terminal);
    if (terminal.is_terminal && excess > 0) {
        widths.back() = std::max(widths.back() - excess, std::min(kNarrowest, widths.back()));
    }
    return widths;
}

std::string Table::RowText(const std::vector<std::string> &cells, const std::vector<int64_t> &widths,
                           const Frame &frame, const Terminal &terminal, bool bold) const {
    std::string text;
    std::string rest = cells.back();
    bool first = true;
    while (first || !rest.empty()) {
        for (size_t i = 0; i < cells.size(); ++i) {
            const bool is_last = i + 1 == cells.size();
            std::string cell = is_last ? Truncated(rest, widths[i]) : (first ? cells[i] : "");
            rest.erase(0, is_last ? cell.size() : 0);
            cell = align_[i] == kRight ? PadLeft(cell, widths[i]) : PadRight(cell, widths[i]);
            text += std::string(frame.bar) + " " + (bold ? Styled(terminal, Style::kBold, cell) : cell) + " ";
        }
        text += std::string(frame.bar) + "\n";
        first = false;
    }
    return text;
}

std::string Table::ToString(const Terminal &terminal) const {
    static constexpr Frame kAscii = {"|", "-", {{"+", "+", "+"}, {"+", "+", "+"}, {"+", "+", "+"}}};
    static constexpr Frame kBox = {"│", "─", {{"┌", "┬", "┐"}, {"├", "┼", "┤"}, {"└", "┴", "┘"}}};
    const Frame &frame = terminal.utf8 ? kBox : kAscii;
    const std::vector<int64_t> widths = Widths(terminal);
    const auto rule = [&](int place) {
        std::string line = frame.ends[place][0];
        for (size_t i = 0; i < widths.size(); ++i) {
            for (int64_t j = 0; j < widths[i] + 2; ++j) {
                line += frame.rule;
            }
            line += frame.ends[place][i + 1 == widths.size() ? 2 : 1];
        }
        return line + "\n";
    };

    std::string text = rule(0);
    if (std::any_of(header_.begin(), header_.end(), [](const std::string &name) { return !name.empty(); })) {
        text += RowText(header_, widths, frame, terminal, true) + rule(1);
    }
    for (const std::vector<std::string> &row : rows_) {
        text += row.empty() ? rule(1) : RowText(row, widths, frame, terminal, false);
    }
    return text + rule(2);
}

}  // namespace infini_train::utils
