#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"

namespace infini_train::utils {

/// One field: text as it is, a number in the shortest form that reads back as the same value.
class INFINI_TRAIN_EXPORT CsvCell {
public:
    CsvCell(const char *text) : text_(text) {}                    // NOLINT(google-explicit-constructor)
    CsvCell(std::string text) : text_(std::move(text)) {}         // NOLINT(google-explicit-constructor)
    CsvCell(int value) : CsvCell(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
    CsvCell(int64_t value);                                       // NOLINT(google-explicit-constructor)
    CsvCell(double value);                                        // NOLINT(google-explicit-constructor)
    CsvCell(float value);                                         // NOLINT(google-explicit-constructor)

    const std::string &text() const { return text_; }

private:
    std::string text_;
};

/// Writes a table as CSV: `CsvWriter csv(path, {"epoch", "loss"}); csv.Row({1, 0.52});`. Fields are quoted as in
/// RFC 4180, lines end in '\n'. Each row is in the file when Row returns, so that an interrupted run keeps what it has.
class INFINI_TRAIN_EXPORT CsvWriter {
public:
    /// Creates or empties the file and writes the header. Throws IoError with the path and the system's reason;
    /// ValueError if `header` is empty.
    CsvWriter(std::string path, const std::vector<std::string> &header);
    ~CsvWriter();

    CsvWriter(const CsvWriter &) = delete;
    CsvWriter &operator=(const CsvWriter &) = delete;

    /// Appends a row. Throws ValueError if its length is not the header's, IoError if it can't be written.
    void Row(const std::vector<CsvCell> &cells);

    const std::string &path() const { return path_; }

private:
    void WriteLine(const std::vector<CsvCell> &cells);

    std::string path_;
    size_t num_columns_;
    std::FILE *file_;
};

}  // namespace infini_train::utils
