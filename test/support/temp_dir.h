#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "test/support/message_of.h"

namespace infini_train::test {

/// A new folder that goes away with its contents.
class TempDir {
public:
    TempDir() : path_((std::filesystem::temp_directory_path() / "infini_train_XXXXXX").string()) {
        EXPECT_NE(mkdtemp(path_.data()), nullptr);
    }
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    TempDir(const TempDir &) = delete;
    TempDir &operator=(const TempDir &) = delete;

    const std::string &path() const { return path_; }

    /// Writes a file, with the folders that its name asks for, and returns its path.
    std::string Write(const std::string &name, const std::string &bytes) const {
        const std::filesystem::path file = std::filesystem::path(path_) / name;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << bytes;
        return file.string();
    }

private:
    std::string path_;
};

/// All bytes of a file; none if there is no such file.
inline std::string Contents(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace infini_train::test
