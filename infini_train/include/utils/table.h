#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infini_train/include/utils/terminal.h"

namespace infini_train::utils {

/// A table with a frame:
///
///     Table table({"epoch", "loss"}, {Table::kRight, Table::kRight});
///     table.AddRow({"1", "0.52"});
///     std::cout << table.ToString(terminal);
class INFINI_TRAIN_EXPORT Table {
public:
    enum Align {
        kLeft,
        kRight,
    };

    /// `header` names the columns; with all names empty no header is drawn. Columns without an alignment go left.
    /// Throws ValueError if there is no column, or more alignments than columns.
    explicit Table(std::vector<std::string> header, std::vector<Align> align = {});

    /// Throws ValueError if the number of cells is not that of the columns. Line ends in a cell become spaces.
    void AddRow(std::vector<std::string> cells);

    /// A line between the rows before and those after it.
    void AddSeparator();

    /// The table as lines. Where a person watches, the last column is folded so that the lines fit the width.
    std::string ToString(const Terminal &terminal) const;

private:
    struct Frame;

    std::vector<int64_t> Widths(const Terminal &terminal) const;
    std::string RowText(const std::vector<std::string> &cells, const std::vector<int64_t> &widths, const Frame &frame,
                        const Terminal &terminal, bool bold) const;

    std::vector<std::string> header_;
    std::vector<Align> align_;
    std::vector<std::vector<std::string>> rows_;  // an empty one is a separator
};

}  // namespace infini_train::utils
