#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace infini_train::text {

using Json = nlohmann::json;

/// Receives the parts of a JSON file in their order. A function returns false to end the reading.
class JsonHandler {
public:
    virtual ~JsonHandler() = default;
    virtual bool Key(std::string &name) = 0;
    /// A text, number, true, false or null.
    virtual bool Scalar(Json value) = 0;
    /// An object or else an array.
    virtual bool Begin(bool is_object) = 0;
    virtual bool End() = 0;
};

/// Reads a file piece by piece: besides what the handler keeps, memory is bounded whatever the file holds. Throws
/// IoError for a file that isn't JSON or has a text or number of more than 16 MiB.
void ReadJson(const std::string &path, JsonHandler *handler);

/// Builds a value out of parts. Refuses, by IoError, a key that an object has twice, and more values than a small part
/// of a file has.
class JsonBuilder {
public:
    explicit JsonBuilder(std::string path) : path_(std::move(path)) {}

    void Key(const std::string &name);
    void Scalar(Json value);
    void Begin(bool is_object);
    /// True when the outermost value is complete.
    bool End();

    Json Take() { return std::move(root_); }

private:
    Json *Add(Json value);

    std::string path_;
    Json root_;
    std::vector<Json *> open_;
    std::string key_;
    int64_t count_ = 0;
};

}  // namespace infini_train::text
