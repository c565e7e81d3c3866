#include "infini_train/include/utils/tensorboard_writer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/utils/checksum.h"
#include "infini_train/src/utils/png.h"
#include "infini_train/src/utils/protobuf.h"
#include "test/support/temp_dir.h"

namespace infini_train::utils {
namespace {

using ::infini_train::test::Contents;
using ::infini_train::test::MessageOf;
using ::infini_train::test::TempDir;

double FixedTime() {
    return 1234567890.5;
}

// The check values of the catalogue of parametrised CRC algorithms and of RFC 1950's description.
TEST(Checksum, KnownValues) {
    EXPECT_EQ(Crc32c("123456789"), 0xE3069283U);
    EXPECT_EQ(Crc32("123456789"), 0xCBF43926U);
    EXPECT_EQ(Crc32("6789", Crc32("12345")), 0xCBF43926U);
    EXPECT_EQ(Adler32("Wikipedia"), 0x11E60398U);
    EXPECT_EQ(Crc32c(""), 0U);
    EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, appendix B.4
}

// The examples of the encoding's description.
TEST(Protobuf, KnownBytes) {
    EXPECT_EQ(ProtobufMessage().Varint(1, 150).bytes(), "\x08\x96\x01");
    EXPECT_EQ(ProtobufMessage().Bytes(2, "testing").bytes(), "\x12\x07testing");
    EXPECT_EQ(ProtobufMessage().Message(3, ProtobufMessage().Varint(1, 150)).bytes(), "\x1a\x03\x08\x96\x01");
}

// What TensorBoard's own classes write, byte for byte; test/fixtures/make_tensorboard_fixture.py.
TEST(TensorBoardWriter, WritesTheBytesOfTensorBoard) {
    const TempDir dir;
    TensorBoardWriter board(dir.path() + "/runs/first", FixedTime);
    board.AddScalar("loss/train", 0.25, 1);
    board.AddScalar("loss/train", -1.5, 300);
    board.AddScalar("accuracy", 0.1, int64_t{1} << 40);
    board.AddHistogram("layer/weight", *Tensor::FromVector<double>({1, -4, 3, 1, 4}), 7);
    board.AddText("note", "**bold** and \u03b1", 8);
    EXPECT_EQ(Contents(board.path()), Contents("test/fixtures/tensorboard.events"));
    EXPECT_NE(board.path().find("/runs/first/events.out.tfevents.1234567890."), std::string::npos) << board.path();
}

TEST(TensorBoardWriter, TwoInOneFolder) {
    const TempDir dir;
    const TensorBoardWriter first(dir.path(), FixedTime);
    const TensorBoardWriter second(dir.path(), FixedTime);
    EXPECT_NE(first.path(), second.path());
}

TEST(TensorBoardWriter, Errors) {
    const TempDir dir;
    const std::string file = dir.Write("file", "");
    EXPECT_NE(MessageOf<IoError>([&] { TensorBoardWriter writer(file + "/below"); }).find(file), std::string::npos);
    TensorBoardWriter board(dir.path());
    const std::string before = Contents(board.path());
    EXPECT_THROW(board.AddImage("i", *Tensor::Zeros({2, 3, 3}), 0), ShapeError);
    EXPECT_THROW(board.AddImage("i", *Tensor::Zeros({3, 3}), 0), ShapeError);
    EXPECT_THROW(board.AddImage("i", *Tensor::Zeros({1, 3, 3}, DataType::kINT32), 0), DtypeError);
    EXPECT_THROW(board.AddHistogram("h", ComputeStatistics(*Tensor::Ones({3})), 0), ValueError);
    board.AddHistogram("h", *Tensor::Full({3}, std::numeric_limits<double>::quiet_NaN()), 0);
    EXPECT_EQ(Contents(board.path()), before);
}

// A file for read_tensorboard.py, which reads it with TensorBoard; otherwise into the void.
TEST(TensorBoardWriter, EveryKind) {
    const TempDir dir;
    const char *wanted = std::getenv("INFINI_TRAIN_TEST_OUTPUT");
    TensorBoardWriter board(wanted != nullptr ? wanted : dir.path());
    for (int step = 0; step < 3; ++step) {
        board.AddScalar("loss/train", 1.0 / (1 + step), step);
    }
    board.AddHistogram("values", *Tensor::FromVector<double>({-2, 0, 0, 0.5, 1, 8}), 5);
    board.AddHistogram("constant", *Tensor::Full({10}, 3), 6);
    board.AddHistogram("zeros", *Tensor::Zeros({4}), 7);
    board.AddText("note", "plain text", 1);
    board.AddImage("grey", *Tensor::FromVector<uint8_t>({0, 50, 100, 150, 200, 250}, {{1, 2, 3}}), 1);
    board.AddImage("color", *Tensor::FromVector<float>({1, 0, 0.5F, 0, 2, -1}, {{3, 1, 2}}), 2);
    EXPECT_GT(std::filesystem::file_size(board.path()), 500U);
}

}  // namespace
}  // namespace infini_train::utils
