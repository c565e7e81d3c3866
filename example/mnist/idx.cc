#include "example/mnist/idx.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>

#include "infini_train/include/common/error.h"

#include "example/mnist/byte_source.h"

namespace infini_train::example {

namespace {

namespace fs = std::filesystem;

// 0x08 says unsigned bytes, the last byte is the number of dimensions.
constexpr uint32_t kLabelsMagic = 0x00000801;
constexpr uint32_t kImagesMagic = 0x00000803;
constexpr int64_t kReadStep = int64_t{16} << 20;

std::string Hex(uint32_t value) {
    std::array<char, 16> text = {};
    std::snprintf(text.data(), text.size(), "0x%08x", value);
    return text.data();
}

std::string Quoted(const std::string &path) {
    return "'" + path + "'";
}

// What a file that doesn't begin like IDX most likely is.
std::string DescribeStart(const std::vector<uint8_t> &start) {
    const std::string_view text(reinterpret_cast<const char *>(start.data()), start.size());
    const size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
    if (text.empty()) {
        return "an empty file";
    }
    if (first != std::string_view::npos && text[first] == '<') {
        return "an HTML or XML page (a download that failed?)";
    }
    if (text.starts_with("PK\x03\x04")) {
        return "a zip archive; unpack it first";
    }
    if (text.starts_with("version https://git-lfs")) {
        return "a Git LFS pointer; fetch the real file with `git lfs pull`";
    }
    const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
        return std::isprint(static_cast<unsigned char>(c)) != 0 || std::isspace(static_cast<unsigned char>(c)) != 0;
    });
    return printable ? "a text file" : "";
}

// The error for a wrong magic number, with the best guess at what the file is.
IoError WrongMagic(const std::string &name, const std::string &path, uint32_t expected, ByteSource &source,
                   std::vector<uint8_t> start) {
    std::array<uint8_t, 60> more = {};
    if (start.size() >= 4) {
        const int64_t got = source.Read(more.data(), static_cast<int64_t>(more.size()));
        start.insert(start.end(), more.begin(), more.begin() + got);
    }
    std::string guess = DescribeStart(start);
    std::string found;
    if (start.size() >= 4) {
        uint32_t magic = 0;
        for (int i = 0; i < 4; ++i) {
            magic = magic << 8 | start[static_cast<size_t>(i)];
        }
        found = Hex(magic);
        if (magic == kImagesMagic) {
            guess = "images";
        } else if (magic == kLabelsMagic) {
            guess = "labels";
        }
        guess = guess.empty() ? "" : ", " + guess;
    } else if (guess.empty()) {
        guess = std::to_string(start.size()) + " bytes";
    }
    const char *kind = expected == kImagesMagic ? "images" : "labels";
    return IoError(name + ": expected IDX " + kind + " (magic number " + Hex(expected) + ") in " + Quoted(path) +
                   ", got " + found + guess);
}

// Reads the magic number and the dimensions that follow it.
std::vector<int64_t> ReadHeader(const std::string &name, const std::string &path, uint32_t expected,
                                ByteSource &source) {
    const size_t num_dims = expected & 0xff;
    std::vector<uint8_t> header(4 + 4 * num_dims);
    const int64_t got_magic = source.Read(header.data(), 4);
    const auto word = [&header](size_t index) {
        uint32_t value = 0;
        for (size_t i = 0; i < 4; ++i) {
            value = value << 8 | header[4 * index + i];
        }
        return value;
    };
    if (got_magic < 4 || word(0) != expected) {
        header.resize(static_cast<size_t>(got_magic));
        throw WrongMagic(name, path, expected, source, header);
    }
    const int64_t size = static_cast<int64_t>(header.size());
    const int64_t got = got_magic + source.Read(header.data() + 4, size - 4);
    if (got < size) {
        throw IoError(name + ": expected a header of " + std::to_string(size) + " bytes in " + Quoted(path) + ", got " +
                      std::to_string(got) + " bytes; it was cut short");
    }
    std::vector<int64_t> dims(num_dims);
    for (size_t i = 0; i < num_dims; ++i) {
        dims[i] = word(i + 1);
        if (dims[i] == 0) {
            throw IoError(name + ": expected at least one item in " + Quoted(path) + ", got " +
                          (i == 0 ? "a header that promises 0" : "images with a side of 0 pixels"));
        }
    }
    return dims;
}

std::string DimsText(const std::vector<int64_t> &dims) {
    std::string text;
    for (const int64_t dim : dims) {
        text += (text.empty() ? "" : " x ") + std::to_string(dim);
    }
    return text;
}

// The number of bytes that `dims` promises, once the file is known to be able to hold them.
int64_t CheckedSize(const std::string &name, const std::string &path, const std::vector<int64_t> &dims,
                    const ByteSource &source) {
    const int64_t header = 4 + 4 * static_cast<int64_t>(dims.size());
    const int64_t most = source.MaxBytes() - header;
    int64_t size = 1;
    for (const int64_t dim : dims) {
        if (dim > most / size) {
            throw IoError(
                name + ": expected " + DimsText(dims) + " bytes after the header of " + Quoted(path) + ", got " +
                (source.is_gzip()
                     ? "a gzip file of " + std::to_string(source.file_bytes()) + " bytes, which can't hold that"
                     : std::to_string(most) + " bytes; it was cut short"));
        }
        size *= dim;
    }
    return size;
}

