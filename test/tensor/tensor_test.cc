// Tensors themselves: making them, sizes, typed access, printing, .npy files.

#include "infini_train/include/tensor.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
using test::Of;
using test::Thrown;
using test::Values;
using Dims = std::vector<int64_t>;

TEST(Tensor, MadeFromFloatsOfAnyType) {
    const float data[] = {1, 2, 3, 4, 5, 6};
    const Tensor tensor(data, {2, 3}, DataType::kINT32);
    EXPECT_EQ(tensor.Dims(), (Dims{2, 3}));
    EXPECT_EQ(tensor.ToVector<int>(), (std::vector<int>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(tensor.SizeInBytes(), 24U);
}

TEST(Tensor, Factories) {
    EXPECT_EQ(Values(Tensor::Full({2}, 1.5)), (Floats{1.5, 1.5}));
    EXPECT_EQ(Values(Tensor::Eye(2)), (Floats{1, 0, 0, 1}));
    EXPECT_EQ(Tensor::Arange(2, 11, 3)->ToVector<int64_t>(), (std::vector<int64_t>{2, 5, 8}));
    EXPECT_EQ(Tensor::Arange(5, 0, -2)->ToVector<int64_t>(), (std::vector<int64_t>{5, 3, 1}));
    EXPECT_EQ(Tensor::Arange(0.0, 1.0, 0.25, DataType::kFLOAT32)->ToVector<float>(), (Floats{0, 0.25, 0.5, 0.75}));
    EXPECT_NE(Thrown<ValueError>([] { Tensor::Arange(0, 5, 0); }), "");
    EXPECT_NE(Thrown<ValueError>([] { Tensor::Arange(0, 5, -1); }), "");
    ManualSeed(3);
    const auto first = Values(Tensor::Rand({5}));
    ManualSeed(3);
    EXPECT_EQ(Values(Tensor::Rand({5})), first);
    for (const int64_t value : Tensor::RandInt(-2, 3, {200})->ToVector<int64_t>()) {
        EXPECT_GE(value, -2);
        EXPECT_LT(value, 3);
    }
}

TEST(Tensor, BlobIsSharedAndGivenBack) {
    float data[] = {1, 2, 3};
    int given_back = 0;
    {
        auto tensor = Tensor::FromBlob(data, {3}, DataType::kFLOAT32, Device(), [&](void *) { ++given_back; });
        auto view = tensor->Slice(0, 1, 3);
        data[2] = 7;
        tensor.reset();
        EXPECT_EQ(Values(view), (Floats{2, 7}));
        EXPECT_EQ(given_back, 0);
    }
    EXPECT_EQ(given_back, 1);
}

TEST(Tensor, LargeSizesAreCountedRight) {
    const auto storage = std::make_shared<Storage>(4, Device());
    EXPECT_EQ(Tensor(storage, {65536, 65536}, {0, 0}, 0, DataType::kFLOAT32).NumElements(), int64_t{65536} * 65536);
    EXPECT_EQ(Tensor(storage, {3000000000}, {0}, 0, DataType::kFLOAT32).SizeInBytes(), 12000000000U);
    const int64_t half = int64_t{1} << 32;
    EXPECT_NE(Thrown<ShapeError>([&] { Tensor(storage, {half, half / 2}, {0, 0}, 0, DataType::kFLOAT32); }), "");
    EXPECT_NE(Thrown<ShapeError>([&] { Tensor::Empty({half, half}); }), "");
    EXPECT_NE(Thrown<ShapeError>([&] { Tensor::Empty({-1}); }), "");
    EXPECT_NE(Thrown<OutOfMemoryError>([&] { Tensor::Empty({half, 1000000}); }), "");
}

TEST(Tensor, ViewsStayInsideOfTheirStorage) {
    const auto storage = std::make_shared<Storage>(24, Device());
    EXPECT_EQ(Tensor(storage, {2, 3}, {3, 1}, 0, DataType::kFLOAT32).NumElements(), 6);
    EXPECT_TRUE(Contains(Thrown<ShapeError>([&] {
                             Tensor(storage, {2, 3}, {3, 1}, 1, DataType::kFLOAT32);
                         }),
                         "24 bytes"));
    EXPECT_NE(Thrown<ShapeError>([&] { Tensor(storage, {2}, {-1}, 1, DataType::kFLOAT32); }), "");
    EXPECT_NE(Thrown<ShapeError>([&] { Tensor(storage, {2}, {1, 1}, 0, DataType::kFLOAT32); }), "");
}

TEST(Tensor, TypedAccess) {
    const auto tensor = Of({1, 2});
    EXPECT_EQ(tensor->Data<float>()[1], 2);
    EXPECT_EQ(Thrown<DtypeError>([&] { tensor->Data<double>(); }),
              "Tensor::Data: the tensor holds float32, not float64");
    EXPECT_EQ(Tensor::FromVector<int64_t>({INT64_MAX})->Item<int64_t>(), INT64_MAX);
    EXPECT_EQ(Thrown<ShapeError>([&] { tensor->Item(); }), "Tensor::Item: expected one element, got (2,)");
    EXPECT_EQ(tensor->Dim(-1), 2);
    EXPECT_NE(Thrown<IndexError>([&] { tensor->Dim(1); }), "");
    Tensor on_the_stack({2});
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { on_the_stack.Neg(); }), "make_shared"));
}

