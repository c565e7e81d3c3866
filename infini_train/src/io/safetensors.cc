#include "infini_train/include/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/io/binary_file.h"
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

// Checks a header and gives what it describes.
class HeaderReader {
public:
    explicit HeaderReader(const BinaryFile &file) : file_(file) {}

    /// Where the data begin is added to the entries' begins and ends.
    std::vector<Entry> Read(std::map<std::string, std::string> *metadata) {
        const Json header = ReadHeader();
        std::vector<Entry> entries;
        for (const auto &[name, value] : header.items()) {
            if (name == kMetadata) {
                ReadMetadata(value, metadata);
            } else {
                entries.push_back(ParseEntry(name, value));
            }
        }
        CheckLayout(&entries);
        return entries;
    }

private:
    [[noreturn]] void Fail(const std::string &expected, const std::string &found) const { file_.Fail(expected, found); }

    Json ReadHeader() {
        uint64_t length = 0;
        if (file_.size() < sizeof(length)) {
            Fail("a header of at least 8 bytes", fmt::format("{} bytes", file_.size()));
        }
        file_.Read(0, &length, sizeof(length), "the header's length");
        if (length > kMaxHeader || length > file_.size() - sizeof(length)) {
            Fail(fmt::format("a header within the file's {} bytes and below 100 MB", file_.size()),
                 fmt::format("a length of {} bytes", length));
        }
        data_start_ = sizeof(length) + length;
        std::string text(length, '\0');
        file_.Read(sizeof(length), text.data(), length, "the whole header");
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
            (*metadata)[key] = text.get<std::string>();
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

    // Sorts the entries by their place, and moves them to where the data begin.
    void CheckLayout(std::vector<Entry> *entries) const {
        std::sort(entries->begin(), entries->end(), [](const Entry &a, const Entry &b) {
            return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
        });
        uint64_t position = 0;
        for (Entry &entry : *entries) {
            if (entry.begin != position) {
                Fail(fmt::format("tensor '{}' to begin at {}, where the one before it ends", entry.name, position),
                     fmt::format("offset {}", entry.begin));
            }
            position = entry.end;
            entry.begin += data_start_;
        }
        if (position != file_.size() - data_start_) {
            Fail(fmt::format("{} bytes of data", position), fmt::format("{}", file_.size() - data_start_));
        }
    }

    const BinaryFile &file_;
    uint64_t data_start_ = 0;
};

}  // namespace

struct SafetensorsFile::State {
    explicit State(const std::string &path) : file(path, "LoadSafetensors") {}

    const BinaryFile file;
    std::map<std::string, Info> tensors;
    std::map<std::string, uint64_t> begins;
    std::map<std::string, std::string> metadata;
};

SafetensorsFile::SafetensorsFile(const std::string &path) : state_(std::make_unique<State>(path)) {
    for (Entry &entry : HeaderReader(state_->file).Read(&state_->metadata)) {
        state_->begins[entry.name] = entry.begin;
        state_->tensors[entry.name] = {entry.dtype, std::move(entry.dims)};
    }
}

SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile &&) noexcept = default;
SafetensorsFile &SafetensorsFile::operator=(SafetensorsFile &&) noexcept = default;

const std::string &SafetensorsFile::path() const {
    return state_->file.path();
}

const std::map<std::string, SafetensorsFile::Info> &SafetensorsFile::tensors() const {
    return state_->tensors;
}

const std::map<std::string, std::string> &SafetensorsFile::metadata() const {
    return state_->metadata;
}

const SafetensorsFile::Info &SafetensorsFile::info(const std::string &name) const {
    const auto found = state_->tensors.find(name);
    if (found == state_->tensors.end()) {
        state_->file.Fail(fmt::format("a tensor '{}'", name),
                          fmt::format("{} tensors of other names", state_->tensors.size()));
    }
    return found->second;
}

TensorPtr SafetensorsFile::Read(const std::string &name) const {
    const Info &known = info(name);
    auto tensor = Tensor::Empty(known.dims, known.dtype);
    state_->file.ReadTensor(state_->begins.at(name), known.dtype, tensor, "the data of " + name);
    return tensor;
}

void SafetensorsFile::ReadInto(const std::string &name, const TensorPtr &to) const {
    const Info &known = info(name);
    if (to == nullptr || to->Dims() != known.dims) {
        state_->file.Fail(fmt::format("tensor '{}' of {}", name, to != nullptr ? FormatDims(to->Dims()) : "no tensor"),
                          FormatDims(known.dims));
    }
    state_->file.ReadTensor(state_->begins.at(name), known.dtype, to, "the data of " + name);
}

std::map<std::string, TensorPtr> LoadSafetensors(const std::string &path,
                                                 std::map<std::string, std::string> *metadata) {
    const SafetensorsFile file(path);
    std::map<std::string, TensorPtr> tensors;
    for (const auto &[name, info] : file.tensors()) {
        tensors[name] = file.Read(name);
    }
    if (metadata != nullptr) {
        for (const auto &[key, text] : file.metadata()) {
            (*metadata)[key] = text;
        }
    }
    return tensors;
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
