#include "infini_train/include/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
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

using Json = nlohmann::json;

constexpr char kMetadata[] = "__metadata__";
constexpr uint64_t kMaxHeader = 100'000'000;
// Far more than any file has: what keeps the memory for a hostile header below 64 MiB besides its text.
constexpr size_t kMaxTensors = 250'000;
constexpr int64_t kMaxValues = 200'000;  // in one tensor's entry, or in the metadata
constexpr size_t kMaxToken = size_t{16} << 20;
constexpr size_t kMaxDims = 64;
constexpr int64_t kMaxDepth = 16;  // the format has 3

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

using Tensors = std::map<std::string, SafetensorsFile::Info>;

// Checks a header and gives what it describes. A hostile one costs little memory besides its text: its members are
// taken one by one.
class HeaderReader {
public:
    HeaderReader(const BinaryFile &file, Tensors *tensors, std::map<std::string, std::string> *metadata)
        : file_(file), tensors_(*tensors), metadata_(*metadata) {}

    void Read() {
        uint64_t length = 0;
        if (file_.size() < sizeof(length)) {
            Fail("a header of at least 8 bytes", fmt::format("{} bytes", file_.size()));
        }
        file_.Read(0, &length, sizeof(length), "the header's length");
        if (length > kMaxHeader || length > file_.size() - sizeof(length)) {
            Fail(fmt::format("a header within the file's {} bytes and below 100 MB", file_.size()),
                 fmt::format("a length of {} bytes", length));
        }
        std::string text(length, '\0');
        file_.Read(sizeof(length), text.data(), length, "the whole header");
        CheckTokens(text);
        Parse(text);
        CheckLayout(sizeof(length) + length);
    }

private:
    [[noreturn]] void Fail(const std::string &expected, const std::string &found) const { file_.Fail(expected, found); }

    // The parser collects a text, or a number, until it ends.
    void CheckTokens(const std::string &text) const {
        bool in_text = false;
        size_t begin = 0;
        for (size_t i = 0; i < text.size(); ++i) {
            if (in_text && text[i] == '\\') {
                ++i;
            } else if (text[i] == '"') {
                in_text = !in_text;
                begin = i;
            } else if (!in_text && std::strchr(" \t\n\r,:[]{}", text[i]) != nullptr) {
                begin = i;
            }
            if (i >= begin + kMaxToken) {
                Fail("texts and numbers of less than 16 MiB in the header", "a longer one");
            }
        }
    }

    void Parse(const std::string &text) {
        int64_t depth = 0;
        int64_t values = 0;
        std::string member;  // of the header
        std::vector<std::set<std::string>>
            keys;  // of the objects in it; the parser itself keeps the last of equal ones
        const auto watch = [&](int, Json::parse_event_t event, Json &value) {
            using Event = Json::parse_event_t;
            if (depth == 0 && event != Event::object_start) {
                Fail("a JSON object as header", value.type_name());
            }
            if (++values > kMaxValues) {
                Fail(fmt::format("at most {} values in '{}' of the header", kMaxValues, member), "more");
            }
            if (event == Event::key) {
                const auto key = value.template get<std::string>();
                if (depth > 1 ? !keys.back().insert(key).second : IsKnown(key)) {
                    Fail("each key once in the header", "'" + key + "' twice");
                }
                member = depth == 1 ? key : member;
                return true;
            }
            if (event == Event::object_start || event == Event::array_start) {
                if (++depth > kMaxDepth) {
                    Fail(fmt::format("at most {} levels of brackets in the header", kMaxDepth), "more");
                }
                keys.emplace_back();
                return true;
            }
            if (event != Event::value) {
                keys.pop_back();
                --depth;
            }
            if (depth == 1) {
                Take(member, value);
                values = 0;
            }
            return depth != 1;  // what was taken needs no place in the whole
        };
        try {
            [[maybe_unused]] const Json empty = Json::parse(text, watch);
        } catch (const Json::exception &error) {
            Fail("a header in JSON", error.what());
        }
        if (text[0] != '{') {
            Fail("a JSON object as header", "something in front of it");
        }
    }