TEST(Tensor, CopyFromBroadcastsAndCountsVersions) {
    auto tensor = Tensor::Zeros({2, 2});
    const uint32_t version = tensor->Version();
    tensor->CopyFrom(*Of({5, 6}));
    EXPECT_EQ(Values(tensor), (Floats{5, 6, 5, 6}));
    EXPECT_GT(tensor->Version(), version);
    EXPECT_NE(Thrown<ShapeError>([&] { tensor->CopyFrom(*Of({1, 2, 3})); }), "");
}

// The expected texts are PyTorch 2.15's, but for the names of data types.
TEST(TensorPrint, AsPyTorch) {
    const float nan = std::nanf("");
    const float inf = std::numeric_limits<float>::infinity();
    EXPECT_EQ(Of({1, 2.5, -3})->ToString(), "tensor([ 1.0000,  2.5000, -3.0000])");
    EXPECT_EQ(Of({1, 20, -3})->ToString(), "tensor([ 1., 20., -3.])");
    EXPECT_EQ(Tensor::FromVector<int64_t>({1, -20, 300, 4}, Dims{2, 2})->ToString(),
              "tensor([[  1, -20],\n        [300,   4]])");
    EXPECT_EQ(Tensor::FromVector<bool>({true, false})->ToString(), "tensor([ True, False])");
    EXPECT_EQ(Of({1e10, 1.5, -2e-3})->ToString(), "tensor([ 1.0000e+10,  1.5000e+00, -2.0000e-03])");
    EXPECT_EQ(Of({1e-5, 2e-5})->ToString(), "tensor([1.0000e-05, 2.0000e-05])");
    EXPECT_EQ(Of({nan, 1.5, -inf})->ToString(), "tensor([   nan, 1.5000,   -inf])");
    EXPECT_EQ(Tensor::FromScalar(3.5)->ToString(), "tensor(3.5000)");
    EXPECT_EQ(Tensor::Zeros({2, 2})->ToString(), "tensor([[0., 0.],\n        [0., 0.]])");
    EXPECT_EQ(Tensor::Empty({0})->ToString(), "tensor([])");
    EXPECT_EQ(Tensor::Empty({2, 0})->ToString(), "tensor([], size=(2, 0))");
    EXPECT_EQ(Tensor::FromVector<double>({0.1})->ToString(), "tensor([0.1000], dtype=float64)");
    EXPECT_EQ(Tensor::Arange(0, 12, 1, DataType::kFLOAT32)->View({2, 3, 2})->ToString(),
              "tensor([[[ 0.,  1.],\n         [ 2.,  3.],\n         [ 4.,  5.]],\n\n"
              "        [[ 6.,  7.],\n         [ 8.,  9.],\n         [10., 11.]]])");
    EXPECT_EQ(Tensor::Arange(0, 30)->ToString(),
              "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
              "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
}

TEST(TensorPrint, SummarisesLargeTensors) {
    EXPECT_EQ(Tensor::Arange(0, 2000, 1, DataType::kFLOAT32)->ToString(),
              "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])");
    EXPECT_EQ(Tensor::Arange(0, 2000)->View({40, 50})->ToString(),
              "tensor([[   0,    1,    2,  ...,   47,   48,   49],\n"
              "        [  50,   51,   52,  ...,   97,   98,   99],\n"
              "        [ 100,  101,  102,  ...,  147,  148,  149],\n"
              "        ...,\n"
              "        [1850, 1851, 1852,  ..., 1897, 1898, 1899],\n"
              "        [1900, 1901, 1902,  ..., 1947, 1948, 1949],\n"
              "        [1950, 1951, 1952,  ..., 1997, 1998, 1999]])");
}

class TensorNpy : public ::testing::Test {
protected:
    void TearDown() override { std::filesystem::remove(path_); }
    void Write(const std::string &header, const std::string &data) const {
        std::ofstream file(path_, std::ios::binary);
        const auto length = static_cast<uint16_t>(header.size());
        file << "\x93NUMPY" << '\x01' << '\0';
        file.write(reinterpret_cast<const char *>(&length), sizeof(length));
        file << header << data;
    }
    const std::string path_ =
        std::filesystem::temp_directory_path() /
        (std::string("infini_train_") + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".npy");
};

TEST_F(TensorNpy, RoundTrip) {
    for (int i = 0; i < kNumDataTypes; ++i) {
        const auto dtype = static_cast<DataType>(i);
        const auto tensor = Of({0, 1, 1, 0, 1, 0}, {2, 3})->To(dtype)->Transpose(0, 1);
        tensor->SaveAsNpy(path_);
        EXPECT_EQ(std::filesystem::file_size(path_) % 64,
                  tensor->NumElements() * SizeOf(dtype == DataType::kBFLOAT16 ? DataType::kFLOAT32 : dtype) % 64);
        const auto loaded = Tensor::FromNpy(path_);
        EXPECT_EQ(loaded->Dims(), (Dims{3, 2}));
        EXPECT_EQ(loaded->Dtype(), dtype == DataType::kBFLOAT16 ? DataType::kFLOAT32 : dtype);
        EXPECT_EQ(Values(loaded), Values(tensor));
    }
    Tensor::FromScalar(2.5)->SaveAsNpy(path_);
    EXPECT_EQ(Tensor::FromNpy(path_)->NumDims(), 0);
}

TEST_F(TensorNpy, FortranOrder) {
    const int16_t data[] = {1, 2, 3, 4, 5, 6};
    Write("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n",
          std::string(reinterpret_cast<const char *>(data), sizeof(data)));
    EXPECT_EQ(Values(Tensor::FromNpy(path_)), (Floats{1, 3, 5, 2, 4, 6}));
}

TEST_F(TensorNpy, MalformedFiles) {
    const auto error = [&] { return Thrown<IoError>([&] { Tensor::FromNpy(path_); }); };
    EXPECT_TRUE(Contains(error(), "can't be opened"));
    std::ofstream(path_) << "<html>no</html>";
    EXPECT_TRUE(Contains(error(), "expected a .npy file"));
    const struct {
        const char *header, *says;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", "little-endian"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }\n", "'<c8'"},
        {"{'fortran_order': False, 'shape': (1,), }\n", "the key 'descr'"},
        {"{'descr': '<f4', 'fortran_order': 7, 'shape': (1,), }\n", "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", "expected 8 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (x,), }\n", "sizes below"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }\n", "FromNpy"},
    };
    for (const auto &c : cases) {
        Write(c.header, "abcd");
        EXPECT_TRUE(Contains(error(), c.says)) << c.header << error();
    }
    Write("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", "abcd");
    std::filesystem::resize_file(path_, 30);
    EXPECT_TRUE(Contains(error(), "cut off"));
    EXPECT_NE(Thrown<IoError>([] { Of({1})->SaveAsNpy("/nowhere/x.npy"); }), "");
}

}  // namespace
}  // namespace infini_train