// Reads exactly the promised bytes, a step at a time: a lying header costs no more memory than there is data.
std::vector<uint8_t> ReadData(const std::string &name, const std::string &path, const std::vector<int64_t> &dims,
                              ByteSource &source) {
    const int64_t size = CheckedSize(name, path, dims, source);
    std::vector<uint8_t> data;
    int64_t done = 0;
    while (done < size) {
        const int64_t step = std::min(size - done, kReadStep);
        data.resize(static_cast<size_t>(done + step));
        const int64_t got = source.Read(data.data() + done, step);
        done += got;
        if (got < step) {
            throw IoError(name + ": expected " + DimsText(dims) + " bytes after the header of " + Quoted(path) +
                          ", got " + std::to_string(done) + " bytes; it was cut short");
        }
    }
    // Reading on also makes gzip check its CRC.
    uint8_t extra = 0;
    if (source.Read(&extra, 1) != 0) {
        throw IoError(name + ": expected " + DimsText(dims) + " bytes after the header of " + Quoted(path) +
                      ", got more than that");
    }
    return data;
}

// The names that one of the four files goes by.
std::vector<std::string> Spellings(bool train, bool images) {
    const std::vector<std::string> parts =
        train ? std::vector<std::string>{"train"} : std::vector<std::string>{"t10k", "test"};
    std::vector<std::string> names;
    for (const std::string &part : parts) {
        const std::string stem = part + (images ? "-images" : "-labels");
        const std::string ending = images ? "idx3-ubyte" : "idx1-ubyte";
        for (const char *separator : {"-", "."}) {
            names.push_back(stem + separator + ending);
            names.push_back(stem + separator + ending + ".gz");
        }
    }
    return names;
}

std::optional<std::string> FindOne(const fs::path &folder, const std::vector<std::string> &names) {
    for (const std::string &name : names) {
        // Some archives unpack to a folder of the file's own name.
        for (const fs::path &path : {folder / name, folder / name / name}) {
            std::error_code ignored;
            if (fs::is_regular_file(path, ignored)) {
                return path.string();
            }
        }
    }
    return std::nullopt;
}

}  // namespace

IdxImages ReadIdxImages(const std::string &path) {
    ByteSource source(path);
    const std::vector<int64_t> dims = ReadHeader("ReadIdxImages", path, kImagesMagic, source);
    return {dims[0], dims[1], dims[2], ReadData("ReadIdxImages", path, dims, source)};
}

std::vector<uint8_t> ReadIdxLabels(const std::string &path, int64_t num_classes) {
    ByteSource source(path);
    const std::vector<int64_t> dims = ReadHeader("ReadIdxLabels", path, kLabelsMagic, source);
    std::vector<uint8_t> labels = ReadData("ReadIdxLabels", path, dims, source);
    const auto bad = std::find_if(labels.begin(), labels.end(), [&](uint8_t label) { return label >= num_classes; });
    if (bad != labels.end()) {
        throw IoError("ReadIdxLabels: expected labels in [0, " + std::to_string(num_classes) + ") in " + Quoted(path) +
                      ", got " + std::to_string(*bad) + " at position " + std::to_string(bad - labels.begin()));
    }
    return labels;
}

MnistSplit ReadMnistSplit(const std::string &images_path, const std::string &labels_path, int64_t num_classes) {
    MnistSplit split = {ReadIdxImages(images_path), ReadIdxLabels(labels_path, num_classes)};
    if (split.images.count != static_cast<int64_t>(split.labels.size())) {
        throw IoError("ReadMnistSplit: expected a label for each image, got " + std::to_string(split.images.count) +
                      " images in " + Quoted(images_path) + " and " + std::to_string(split.labels.size()) +
                      " labels in " + Quoted(labels_path));
    }
    return split;
}

MnistFiles FindMnistFiles(const std::string &dir) {
    std::error_code ignored;
    if (!fs::is_directory(dir, ignored)) {
        throw IoError("FindMnistFiles: expected a folder with the data set at " + Quoted(dir) + ", got " +
                      (fs::exists(dir, ignored) ? "a file" : "nothing there"));
    }
    std::string missing;
    size_t fewest = 5;
    for (const char *subfolder : {"", "raw", "MNIST/raw", "FashionMNIST/raw"}) {
        const fs::path folder = *subfolder == '\0' ? fs::path(dir) : fs::path(dir) / subfolder;
        std::array<std::string, 4> found;
        std::string message;
        size_t num_missing = 0;
        for (size_t i = 0; i < 4; ++i) {
            const std::vector<std::string> names = Spellings(i < 2, i % 2 == 0);
            if (const std::optional<std::string> path = FindOne(folder, names)) {
                found[i] = *path;
                continue;
            }
            ++num_missing;
            message += "\n  none of";
            for (const std::string &name : names) {
                message += " " + name;
            }
        }
        if (num_missing == 0) {
            return {found[0], found[1], found[2], found[3]};
        }
        if (num_missing < fewest) {
            fewest = num_missing;
            missing = " in " + Quoted(folder.string()) + ", got" + message;
        }
    }
    throw IoError("FindMnistFiles: expected four IDX files" + missing);
}

MnistFiles FindMnistFilesOrDefault(const std::string &dir, const std::string &default_dir) {
    if (!dir.empty()) {
        return FindMnistFiles(dir);
    }
    std::error_code ignored;
    if (!fs::is_directory(default_dir, ignored)) {
        throw IoError(
            "FindMnistFiles: expected Fashion-MNIST in " + Quoted(default_dir) +
            ", got nothing there.\n  Get it with `apt install dataset-fashion-mnist`, or put the four files of MNIST "
            "(train-images-idx3-ubyte.gz,\n  train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, "
            "t10k-labels-idx1-ubyte.gz) into a folder and name it with --dataset DIR");
    }
    return FindMnistFiles(default_dir);
}

std::vector<std::string> MnistClassNames(const std::string &dir) {
    std::string lower = dir;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (dir.empty() || lower.find("fashion") != std::string::npos) {
        return {"T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"};
    }
    return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

}  // namespace infini_train::example
