#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace infini_train::example {

/// Grey images of one size: `pixels` holds count * rows * cols bytes, image after image, row after row, 0 is black.
struct IdxImages {
    int64_t count = 0;
    int64_t rows = 0;
    int64_t cols = 0;
    std::vector<uint8_t> pixels;
};

/// Images with one label each.
struct MnistSplit {
    IdxImages images;
    std::vector<uint8_t> labels;
};

/// The four files of a data set in MNIST's format.
struct MnistFiles {
    std::string train_images;
    std::string train_labels;
    std::string test_images;
    std::string test_labels;
};

/// Where Debian's package dataset-fashion-mnist puts its files.
inline constexpr const char *kFashionMnistDir = "/usr/share/datasets/fashion-mnist";

/// Reads an IDX file of unsigned bytes with three dimensions, plain or gzip (told by content, not by name).
/// Throws IoError with the path, what was expected and what was found, if the file can't be read, is something else
/// (an HTML page, an archive, labels), is cut short, damaged or too long, or holds no image. No more memory is taken
/// than the data that really is in the file needs.
IdxImages ReadIdxImages(const std::string &path);

/// Reads an IDX file of unsigned bytes with one dimension. Errors as above; also if a label is not in [0, num_classes).
std::vector<uint8_t> ReadIdxLabels(const std::string &path, int64_t num_classes);

/// Reads both files; throws IoError if they don't hold the same number of items.
MnistSplit ReadMnistSplit(const std::string &images_path, const std::string &labels_path, int64_t num_classes);

/// Finds the four files in `dir`, or in its subfolder raw/, MNIST/raw/ or FashionMNIST/raw/, under any of their usual
/// names: `train-images-idx3-ubyte`, `train-images.idx3-ubyte`, with or without `.gz`, with `t10k` or `test`. Throws
/// IoError that lists the names looked for, if one is missing.
MnistFiles FindMnistFiles(const std::string &dir);

/// FindMnistFiles for a `--dataset` value; an empty one means Fashion-MNIST from the Debian package. Throws IoError
/// that says how to get the data where that package is absent.
MnistFiles FindMnistFilesOrDefault(const std::string &dir, const std::string &default_dir = kFashionMnistDir);

/// The names of the ten classes: clothes if `dir` is empty or names Fashion-MNIST, else the digits.
std::vector<std::string> MnistClassNames(const std::string &dir);

}  // namespace infini_train::example
