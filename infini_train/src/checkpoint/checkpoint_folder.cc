#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "infini_train/include/checkpoint/checkpoint.h"
#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "step_";
constexpr char kRemoved[] = ".removed";

// The number in `step_00001000`, or -1 for any other name.
int64_t StepOf(const std::string &name) {
    constexpr size_t kMaxDigits = 18;
    const size_t begin = sizeof(kPrefix) - 1;
    const bool fits = name.rfind(kPrefix, 0) == 0 && name.size() > begin && name.size() <= begin + kMaxDigits &&
                      name.find_first_not_of("0123456789", begin) == std::string::npos;
    return fits ? std::stoll(name.substr(begin)) : -1;
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string path, size_t keep) : path_(std::move(path)), keep_(keep) {}

std::string CheckpointFolder::Save(const CheckpointParts &parts, const CheckpointInfo &info) {
    if (info.step < 0) {
        Throw<ValueError>("CheckpointFolder: expected a step >= 0, got {}", info.step);
    }
    const std::string path = (fs::path(path_) / fmt::format("{}{:08}", kPrefix, info.step)).string();
    Checkpoint::Save(path, parts, info);
    RemoveOld(path);
    return path;
}

std::vector<std::string> CheckpointFolder::List() const {
    std::vector<std::pair<int64_t, std::string>> found;
    std::error_code error;
    for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error)) {
        const int64_t step = StepOf(entry->path().filename().string());
        if (step >= 0) {
            found.emplace_back(step, entry->path().string());
        }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
        Throw<IoError>("CheckpointFolder: {}: can't be read: {}", path_, error.message());
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> paths;
    for (auto &[step, path] : found) {
        paths.push_back(std::move(path));
    }
    return paths;
}

std::optional<std::string> CheckpointFolder::Latest() const {
    const std::vector<std::string> paths = List();
    return paths.empty() ? std::nullopt : std::optional(paths.back());
}

std::optional<CheckpointInfo> CheckpointFolder::LoadLatest(const CheckpointParts &parts) const {
    const std::optional<std::string> latest = Latest();
    return latest ? std::optional(Checkpoint::Load(*latest, parts)) : std::nullopt;
}

// What can't be removed stays: the training goes on all the same.
void CheckpointFolder::RemoveOld(const std::string &latest) const {
    std::error_code ignored;
    std::vector<std::string> paths = List();
    const size_t superfluous = keep_ > 0 && paths.size() > keep_ ? paths.size() - keep_ : 0;
    for (size_t i = 0; i < superfluous; ++i) {
        if (paths[i] != latest) {
            // A crash halfway leaves nothing that looks like a checkpoint.
            fs::rename(paths[i], paths[i] + kRemoved, ignored);
        }
    }
    // Also what an earlier crash has left.
    std::vector<fs::path> leftovers;
    for (fs::directory_iterator entry(path_, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
        const fs::path &path = entry->path();
        const std::string ending = path.extension().string();
        if ((ending == kRemoved || ending == ".tmp") && StepOf(path.stem().string()) >= 0) {
            leftovers.push_back(path);
        }
    }
    for (const fs::path &path : leftovers) {
        fs::remove_all(path, ignored);
    }
}

}  // namespace infini_train
