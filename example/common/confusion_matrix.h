#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "example/common/terminal.h"

namespace infini_train::example {

/// Counts which class was taken for which.
class ConfusionMatrix {
public:
    /// Throws ValueError if there is no class.
    explicit ConfusionMatrix(std::vector<std::string> class_names);

    /// Counts one answer. Throws IndexError if a class is out of range.
    void Add(int64_t truth, int64_t answer);

    int64_t Count(int64_t truth, int64_t answer) const;
    int64_t Total() const;
    int64_t Correct() const;

    /// The share of right answers: of all; of the items of a class; of the answers that named it. NaN for none.
    double Accuracy() const;
    double Recall(int64_t truth) const;
    double Precision(int64_t answer) const;

    /// A row for each true class, a column for each answer, recall and precision at the edges, and below it the pairs
    /// most often confused. Columns go by number where the names don't fit the width.
    std::string ToString(const Terminal &terminal) const;

private:
    std::string CellText(int64_t truth, int64_t answer, int64_t width, const Terminal &terminal) const;
    std::string WorstPairs(const Terminal &terminal) const;

    std::vector<std::string> class_names_;
    std::vector<int64_t> counts_;  // (truth, answer)
};

}  // namespace infini_train::example
