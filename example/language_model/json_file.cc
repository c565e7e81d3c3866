#include "example/language_model/json_file.h"

#include <utility>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {
namespace {

constexpr char kWho[] = "LoadModel";
constexpr size_t kShownBytes = 60;

}  // namespace

JsonFile::JsonFile(const std::string &path, size_t most_bytes) : path_(path) {
    const io::BinaryFile file(path, kWho);
    if (file.size() > most_bytes) {
        Fail(fmt::format("at most {} bytes", most_bytes), fmt::format("{} bytes", file.size()));
    }
    std::string text(file.size(), '\0');
    file.Read(0, text.data(), text.size(), "the whole file");
    try {
        json_ = nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception &error) {
        Fail("JSON", error.what());
    }
    if (!json_.is_object()) {
        Fail("a JSON object", json_.type_name());
    }
}

JsonFile::JsonFile(std::string path, std::string prefix, nlohmann::json json)
    : path_(std::move(path)), prefix_(std::move(prefix)), json_(std::move(json)) {}

void JsonFile::Fail(const std::string &expected, const std::string &found) const {
    throw IoError(fmt::format("{}: {}: expected {}, found {}", kWho, path_, expected, found));
}

void JsonFile::FailField(const char *key, const char *what, const std::string &found) const {
    Fail(fmt::format("{} as '{}{}'", what, prefix_, key), found);
}

bool JsonFile::Has(const char *key) const {
    return json_.contains(key) && !json_[key].is_null();
}

const nlohmann::json *JsonFile::Find(const char *key, bool may_be_absent, const char *what) const {
    if (Has(key)) {
        return &json_[key];
    }
    if (!may_be_absent) {
        FailField(key, what, "none");
    }
    return nullptr;
}

int64_t JsonFile::Integer(const char *key, std::optional<int64_t> otherwise) const {
    constexpr char kWhat[] = "a whole number";
    const nlohmann::json *value = Find(key, otherwise.has_value(), kWhat);
    if (value == nullptr) {
        return *otherwise;
    }
    if (!value->is_number_integer() || (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
        FailField(key, kWhat, value->dump().substr(0, kShownBytes));
    }
    return value->get<int64_t>();
}

double JsonFile::Number(const char *key, std::optional<double> otherwise) const {
    constexpr char kWhat[] = "a number";
    const nlohmann::json *value = Find(key, otherwise.has_value(), kWhat);
    if (value == nullptr) {
        return *otherwise;
    }
    if (!value->is_number()) {
        FailField(key, kWhat, value->dump().substr(0, kShownBytes));
    }
    return value->get<double>();
}

bool JsonFile::Bool(const char *key, std::optional<bool> otherwise) const {
    constexpr char kWhat[] = "true or false";
    const nlohmann::json *value = Find(key, otherwise.has_value(), kWhat);
    if (value == nullptr) {
        return *otherwise;
    }
    if (!value->is_boolean()) {
        FailField(key, kWhat, value->dump().substr(0, kShownBytes));
    }
    return value->get<bool>();
}

std::string JsonFile::Text(const char *key, std::optional<std::string> otherwise) const {
    constexpr char kWhat[] = "text";
    const nlohmann::json *value = Find(key, otherwise.has_value(), kWhat);
    if (value == nullptr) {
        return *std::move(otherwise);
    }
    if (!value->is_string()) {
        FailField(key, kWhat, value->dump().substr(0, kShownBytes));
    }
    return value->get<std::string>();
}

JsonFile JsonFile::Object(const char *key) const {
    const nlohmann::json *value = Find(key, false, "an object");
    if (!value->is_object()) {
        FailField(key, "an object", value->type_name());
    }
    return {path_, fmt::format("{}{}.", prefix_, key), *value};
}

}  // namespace infini_train::example
