#include "infini_train/include/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/core/size.h"
#include "infini_train/src/io/new_file.h"
#include "infini_train/src/io/safetensors.h"

// The format: https://github.com/huggingface/safetensors

namespace infini_train::io {
namespace {

static_assert(std::endian::native == std::endian::little, "big-endian machines would need to swap bytes here");

using Json = nlohmann::ordered_json;

constexpr char kMetadata[] = "__metadata__";
constexpr uint64_t kMaxHeader = 100'000'000;

struct Name {
    DataType dtype;
    const char *name;
};
constexpr Name kNames[] = {
    {DataType::kBOOL, "BOOL"},   {DataType::kUINT8, "U8"},      {DataType::kINT8, "I8"},
    {DataType::kUINT16, "U16"},  {DataType::kINT16, "I16"},     {DataType::kUINT32, "U32"},
    {DataType::kINT32, "I32"},   {DataType::kUINT64, "U64"},    {DataType::kINT64, "I64"},
    {DataType::kFLOAT16, "F16"}, {DataType::kBFLOAT16, "BF16"}, {DataType::kFLOAT32, "F32"},
    {DataType::kFLOAT64, "F64"},
};

const char *NameOf(DataType dtype) {
    return std::find_if(std::begin(kNames), std::end(kNames), [&](const Name &n) { return n.dtype == dtype; })->name;
}

struct Entry {
    std::string name;
    DataType dtype;
    std::vector<int64_t> dims;
    uint64_t begin;
    uint64_t end;
};

class Reader {
public:
    explicit Reader(const std::string &path) : path_(path), file_(path, std::ios::binary | std::ios::ate) {
        if (!file_) {
            Fail("a readable file", std::strerror(errno));
        }
        file_size_ = static_cast<uint64_t>(file_.tellg());
        file_.seekg(0);
    }

    std::map<std::string, TensorPtr> Read(std::map<std::string, std::string> *metadata) {
        const Json header = ReadHeader();
        std::vector<Entry> entries;
        for (const auto &[name, value] : header.items()) {
            if (name == kMetadata) {
                ReadMetadata(value, metadata);
            } else {
                entries.push_back(ParseEntry(name, value));
            }
        }
        CheckLayout(entries);
        std::map<std::string, TensorPtr> tensors;
        for (const Entry &entry : entries) {
            auto tensor = Tensor::Empty(entry.dims, entry.dtype);
            file_.seekg(static_cast<std::streamoff>(data_start_ + entry.begin));
            file_.read(static_cast<char *>(tensor->DataPtr()), static_cast<std::streamsize>(entry.end - entry.begin));
            if (!file_) {
                Fail("the data of " + entry.name, "a read error");
            }
            tensors[entry.name] = std::move(tensor);
        }
        return tensors;
    }

private:
    [[noreturn]] void Fail(const std::string &expected, const std::string &found) const {
        Throw<IoError>("LoadSafetensors: {}: expected {}, found {}", path_, expected, found);
    }

    Json ReadHeader() {
        uint64_t length = 0;
        file_.read(reinterpret_cast<char *>(&length), sizeof(length));
        if (!file_) {
            Fail("a header of at least 8 bytes", fmt::format("{} bytes", file_size_));
        }
        if (length > kMaxHeader || length > file_size_ - sizeof(length)) {
            Fail(fmt::format("a header within the file's {} bytes and below 100 MB", file_size_),
                 fmt::format("a length of {} bytes", length));
        }
        data_start_ = sizeof(length) + length;
        std::string text(length, '\0');
        file_.read(text.data(), static_cast<std::streamsize>(length));
        if (!file_) {
            Fail("the whole header", "a read error");
        }
        return ParseJson(text);
    }

    // nlohmann keeps the last of several equal keys; here they are an error.
    Json ParseJson(const std::string &text) const {
        std::vector<std::set<std::string>> keys;
        const auto watch = [&](int, Json::parse_event_t event, Json &value) {
            if (event == Json::parse_event_t::object_start) {
                keys.emplace_back();
            } else if (event == Json::parse_event_t::object_end) {
                keys.pop_back();
            } else if (event == Json::parse_event_t::key) {
                const auto key = value.template get<std::string>();
                if (!keys.back().insert(key).second) {
                    Fail("each key once in the header", "'" + key + "' twice");
                }
            }
            return true;
        };
        Json header;
        try {
            header = Json::parse(text, watch);
        } catch (const Json::exception &error) {
            Fail("a header in JSON", error.what());
        }
        if (text.empty() || text[0] != '{' || !header.is_object()) {
            Fail("a JSON object as header", header.type_name());
        }
        return header;
    }

