#include "example/mnist/idx.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "infini_train/include/common/error.h"

#include "test/support/temp_dir.h"

namespace infini_train::example {
namespace {

using ::infini_train::test::MessageOf;
using ::infini_train::test::TempDir;

void PutWord(std::string *bytes, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        bytes->push_back(static_cast<char>(value >> shift & 0xff));
    }
}

std::string Header(const std::vector<uint32_t> &words) {
    std::string bytes;
    for (const uint32_t word : words) {
        PutWord(&bytes, word);
    }
    return bytes;
}

// Two images of 2 x 3 pixels with the values 0 .. 11.
std::string SmallImages() {
    std::string bytes = Header({0x803, 2, 2, 3});
    for (char i = 0; i < 12; ++i) {
        bytes.push_back(i);
    }
    return bytes;
}

std::string Labels(const std::vector<char> &labels) {
    return Header({0x801, static_cast<uint32_t>(labels.size())}) + std::string(labels.begin(), labels.end());
}

std::string Gzip(const std::string &bytes) {
    z_stream stream = {};
    EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string packed(deflateBound(&stream, bytes.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef *>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    return packed;
}

class IdxTest : public ::testing::Test {
protected:
    std::string Put(const std::string &name, const std::string &bytes) { return dir_.Write(name, bytes); }

    // The message with which reading `bytes` as images fails; it must name the path.
    std::string ImagesError(const std::string &bytes) {
        const std::string path = Put("images", bytes);
        const std::string message = MessageOf<IoError>([&] { ReadIdxImages(path); });
        EXPECT_NE(message.find(path), std::string::npos) << message;
        return message;
    }

    TempDir dir_;
};

TEST_F(IdxTest, ReadsPlainAndGzipImages) {
    for (const std::string &bytes : {SmallImages(), Gzip(SmallImages())}) {
        const IdxImages images = ReadIdxImages(Put("a", bytes));
        EXPECT_EQ(images.count, 2);
        EXPECT_EQ(images.rows, 2);
        EXPECT_EQ(images.cols, 3);
        EXPECT_EQ(images.pixels, (std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
    }
}

TEST_F(IdxTest, ReadsAGzipFileOfSeveralMembers) {
    const std::string bytes = SmallImages();
    const IdxImages images = ReadIdxImages(Put("a.gz", Gzip(bytes.substr(0, 9)) + Gzip(bytes.substr(9))));
    EXPECT_EQ(std::accumulate(images.pixels.begin(), images.pixels.end(), 0), 66);
}

TEST_F(IdxTest, ReadsLabels) {
    const std::string path = Put("labels", Labels({3, 0, 9}));
    EXPECT_EQ(ReadIdxLabels(path, 10), (std::vector<uint8_t>{3, 0, 9}));
}

TEST_F(IdxTest, RefusesALabelOutOfRange) {
    const std::string path = Put("labels", Labels({3, 10, 9}));
    EXPECT_EQ(MessageOf<IoError>([&] { ReadIdxLabels(path, 10); }),
              "ReadIdxLabels: expected labels in [0, 10) in '" + path + "', got 10 at position 1");
}

TEST_F(IdxTest, RefusesAWrongMagicNumber) {
    EXPECT_NE(ImagesError(Header({0x0d03, 2, 2, 3})).find("(magic number 0x00000803)"), std::string::npos);
    EXPECT_NE(ImagesError(Header({0x0d03, 2, 2, 3})).find("got 0x00000d03"), std::string::npos);
    EXPECT_NE(ImagesError(Labels({1, 2, 3})).find("got 0x00000801, labels"), std::string::npos);
    const std::string path = Put("labels", SmallImages());
    EXPECT_EQ(MessageOf<IoError>([&] { ReadIdxLabels(path, 10); }),
              "ReadIdxLabels: expected IDX labels (magic number 0x00000801) in '" + path + "', got 0x00000803, images");
}

TEST_F(IdxTest, RecognisesWhatIsThereInPlaceOfData) {
    EXPECT_NE(ImagesError("<!DOCTYPE html>\n<html>Not found</html>").find("got 0x3c21444f, an HTML or XML page"),
              std::string::npos);
    EXPECT_NE(ImagesError("\n  <html></html>").find("an HTML or XML page"), std::string::npos);
    EXPECT_NE(ImagesError(Gzip("<html></html>")).find("an HTML or XML page"), std::string::npos);
    EXPECT_NE(ImagesError(std::string("PK\x03\x04\0\0\0", 7)).find("a zip archive"), std::string::npos);
    EXPECT_NE(ImagesError("version https://git-lfs.github.com/spec/v1\n").find("Git LFS pointer"), std::string::npos);
    EXPECT_NE(ImagesError("404: Not Found").find("a text file"), std::string::npos);
    EXPECT_NE(ImagesError("").find("got an empty file"), std::string::npos);
    EXPECT_NE(ImagesError(std::string("\0\0", 2)).find("got 2 bytes"), std::string::npos);
}

TEST_F(IdxTest, RefusesATruncatedPlainFile) {
    const std::string bytes = SmallImages();
    EXPECT_NE(ImagesError(bytes.substr(0, 20)).find("expected 2 x 2 x 3 bytes after the header"), std::string::npos);
    EXPECT_NE(ImagesError(bytes.substr(0, 20)).find("got 4 bytes; it was cut short"), std::string::npos);
    EXPECT_NE(ImagesError(bytes.substr(0, 10)).find("expected a header of 16 bytes"), std::string::npos);
    EXPECT_NE(ImagesError(bytes.substr(0, 10)).find("got 10 bytes"), std::string::npos);
}

TEST_F(IdxTest, RefusesEveryTruncationOfAGzipFile) {
    const std::string packed = Gzip(SmallImages());
    for (size_t size = 0; size < packed.size(); ++size) {
        ImagesError(packed.substr(0, size));
    }
    EXPECT_NE(ImagesError(packed.substr(0, packed.size() - 1)).find("cut short"), std::string::npos);
}

TEST_F(IdxTest, RefusesDamagedGzip) {
    std::string packed = Gzip(SmallImages());
    packed[packed.size() - 6] = static_cast<char>(packed[packed.size() - 6] ^ 1);
    EXPECT_NE(ImagesError(packed).find("incorrect data check"), std::string::npos);
    EXPECT_NE(ImagesError(Gzip(SmallImages()) + "garbage").find("got more bytes behind it"), std::string::npos);
    // Whole gzip data that holds fewer images than its header says.
    EXPECT_NE(ImagesError(Gzip(SmallImages().substr(0, 20))).find("got 4 bytes; it was cut short"), std::string::npos);
}

TEST_F(IdxTest, RefusesExtraBytes) {
    EXPECT_NE(ImagesError(SmallImages() + "x").find("got more than that"), std::string::npos);
    EXPECT_NE(ImagesError(Gzip(SmallImages() + "x")).find("got more than that"), std::string::npos);
}

TEST_F(IdxTest, RefusesEmptyDimensions) {
    EXPECT_NE(ImagesError(Header({0x803, 0, 28, 28})).find("expected at least one item"), std::string::npos);
    EXPECT_NE(ImagesError(Header({0x803, 1, 0, 28})).find("a side of 0 pixels"), std::string::npos);
    const std::string path = Put("labels", Labels({}));
    EXPECT_NE(MessageOf<IoError>([&] { ReadIdxLabels(path, 10); }).find("at least one item"), std::string::npos);
}

TEST_F(IdxTest, AHugeHeaderAllocatesNothing) {
    const std::string plain = Header({0x803, 0xffffffff, 0xffffffff, 0xffffffff}) + std::string(1000, 'x');
    EXPECT_NE(ImagesError(plain).find("expected 4294967295 x 4294967295 x 4294967295 bytes"), std::string::npos);
    EXPECT_NE(ImagesError(plain).find("got 1000 bytes"), std::string::npos);
    EXPECT_NE(ImagesError(Gzip(plain)).find("which can't hold that"), std::string::npos);
}

TEST_F(IdxTest, RefusesWhatIsNoFile) {
    EXPECT_NE(MessageOf<IoError>([&] { ReadIdxImages(dir_.path() + "/none"); }).find("No such file"),
              std::string::npos);
    EXPECT_NE(MessageOf<IoError>([&] { ReadIdxImages(dir_.path()); }).find("got a folder"), std::string::npos);
}

TEST_F(IdxTest, CountsMustAgree) {
    const std::string images = Put("images", SmallImages());
    const std::string two = Put("two", Labels({4, 5}));
    const std::string three = Put("three", Labels({4, 5, 6}));
    EXPECT_EQ(ReadMnistSplit(images, two, 10).labels, (std::vector<uint8_t>{4, 5}));
    EXPECT_EQ(MessageOf<IoError>([&] { ReadMnistSplit(images, three, 10); }),
              "ReadMnistSplit: expected a label for each image, got 2 images in '" + images + "' and 3 labels in '" +
                  three + "'");
}

TEST_F(IdxTest, FindsEverySpelling) {
    const std::string at = dir_.path() + "/";
    Put("train-images.idx3-ubyte", "");
    Put("train-labels.idx1-ubyte.gz", "");
    Put("t10k-images-idx3-ubyte.gz", "");
    Put("t10k-labels-idx1-ubyte", "");
    const MnistFiles files = FindMnistFiles(dir_.path());
    EXPECT_EQ(files.train_images, at + "train-images.idx3-ubyte");
    EXPECT_EQ(files.train_labels, at + "train-labels.idx1-ubyte.gz");
    EXPECT_EQ(files.test_images, at + "t10k-images-idx3-ubyte.gz");
    EXPECT_EQ(files.test_labels, at + "t10k-labels-idx1-ubyte");
}

TEST_F(IdxTest, FindsFilesInSubfoldersAndFoldersOfTheirName) {
    Put("MNIST/raw/train-images-idx3-ubyte", "");
    Put("MNIST/raw/train-labels-idx1-ubyte", "");
    Put("MNIST/raw/test-images-idx3-ubyte", "");
    Put("MNIST/raw/t10k-labels.idx1-ubyte/t10k-labels.idx1-ubyte", "");
    const MnistFiles files = FindMnistFiles(dir_.path());
    EXPECT_EQ(files.test_images, dir_.path() + "/MNIST/raw/test-images-idx3-ubyte");
    EXPECT_EQ(files.test_labels, dir_.path() + "/MNIST/raw/t10k-labels.idx1-ubyte/t10k-labels.idx1-ubyte");
}

TEST_F(IdxTest, SaysWhatIsMissing) {
    Put("train-images-idx3-ubyte", "");
    Put("train-labels-idx1-ubyte", "");
    Put("t10k-images-idx3-ubyte", "");
    const std::string message = MessageOf<IoError>([&] { FindMnistFiles(dir_.path()); });
    EXPECT_EQ(message, "FindMnistFiles: expected four IDX files in '" + dir_.path() +
                           "', got\n  none of t10k-labels-idx1-ubyte t10k-labels-idx1-ubyte.gz t10k-labels.idx1-ubyte "
                           "t10k-labels.idx1-ubyte.gz test-labels-idx1-ubyte test-labels-idx1-ubyte.gz "
                           "test-labels.idx1-ubyte test-labels.idx1-ubyte.gz");
    EXPECT_NE(MessageOf<IoError>([&] { FindMnistFiles(dir_.path() + "/none"); }).find("got nothing there"),
              std::string::npos);
    EXPECT_NE(MessageOf<IoError>([&] { FindMnistFiles(dir_.path() + "/t10k-images-idx3-ubyte"); }).find("got a file"),
              std::string::npos);
}

TEST_F(IdxTest, SaysHowToGetTheDefaultData) {
    const std::string message = MessageOf<IoError>([&] { FindMnistFilesOrDefault("", dir_.path() + "/none"); });
    EXPECT_NE(message.find("apt install dataset-fashion-mnist"), std::string::npos) << message;
    EXPECT_NE(message.find("--dataset DIR"), std::string::npos) << message;
}

TEST(MnistClassNamesTest, FollowTheFolder) {
    EXPECT_EQ(MnistClassNames("").at(9), "Ankle boot");
    EXPECT_EQ(MnistClassNames("/data/Fashion-MNIST").at(1), "Trouser");
    EXPECT_EQ(MnistClassNames("/data/mnist").at(1), "1");
}

TEST(FashionMnistTest, TheDebianPackageReads) {
    if (!std::filesystem::is_directory(kFashionMnistDir)) {
        GTEST_SKIP() << "NOT TESTED: Fashion-MNIST is absent; get it with `apt install dataset-fashion-mnist`";
    }
    const MnistFiles files = FindMnistFilesOrDefault("");
    const auto check = [](const MnistSplit &split, int64_t count) {
        EXPECT_EQ(split.images.count, count);
        EXPECT_EQ(split.images.rows, 28);
        EXPECT_EQ(split.images.cols, 28);
        EXPECT_EQ(static_cast<int64_t>(split.images.pixels.size()), count * 28 * 28);
        std::array<int64_t, 10> histogram = {};
        for (const uint8_t label : split.labels) {
            ++histogram[label];
        }
        for (const int64_t number : histogram) {
            EXPECT_EQ(number, count / 10);
        }
    };
    const MnistSplit train = ReadMnistSplit(files.train_images, files.train_labels, 10);
    check(train, 60000);
    // The mean that everybody normalises this set with.
    const int64_t sum = std::accumulate(train.images.pixels.begin(), train.images.pixels.end(), int64_t{0});
    EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(train.images.pixels.size()) / 255, 0.2860, 5e-5);
    check(ReadMnistSplit(files.test_images, files.test_labels, 10), 10000);
}

}  // namespace
}  // namespace infini_train::example
