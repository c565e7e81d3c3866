#include "infini_train/include/io/safetensors.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/support/peak_memory.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
using test::PeakMemory;
using test::ResetPeakMemory;
using test::Thrown;
using test::Values;

class Safetensors : public ::testing::Test {
protected:
    void TearDown() override { std::filesystem::remove(path_); }

    // A file as the format says: the header's length, the header, the data.
    void Write(const std::string &header, const std::string &data, int64_t length = -1) const {
        std::ofstream file(path_, std::ios::binary);
        const auto size = static_cast<uint64_t>(length < 0 ? static_cast<int64_t>(header.size()) : length);
        file.write(reinterpret_cast<const char *>(&size), sizeof(size));
        file << header << data;
    }
    std::string Error() const {
        return Thrown<IoError>([&] { io::LoadSafetensors(path_); });
    }

    const std::string path_ = std::filesystem::temp_directory_path() /
                              (std::string("infini_train_") +
                               ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors");
};

std::string Bytes(const Floats &values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

TEST_F(Safetensors, ReadsAFileWrittenByHand) {
    Write(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
          R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
          Bytes({7, 1, 2}));
    std::map<std::string, std::string> metadata;
    const auto tensors = io::LoadSafetensors(path_, &metadata);
    ASSERT_EQ(tensors.size(), 2U);
    EXPECT_EQ(Values(tensors.at("a")), (Floats{7}));
    EXPECT_EQ(tensors.at("a")->NumDims(), 0);
    EXPECT_EQ(Values(tensors.at("b")), (Floats{1, 2}));
    EXPECT_EQ(metadata.at("format"), "pt");
}

TEST_F(Safetensors, RoundTripOfEveryDataType) {
    std::map<std::string, TensorPtr> tensors;
    for (int i = 0; i < kNumDataTypes; ++i) {
        const auto dtype = static_cast<DataType>(i);
        tensors[ToString(dtype)] = test::Of({0, 1, 1, 0, 1, 0}, {2, 3})->To(dtype)->Transpose(0, 1);
    }
    tensors["empty"] = Tensor::Empty({0, 5});
    io::SaveSafetensors(path_, tensors);
    const auto loaded = io::LoadSafetensors(path_);
    ASSERT_EQ(loaded.size(), tensors.size());
    for (const auto &[name, tensor] : tensors) {
        EXPECT_EQ(loaded.at(name)->Dims(), tensor->Dims()) << name;
        EXPECT_EQ(loaded.at(name)->Dtype(), tensor->Dtype()) << name;
        EXPECT_EQ(Values(loaded.at(name)), Values(tensor)) << name;
    }
    EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

TEST_F(Safetensors, EveryCutIsRefused) {
    io::SaveSafetensors(path_, {{"a", test::Of({1, 2, 3})}, {"b", test::Of({4})}});
    std::string whole;
    {
        std::ifstream file(path_, std::ios::binary);
        whole.assign(std::istreambuf_iterator<char>(file), {});
    }
    for (size_t size = 0; size < whole.size(); ++size) {
        std::ofstream(path_, std::ios::binary).write(whole.data(), static_cast<std::streamsize>(size));
        EXPECT_TRUE(Contains(Error(), path_)) << size;
    }
    std::ofstream(path_, std::ios::binary) << whole << "x";
    EXPECT_TRUE(Contains(Error(), "bytes of data"));
}

TEST_F(Safetensors, MalformedHeaders) {
    const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
    const struct {
        std::string header, says;
    } cases[] = {
        {"[1]", "JSON object"},
        {"{\"a\":", "in JSON"},
        {"<html>", "in JSON"},
        {"{" + a + "," + a + "}", "'a' twice"},
        {R"({"a":{"dtype":"F7","shape":[1],"data_offsets":[0,4]}})", "known data type"},
        {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "'dtype' of tensor 'a'"},
        {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "whole numbers as 'shape'"},
        {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", "whole numbers as 'shape'"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "two data_offsets"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "8 bytes for tensor 'a'"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "4 bytes for tensor 'a'"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "begin at 0"},
        {"{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "begin at 4"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "8 bytes of data"},
        {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", "fits into memory"},
        {R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}})", "fits into memory"},
        {R"({"__metadata__":{"x":1},)" + a + "}", "text as metadata"},
        {R"({"__metadata__":5,)" + a + "}", "an object as __metadata__"},
        {R"({"__metadata__":{},"__metadata__":{},)" + a + "}", "'__metadata__' twice"},
        {R"({"__metadata__":{"x":"1","x":"2"},)" + a + "}", "'x' twice"},
        {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "'dtype' twice"},
        {"{\"a\":5}", "'dtype' of tensor 'a'"},
        {"{\"a\":[5]}", "'dtype' of tensor 'a'"},
        {"5", "JSON object"},
        {" {" + a + "}", "JSON object"},
        {"{" + a + "} {}", "in JSON"},
        {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "whole numbers as 'shape'"},
        {R"({"a":{"dtype":"F32","shape":)" + std::string(100'000, '['), "16 levels"},
    };
    for (const auto &c : cases) {
        Write(c.header, Bytes({1}));
        EXPECT_TRUE(Contains(Error(), c.says)) << c.header << "\n" << Error();
    }
    Write("{}", "", 1 << 30);
    EXPECT_TRUE(Contains(Error(), "a length of")) << Error();
    EXPECT_TRUE(Contains(Thrown<IoError>([] { io::LoadSafetensors("/nowhere/x"); }), "No such file"));
}

TEST_F(Safetensors, ReadsOneByOneIntoViewsOfAnyType) {
    const auto a = test::Of({1, 2, 3, 4, 5, 6}, {2, 3});
    io::SaveSafetensors(path_, {{"a", a}, {"b", test::Of({7})}}, {{"made by", "hand"}});
    const io::SafetensorsFile file(path_);
    EXPECT_EQ(file.path(), path_);
    EXPECT_EQ(file.metadata().at("made by"), "hand");
    ASSERT_EQ(file.tensors().size(), 2U);
    EXPECT_EQ(file.info("a").dims, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(file.info("a").dtype, DataType::kFLOAT32);
    EXPECT_EQ(Values(file.Read("b")), (Floats{7}));
    // Columns 1 and 3 of a wider tensor in double precision.
    const auto wide = Tensor::Zeros({3, 4}, DataType::kFLOAT64);
    const auto version = wide->Version();
    file.ReadInto("a", wide->Slice(1, 1, 4, 2)->Transpose(0, 1));
    EXPECT_EQ(Values(wide), (Floats{0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6}));
    EXPECT_NE(wide->Version(), version);
    const auto leaf = Tensor::Zeros({2, 3})->RequiresGrad();
    file.ReadInto("a", leaf);
    EXPECT_EQ(Values(leaf), Values(a));
    EXPECT_TRUE(leaf->is_leaf());
    EXPECT_TRUE(Contains(Thrown<IoError>([&] { file.ReadInto("a", wide); }), "tensor 'a' of (3, 4), found (2, 3)"));
    EXPECT_TRUE(Contains(Thrown<IoError>([&] { file.Read("c"); }), "a tensor 'c', found 2 tensors of other names"));
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);  // it was whole when it was opened
    EXPECT_TRUE(Contains(Thrown<IoError>([&] { file.Read("b"); }), "became shorter"));
    EXPECT_TRUE(Contains(Thrown<IoError>([] { io::SafetensorsFile("/tmp"); }), "a regular file, found a folder"));
}

// Larger than the buffer that numbers pass through.
TEST_F(Safetensors, ConvertsInPieces) {
    const int64_t rows = 2200, columns = 2001;
    const auto numbers = Tensor::Arange(0, rows * columns, 1, DataType::kINT32)->View({rows, columns});
    io::SaveSafetensors(path_, {{"a", numbers}});
    const auto to = Tensor::Empty({columns, rows}, DataType::kFLOAT64);
    io::SafetensorsFile(path_).ReadInto("a", to->Transpose(0, 1));
    const auto expected = numbers->To(DataType::kFLOAT64)->Transpose(0, 1);
    EXPECT_EQ(to->Sub(expected)->Abs()->Max()->Item<double>(), 0);
}

TEST_F(Safetensors, PeakMemoryStaysWithinTheFileAnd64MiB) {
    if (INFINI_TRAIN_SANITIZED || !ResetPeakMemory() || PeakMemory() == 0) {
        GTEST_SKIP() << "memory can't be measured here";
    }
    constexpr size_t kSize = 40'000'000;
    const auto repeated = [](const std::string &head, const std::string &part, const std::string &tail) {
        std::string header = head;
        header.reserve(kSize + 100);
        while (header.size() < kSize) {
            header += part;
        }
        return header + tail;
    };
    const std::vector<std::function<std::string()>> headers = {
        [&] { return repeated("{\"a\":", "[", ""); },
        [&] { return repeated("{\"", std::string(1 << 16, 'x'), "\":1}"); },
        [&] { return repeated("{\"a\":", "1", "}"); },
        [&] { return repeated(R"({"a":{"dtype":"U8","shape":[0)", ",0", "]}}"); },
        [&] { return repeated(R"({"__metadata__":{"a":"b")", R"(,"c":"")", "}}"); },
        [] {  // as many tensors as fit
            std::string header = "{";
            header.reserve(kSize + 100);
            for (int i = 0; header.size() < kSize; ++i) {
                header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
                          R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
            }
            return header + "}";
        },
    };
    for (size_t i = 0; i < headers.size(); ++i) {
        Write(headers[i](), "");
        ASSERT_TRUE(ResetPeakMemory());
        const int64_t before = PeakMemory();
        const std::string error = Error();
        EXPECT_LT(PeakMemory() - before, static_cast<int64_t>(kSize) + (int64_t{64} << 20)) << i;
        EXPECT_FALSE(error.empty()) << i;
    }
}

TEST_F(Safetensors, FailedSaveLeavesTheOldFile) {
    io::SaveSafetensors(path_, {{"a", test::Of({1})}});
    EXPECT_NE(Thrown<ValueError>([&] { io::SaveSafetensors(path_, {{"a", nullptr}}); }), "");
    EXPECT_EQ(Values(io::LoadSafetensors(path_).at("a")), (Floats{1}));
    EXPECT_NE(Thrown<IoError>([] { io::SaveSafetensors("/nowhere/x", {}); }), "");
}

}  // namespace
}  // namespace infini_train
