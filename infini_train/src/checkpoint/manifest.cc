#include "infini_train/src/checkpoint/manifest.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "infini_train training checkpoint";
constexpr int64_t kFormatVersion = 1;
constexpr uintmax_t kMaxManifest = 64 << 20;

[[noreturn]] void Fail(const std::string &path, const std::string &expected, const std::string &found) {
    Throw<IoError>("Checkpoint: {}: expected {}, found {}", path, expected, found);
}

std::string PathOf(const std::string &folder, const std::string &name) {
    return (std::filesystem::path(folder) / name).string();
}

uint32_t Crc32(uint32_t before, std::string_view bytes) {
    return static_cast<uint32_t>(::crc32_z(before, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

std::string Hex(uint32_t number) {
    return fmt::format("{:08x}", number);
}

Manifest FromJson(const Json &json) {
    Manifest manifest;
    manifest.step = json.at("step").get<int64_t>();
    manifest.library_version = json.at("library_version").get<std::string>();
    manifest.flags = json.at("flags").get<std::map<std::string, std::string>>();
    for (const auto &[name, file] : json.at("files").items()) {
        const auto sum = file.at("crc32").get<std::string>();
        manifest.files[name] = {file.at("bytes").get<uint64_t>(), static_cast<uint32_t>(std::stoul(sum, nullptr, 16))};
    }
    return manifest;
}

}  // namespace

std::string ToText(const Manifest &manifest) {
    Json json = {
        {"format", kFormat},     {"format_version", kFormatVersion}, {"library_version", manifest.library_version},
        {"step", manifest.step}, {"flags", manifest.flags},          {"files", Json::object()}};
    for (const auto &[name, sum] : manifest.files) {
        json["files"][name] = {{"bytes", sum.bytes}, {"crc32", Hex(sum.crc32)}};
    }
    try {
        json["crc32"] = Hex(Crc32(0, json.dump()));
        return json.dump(2) + "\n";
    } catch (const Json::exception &error) {
        Throw<ValueError>("Checkpoint: expected flags in UTF-8: {}", error.what());
    }
}

Manifest ReadManifest(const std::string &folder) {
    const std::string path = PathOf(folder, kManifestFile);
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        Fail(path, "a readable file", std::strerror(errno));
    }
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(path, error);
    if (error || size > kMaxManifest) {
        Fail(path, fmt::format("a file of at most {} bytes", kMaxManifest), error ? error.message() : "a larger one");
    }
    const std::string text(std::istreambuf_iterator<char>(file), {});
    Manifest manifest;
    try {
        const Json json = Json::parse(text);
        const auto version = json.at("format_version").get<int64_t>();
        if (version != kFormatVersion) {
            Fail(path, fmt::format("format version {}", kFormatVersion), std::to_string(version));
        }
        manifest = FromJson(json);
    } catch (const Error &) {
        throw;
    } catch (const std::exception &problem) {
        Fail(path, "a checkpoint's description in JSON", problem.what());
    }
    // Written anew it has the same checksum and the same spelling, unless a bit of it has changed.
    std::string intact;
    try {
        intact = ToText(manifest);
    } catch (const ValueError &) {
    }
    if (text != intact) {
        Fail(path, "the text that was written", "a damaged one: its checksum doesn't match");
    }
    return manifest;
}

void VerifyFiles(const std::string &folder, const Manifest &manifest) {
    std::vector<char> buffer(1 << 20);
    for (const auto &[name, expected] : manifest.files) {
        const std::string path = PathOf(folder, name);
        std::ifstream file(path, std::ios::binary);
        if (!file) {
            Fail(path, "a readable file", std::strerror(errno));
        }
        io::FileSum sum;
        while (file) {
            file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
            const auto count = static_cast<size_t>(file.gcount());
            sum.crc32 = Crc32(sum.crc32, {buffer.data(), count});
            sum.bytes += count;
        }
        if (sum.bytes != expected.bytes) {
            Fail(path, fmt::format("{} bytes", expected.bytes), std::to_string(sum.bytes));
        }
        if (sum.crc32 != expected.crc32) {
            Fail(path, "the checksum " + Hex(expected.crc32), Hex(sum.crc32) + ": the file is damaged");
        }
    }
}

}  // namespace infini_train