    bool IsKnown(const std::string &member) const {
        return member == kMetadata ? has_metadata_ : tensors_.count(member) != 0;
    }

    void Take(const std::string &member, const Json &value) {
        if (member == kMetadata) {
            has_metadata_ = true;
            ReadMetadata(value);
        } else if (tensors_.size() == kMaxTensors) {
            Fail(fmt::format("at most {} tensors", kMaxTensors), "more");
        } else {
            tensors_[member] = ParseTensor(member, value);
        }
    }

    void ReadMetadata(const Json &value) {
        if (!value.is_object()) {
            Fail("an object as __metadata__", value.type_name());
        }
        for (const auto &[key, text] : value.items()) {
            if (!text.is_string()) {
                Fail("text as metadata '" + key + "'", text.type_name());
            }
            metadata_[key] = text.get<std::string>();
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

    // With the offset as it stands there, from where the data begin.
    SafetensorsFile::Info ParseTensor(const std::string &name, const Json &value) const {
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
        if (shape.size() > kMaxDims) {
            Fail(fmt::format("at most {} dimensions of tensor '{}'", kMaxDims, name), std::to_string(shape.size()));
        }
        SafetensorsFile::Info info{known->dtype, {shape.begin(), shape.end()}, offsets[0]};
        uint64_t bytes = 0;
        try {
            bytes = CheckedBytes(info.dims, info.dtype, "shape");
        } catch (const ShapeError &error) {
            Fail(fmt::format("a shape of tensor '{}' that fits into memory", name), error.what());
        }
        if (offsets[1] < offsets[0] || offsets[1] - offsets[0] != bytes) {
            Fail(fmt::format("{} bytes for tensor '{}' of {} and {}", bytes, name, FormatDims(info.dims), known->name),
                 fmt::format("offsets {} to {}", offsets[0], offsets[1]));
        }
        return info;
    }

    // The tensors fill the rest of the file one after the other. Moves their offsets to where that begins.
    void CheckLayout(uint64_t data_start) {
        std::vector<Tensors::value_type *> order;
        order.reserve(tensors_.size());
        for (auto &entry : tensors_) {
            order.push_back(&entry);
        }
        std::sort(order.begin(), order.end(), [](const auto *a, const auto *b) {
            return std::pair(a->second.offset, SizeOf(a->second)) < std::pair(b->second.offset, SizeOf(b->second));
        });
        uint64_t position = 0;
        for (auto *entry : order) {
            auto &[name, info] = *entry;
            if (info.offset != position) {
                Fail(fmt::format("tensor '{}' to begin at {}, where the one before it ends", name, position),
                     fmt::format("offset {}", info.offset));
            }
            position += SizeOf(info);
            info.offset += data_start;
        }
        if (position != file_.size() - data_start) {
            Fail(fmt::format("{} bytes of data", position), fmt::format("{}", file_.size() - data_start));
        }
    }

    static uint64_t SizeOf(const SafetensorsFile::Info &info) { return CheckedBytes(info.dims, info.dtype, "shape"); }

    const BinaryFile &file_;
    Tensors &tensors_;
    std::map<std::string, std::string> &metadata_;
    bool has_metadata_ = false;
};

}  // namespace

struct SafetensorsFile::State {
    explicit State(const std::string &path) : file(path, "LoadSafetensors") {}

    const BinaryFile file;
    Tensors tensors;
    std::map<std::string, std::string> metadata;
};

SafetensorsFile::SafetensorsFile(const std::string &path) : state_(std::make_unique<State>(path)) {
    HeaderReader(state_->file, &state_->tensors, &state_->metadata).Read();
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
    state_->file.ReadTensor(known.offset, known.dtype, tensor, "the data of " + name);
    return tensor;
}

void SafetensorsFile::ReadInto(const std::string &name, const TensorPtr &to) const {
    const Info &known = info(name);
    if (to == nullptr || to->Dims() != known.dims) {
        state_->file.Fail(fmt::format("tensor '{}' of {}", name, to != nullptr ? FormatDims(to->Dims()) : "no tensor"),
                          FormatDims(known.dims));
    }
    state_->file.ReadTensor(known.offset, known.dtype, to, "the data of " + name);
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
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
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
