#include "infini_train/include/io/safetensors.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
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
    };
    for (const auto &c : cases) {
        Write(c.header, Bytes({1}));
        EXPECT_TRUE(Contains(Error(), c.says)) << c.header << "\n" << Error();
    }
    Write("{}", "", 1 << 30);
    EXPECT_TRUE(Contains(Error(), "a length of")) << Error();
    EXPECT_TRUE(Contains(Thrown<IoError>([] { io::LoadSafetensors("/nowhere/x"); }), "No such file"));
}

TEST_F(Safetensors, FailedSaveLeavesTheOldFile) {
    io::SaveSafetensors(path_, {{"a", test::Of({1})}});
    EXPECT_NE(Thrown<ValueError>([&] { io::SaveSafetensors(path_, {{"a", nullptr}}); }), "");
    EXPECT_EQ(Values(io::LoadSafetensors(path_).at("a")), (Floats{1}));
    EXPECT_NE(Thrown<IoError>([] { io::SaveSafetensors("/nowhere/x", {}); }), "");
}

}  // namespace
}  // namespace infini_train
