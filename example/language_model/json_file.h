#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "infini_train/include/io/binary_file.h"

namespace infini_train::example {

/// A JSON object of a file, or one inside of it, whose fields are asked for by type. All failures are IoErrors with the
/// path. A field that is null counts as absent.
class JsonFile {
public:
    /// Throws IoError for a file that can't be read, is larger than `most_bytes` or isn't a JSON object.
    JsonFile(const std::string &path, size_t most_bytes);

    bool Has(const char *key) const;
    /// The field's value, or what to take where there is none; an IoError if that is nothing either.
    int64_t Integer(const char *key, std::optional<int64_t> otherwise = std::nullopt) const;
    double Number(const char *key, std::optional<double> otherwise = std::nullopt) const;
    bool Bool(const char *key, std::optional<bool> otherwise = std::nullopt) const;
    std::string Text(const char *key, std::optional<std::string> otherwise = std::nullopt) const;
    /// An object inside of this one.
    JsonFile Object(const char *key) const;

    const nlohmann::json &json() const { return json_; }
    [[noreturn]] void Fail(const std::string &expected, const std::string &found) const;

private:
    JsonFile(std::string path, std::string prefix, nlohmann::json json);
    const nlohmann::json *Find(const char *key, bool may_be_absent, const char *what) const;
    [[noreturn]] void FailField(const char *key, const char *what, const std::string &found) const;

    std::string path_;
    std::string prefix_;  // of the names of fields, for messages
    nlohmann::json json_;
};

}  // namespace infini_train::example