    void ReadMetadata(const Json &value, std::map<std::string, std::string> *metadata) const {
        if (!value.is_object()) {
            Fail("an object as __metadata__", value.type_name());
        }
        for (const auto &[key, text] : value.items()) {
            if (!text.is_string()) {
                Fail("text as metadata '" + key + "'", text.type_name());
            }
            if (metadata != nullptr) {
                (*metadata)[key] = text.get<std::string>();
            }
        }
    }

    const Json &Member(const std::string &name, const Json &value, const char *key) const {
        if (!value.is_object() || !value.contains(key)) {
            Fail(fmt::format("'{}' of tensor '{}'", key, name), "none");
        }
        return value[key];
    }

    std::vector<uint64_t> Numbers(const std::string &name, const Json &value, const char *key) const {
        const Json &list = Member(name, value, key);
        std::vector<uint64_t> numbers;
        for (const Json &number : list.is_array() ? list : Json::array({nullptr})) {
            if (!number.is_number_unsigned() || number.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
                Fail(fmt::format("whole numbers as '{}' of tensor '{}'", key, name), list.dump().substr(0, 60));
            }
            numbers.push_back(number.get<uint64_t>());
        }
        return numbers;
    }

    Entry ParseEntry(const std::string &name, const Json &value) const {
        const Json &dtype = Member(name, value, "dtype");
        const auto *known = std::find_if(std::begin(kNames), std::end(kNames), [&](const Name &candidate) {
            return dtype.is_string() && dtype.get<std::string>() == candidate.name;
        });
        if (known == std::end(kNames)) {
            Fail(fmt::format("a known data type of tensor '{}'", name), dtype.dump().substr(0, 60));
        }
        const std::vector<uint64_t> shape = Numbers(name, value, "shape");
        const std::vector<uint64_t> offsets = Numbers(name, value, "data_offsets");
        if (offsets.size() != 2) {
            Fail(fmt::format("two data_offsets of tensor '{}'", name), std::to_string(offsets.size()));
        }
        Entry entry{name, known->dtype, {shape.begin(), shape.end()}, offsets[0], offsets[1]};
        uint64_t bytes = 0;
        try {
            bytes = CheckedBytes(entry.dims, entry.dtype, "shape");
        } catch (const ShapeError &error) {
            Fail(fmt::format("a shape of tensor '{}' that fits into memory", name), error.what());
        }
        if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
            Fail(fmt::format("{} bytes for tensor '{}' of {} and {}", bytes, name, FormatDims(entry.dims), known->name),
                 fmt::format("offsets {} to {}", entry.begin, entry.end));
        }
        return entry;
    }

    void CheckLayout(std::vector<Entry> entries) const {
        std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
            return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
        });
        uint64_t position = 0;
        for (const Entry &entry : entries) {
            if (entry.begin != position) {
                Fail(fmt::format("tensor '{}' to begin at {}, where the one before it ends", entry.name, position),
                     fmt::format("offset {}", entry.begin));
            }
            position = entry.end;
        }
        if (position != file_size_ - data_start_) {
            Fail(fmt::format("{} bytes of data", position), fmt::format("{}", file_size_ - data_start_));
        }
    }

    const std::string &path_;
    std::ifstream file_;
    uint64_t file_size_ = 0;
    uint64_t data_start_ = 0;
};

}  // namespace

std::map<std::string, TensorPtr> LoadSafetensors(const std::string &path,
                                                 std::map<std::string, std::string> *metadata) {
    return Reader(path).Read(metadata);
}

void SaveSafetensors(const std::string &path, const std::map<std::string, TensorPtr> &tensors,
                     const std::map<std::string, std::string> &metadata) {
    WriteSafetensors(path, tensors, metadata);
}

FileSum WriteSafetensors(const std::string &path, const std::map<std::string, TensorPtr> &tensors,
                         const std::map<std::string, std::string> &metadata) {
    Json header = Json::object();
    if (!metadata.empty()) {
        header[kMetadata] = metadata;
    }
    uint64_t offset = 0;
    for (const auto &[name, tensor] : tensors) {
        if (tensor == nullptr || name == kMetadata) {
            Throw<ValueError>("SaveSafetensors: tensor '{}' {}", name,
                              tensor == nullptr ? "is null" : "has a reserved name");
        }
        const uint64_t end = offset + tensor->SizeInBytes();
        header[name] = {{"dtype", NameOf(tensor->Dtype())}, {"shape", tensor->Dims()}, {"data_offsets", {offset, end}}};
        offset = end;
    }
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    const uint64_t length = text.size();
    NewFile file(path, "SaveSafetensors");
    file.Write(&length, sizeof(length));
    file.Write(text.data(), text.size());
    for (const auto &[name, tensor] : tensors) {
        const TensorPtr dense = tensor->Detach()->To(Device())->Contiguous();
        file.Write(dense->DataPtr(), dense->SizeInBytes());
    }
    file.Commit();
    return {file.bytes(), file.crc32()};
}

}  // namespace infini_train::io
