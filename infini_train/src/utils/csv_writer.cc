#include "infini_train/include/utils/csv_writer.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "infini_train/include/common/error.h"

namespace infini_train::utils {

namespace {

template <typename T>
std::string ShortestText(T value) {
    std::array<char, 64> buffer = {};
    const std::to_chars_result result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
    return {buffer.data(), result.ptr};
}

std::string Escaped(const std::string &field) {
    if (field.find_first_of(",\"\r\n") == std::string::npos) {
        return field;
    }
    std::string quoted = "\"";
    for (const char c : field) {
        quoted += c == '"' ? std::string_view("\"\"") : std::string_view(&c, 1);
    }
    return quoted + "\"";
}

}  // namespace

CsvCell::CsvCell(int64_t value) : text_(ShortestText(value)) {}

CsvCell::CsvCell(double value) : text_(ShortestText(value)) {}

CsvCell::CsvCell(float value) : text_(ShortestText(value)) {}

CsvWriter::CsvWriter(std::string path, const std::vector<std::string> &header)
    : path_(std::move(path)), num_columns_(header.size()), file_(nullptr) {
    if (header.empty()) {
        throw ValueError("CsvWriter: expected at least one column, got none");
    }
    file_ = std::fopen(path_.c_str(), "wb");
    if (file_ == nullptr) {
        throw IoError("CsvWriter: can't create '" + path_ + "': " + std::strerror(errno));
    }
    try {
        WriteLine({header.begin(), header.end()});
    } catch (...) {
        std::fclose(file_);
        throw;
    }
}

CsvWriter::~CsvWriter() {
    std::fclose(file_);
}

void CsvWriter::Row(const std::vector<CsvCell> &cells) {
    if (cells.size() != num_columns_) {
        throw ValueError("CsvWriter: expected " + std::to_string(num_columns_) + " fields, got " +
                         std::to_string(cells.size()));
    }
    WriteLine(cells);
}

void CsvWriter::WriteLine(const std::vector<CsvCell> &cells) {
    std::string line;
    for (const CsvCell &cell : cells) {
        line += (&cell == cells.data() ? "" : ",") + Escaped(cell.text());
    }
    line += '\n';
    if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fflush(file_) != 0) {
        throw IoError("CsvWriter: can't write to '" + path_ + "': " + std::strerror(errno));
    }
}

}  // namespace infini_train::utils
