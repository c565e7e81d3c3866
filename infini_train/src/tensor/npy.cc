#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <string>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/core/size.h"
#include "infini_train/src/tensor/shape.h"

// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

namespace infini_train {
namespace {

static_assert(std::endian::native == std::endian::little, "big-endian machines would need to swap bytes here");

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;

struct Code {
    DataType dtype;
    const char *descr;
};
constexpr Code kCodes[] = {
    {DataType::kUINT8, "|u1"},   {DataType::kINT8, "|i1"},    {DataType::kUINT16, "<u2"},  {DataType::kINT16, "<i2"},
    {DataType::kUINT32, "<u4"},  {DataType::kINT32, "<i4"},   {DataType::kUINT64, "<u8"},  {DataType::kINT64, "<i8"},
    {DataType::kFLOAT16, "<f2"}, {DataType::kFLOAT32, "<f4"}, {DataType::kFLOAT64, "<f8"}, {DataType::kBOOL, "|b1"},
};

struct Header {
    DataType dtype;
    bool fortran_order;
    std::vector<int64_t> dims;
};

/// Reads the Python dictionary of a header: three keys, of a string, a truth value and a tuple of integers.
class HeaderParser {
public:
    HeaderParser(const std::string &text, const std::string &path) : text_(text), path_(path) {}

    Header Parse() const {
        Header header{};
        const std::string descr = Quoted(After("descr"));
        const Code *found = nullptr;
        for (const Code &code : kCodes) {
            // One byte has no order, whatever the file says.
            if (descr == code.descr ||
                (descr.size() == 3 && descr[2] == '1' && descr[1] == code.descr[1] && code.descr[2] == '1')) {
                found = &code;
            }
        }
        if (found == nullptr) {
            Fail("a little-endian number or bool as descr", "'" + descr + "'");
        }
        header.dtype = found->dtype;
        const size_t order = After("fortran_order");
        header.fortran_order = text_.compare(order, 4, "True") == 0;
        if (!header.fortran_order && text_.compare(order, 5, "False") != 0) {
            Fail("True or False as fortran_order", text_.substr(order, 8));
        }
        header.dims = Tuple(After("shape"));
        return header;
    }

private:
    [[noreturn]] void Fail(const std::string &expected, const std::string &found) const {
        Throw<IoError>("FromNpy: {}: expected {}, found {}", path_, expected, found);
    }

    // The position of the value of a key.
    size_t After(const std::string &key) const {
        size_t position = text_.find("'" + key + "'");
        if (position != std::string::npos) {
            position = text_.find(':', position);
        }
        if (position == std::string::npos) {
            Fail("the key '" + key + "'", "none");
        }
        position = text_.find_first_not_of(' ', position + 1);
        return std::min(position, text_.size());
    }

    std::string Quoted(size_t position) const {
        const size_t end =
            position < text_.size() && text_[position] == '\'' ? text_.find('\'', position + 1) : std::string::npos;
        if (end == std::string::npos) {
            Fail("a quoted descr", text_.substr(position, 12));
        }
        return text_.substr(position + 1, end - position - 1);
    }

    std::vector<int64_t> Tuple(size_t position) const {
        const size_t end =
            position < text_.size() && text_[position] == '(' ? text_.find(')', position) : std::string::npos;
        if (end == std::string::npos) {
            Fail("a tuple as shape", text_.substr(position, 12));
        }
        std::vector<int64_t> dims;
        std::string number;
        for (size_t i = position + 1; i <= end; ++i) {
            if (text_[i] >= '0' && text_[i] <= '9' && number.size() < 18) {
                number += text_[i];
            } else if (text_[i] == ',' || text_[i] == ')') {
                if (!number.empty()) {
                    dims.push_back(std::stoll(number));
                }
                number.clear();
            } else if (text_[i] != ' ' && text_[i] != 'L') {
                Fail("sizes below 10^18 in the shape", text_.substr(position, end - position + 1));
            }
        }
        return dims;
    }

    const std::string &text_;
    const std::string &path_;
};

}  // namespace

TensorPtr Tensor::FromNpy(const std::string &path, Device device) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) {
        Throw<IoError>("FromNpy: {}: can't be opened", path);
    }
    const auto file_size = static_cast<uint64_t>(file.tellg());
    file.seekg(0);
    char start[12] = {};
    file.read(start, 8);
    if (!file || std::memcmp(start, kMagic, kMagicSize) != 0 || start[6] < 1 || start[6] > 3) {
        Throw<IoError>("FromNpy: {}: expected a .npy file of version 1 to 3", path);
    }
    const size_t length_size = start[6] == 1 ? 2 : 4;
    uint32_t length = 0;
    file.read(reinterpret_cast<char *>(&length), static_cast<std::streamsize>(length_size));
    const uint64_t data_start = 8 + length_size + length;
    if (!file || data_start > file_size) {
        Throw<IoError>("FromNpy: {}: the header is cut off", path);
    }
    std::string text(length, '\0');
    file.read(text.data(), length);
    Header header = HeaderParser(text, path).Parse();
    size_t bytes = 0;
    try {
        bytes = CheckedBytes(header.dims, header.dtype, "FromNpy");
    } catch (Error &error) {
        Throw<IoError>("FromNpy: {}: {}", path, error.what());
    }
    if (file_size - data_start != bytes) {
        Throw<IoError>("FromNpy: {}: expected {} bytes of data for {} of {}, found {}", path, bytes,
                       FormatDims(header.dims), infini_train::ToString(header.dtype), file_size - data_start);
    }
    if (header.fortran_order) {
        std::reverse(header.dims.begin(), header.dims.end());
    }
    auto tensor = Empty(header.dims, header.dtype);
    file.read(static_cast<char *>(tensor->DataPtr()), static_cast<std::streamsize>(bytes));
    if (!file) {
        Throw<IoError>("FromNpy: {}: reading failed", path);
    }
    if (header.fortran_order) {
        std::vector<int64_t> dims(header.dims.rbegin(), header.dims.rend());
        std::vector<int64_t> strides(tensor->Strides().rbegin(), tensor->Strides().rend());
        tensor =
            CastCopy(Tensor(tensor->storage(), std::move(dims), std::move(strides), 0, header.dtype), header.dtype);
    }
    return tensor->To(device);
}

void Tensor::SaveAsNpy(const std::string &path) const {
    const DataType dtype = dtype_ == DataType::kBFLOAT16 ? DataType::kFLOAT32 : dtype_;
    const char *descr = nullptr;
    for (const Code &code : kCodes) {
        if (code.dtype == dtype) {
            descr = code.descr;
        }
    }
    std::vector<char> data(static_cast<size_t>(NumElements()) * SizeOf(dtype));
    CopyTo(data.data(), dtype);
    std::string header =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, FormatDims(Dims()));
    constexpr size_t kStart = kMagicSize + 4;
    header.append(63 - (kStart + header.size()) % 64, ' ');
    header += '\n';
    const auto length = static_cast<uint16_t>(header.size());
    std::ofstream file(path, std::ios::binary);
    file.write(kMagic, kMagicSize);
    file.write("\x01\x00", 2);
    file.write(reinterpret_cast<const char *>(&length), sizeof(length));
    file << header;
    file.write(data.data(), static_cast<std::streamsize>(data.size()));
    file.flush();
    if (!file) {
        Throw<IoError>("SaveAsNpy: {}: writing failed", path);
    }
}

}  // namespace infini_train
