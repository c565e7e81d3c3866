#include "example/common/confusion_matrix.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {

namespace {

constexpr size_t kNumWorstPairs = 3;

double Ratio(int64_t part, int64_t whole) {
    return whole == 0 ? std::numeric_limits<double>::quiet_NaN()
                      : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::vector<std::string> class_names)
    : class_names_(std::move(class_names)), counts_(class_names_.size() * class_names_.size()) {
    if (class_names_.empty()) {
        throw ValueError("ConfusionMatrix: expected at least one class, got none");
    }
}

void ConfusionMatrix::Add(int64_t truth, int64_t answer) {
    const int64_t classes = std::ssize(class_names_);
    for (const int64_t label : {truth, answer}) {
        if (label < 0 || label >= classes) {
            throw IndexError(fmt::format("ConfusionMatrix: expected a class in [0, {}), got {}", classes, label));
        }
    }
    ++counts_[static_cast<size_t>(truth * classes + answer)];
}

int64_t ConfusionMatrix::Count(int64_t truth, int64_t answer) const {
    return counts_.at(static_cast<size_t>(truth * std::ssize(class_names_) + answer));
}

int64_t ConfusionMatrix::Total() const {
    return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

int64_t ConfusionMatrix::Correct() const {
    int64_t correct = 0;
    for (int64_t i = 0; i < std::ssize(class_names_); ++i) {
        correct += Count(i, i);
    }
    return correct;
}

double ConfusionMatrix::Accuracy() const {
    return Ratio(Correct(), Total());
}

double ConfusionMatrix::Recall(int64_t truth) const {
    int64_t all = 0;
    for (int64_t i = 0; i < std::ssize(class_names_); ++i) {
        all += Count(truth, i);
    }
    return Ratio(Count(truth, truth), all);
}

double ConfusionMatrix::Precision(int64_t answer) const {
    int64_t all = 0;
    for (int64_t i = 0; i < std::ssize(class_names_); ++i) {
        all += Count(i, answer);
    }
    return Ratio(Count(answer, answer), all);
}

std::string ConfusionMatrix::CellText(int64_t truth, int64_t answer, int64_t width, const Terminal &terminal) const {
    const int64_t count = Count(truth, answer);
    if (count == 0) {
        return Styled(terminal, Style::kDim, PadLeft(terminal.utf8 ? "·" : ".", width));
    }
    const std::string text = PadLeft(std::to_string(count), width);
    return Styled(terminal, truth == answer ? Style::kGood : Style::kBad, text);
}

std::string ConfusionMatrix::WorstPairs(const Terminal &terminal) const {
    const int64_t classes = std::ssize(class_names_);
    std::vector<size_t> order;
    for (size_t i = 0; i < counts_.size(); ++i) {
        const bool is_wrong = static_cast<int64_t>(i) / classes != static_cast<int64_t>(i) % classes;
        if (is_wrong && counts_[i] > 0) {
            order.push_back(i);
        }
    }
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) { return counts_[a] > counts_[b]; });
    order.resize(std::min(order.size(), kNumWorstPairs));
    std::string text;
    for (const size_t i : order) {
        text += fmt::format("  {} taken for {}: {}", class_names_[i / static_cast<size_t>(classes)],
                            class_names_[i % static_cast<size_t>(classes)], counts_[i]);
        text += "\n";
    }
    return text.empty() ? "" : "\n" + Styled(terminal, Style::kBold, "Most often confused") + "\n" + text;
}

std::string ConfusionMatrix::ToString(const Terminal &terminal) const {
    const int64_t classes = std::ssize(class_names_);
    const std::string truth_title = "true class";
    int64_t name_width = DisplayWidth(truth_title);
    int64_t column_width = 0;
    for (const std::string &name : class_names_) {
        name_width = std::max(name_width, DisplayWidth(name));
        column_width = std::max(column_width, DisplayWidth(name));
    }
    const int64_t count_width = std::ssize(std::to_string(*std::max_element(counts_.begin(), counts_.end())));
    const int64_t number_width = std::ssize(std::to_string(classes - 1));
    column_width = std::max({column_width, count_width, int64_t{5}});
    constexpr int64_t kRecallWidth = 9;
    // Precision needs five columns ("100 %"), and a row is a number, a name, the counts and the recall.
    const bool names_fit =
        name_width + classes * (column_width + 2) + kRecallWidth < std::min(CurrentWidth(terminal), 120);
    if (!names_fit) {
        column_width = std::max({count_width, number_width, int64_t{5}});
    }
    const std::string gap = names_fit ? "  " : " ";
    bool names_are_numbers = true;
    for (int64_t i = 0; i < classes; ++i) {
        names_are_numbers &= class_names_[static_cast<size_t>(i)] == std::to_string(i);
    }
    const auto row_title = [&](int64_t i) {
        const std::string number = names_fit || names_are_numbers ? "" : PadLeft(std::to_string(i), number_width) + " ";
        return number + PadRight(class_names_[static_cast<size_t>(i)], name_width);
    };
    const int64_t title_width = DisplayWidth(row_title(0));

    std::string text = PadRight(truth_title, title_width);
    for (int64_t i = 0; i < classes; ++i) {
        text += gap + PadLeft(names_fit ? class_names_[static_cast<size_t>(i)] : std::to_string(i), column_width);
    }
    text = Styled(terminal, Style::kBold, text + PadLeft("recall", kRecallWidth)) + "\n";
    for (int64_t truth = 0; truth < classes; ++truth) {
        text += row_title(truth);
        for (int64_t answer = 0; answer < classes; ++answer) {
            text += gap + CellText(truth, answer, column_width, terminal);
        }
        text += PadLeft(FormatPercent(Recall(truth)), kRecallWidth) + "\n";
    }
    text += PadRight("precision", title_width);
    for (int64_t i = 0; i < classes; ++i) {
        text += gap + PadLeft(FormatPercent(Precision(i), 0), column_width);
    }
    return text + PadLeft(FormatPercent(Accuracy()), kRecallWidth) + "\n" + WorstPairs(terminal);
}

}  // namespace infini_train::example
