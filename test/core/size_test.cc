#include "infini_train/src/core/size.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train {
namespace {

using Dims = std::vector<int64_t>;
constexpr int64_t kGiant = int64_t{1} << 40;

TEST(SizeTest, CountsElements) {
    EXPECT_EQ(CheckedNumElements(Dims{}, "Op"), 1);
    EXPECT_EQ(CheckedNumElements(Dims{7}, "Op"), 7);
    EXPECT_EQ(CheckedNumElements(Dims{2, 3, 4}, "Op"), 24);
    EXPECT_EQ(CheckedNumElements(Dims{65536, 65536}, "Op"), 4294967296);
    EXPECT_EQ(CheckedNumElements(Dims{3, 1000000000}, "Op"), 3000000000);
    EXPECT_EQ(CheckedNumElements(Dims{INT64_MAX}, "Op"), INT64_MAX);
    EXPECT_EQ(CheckedNumElements(Dims{kGiant, 1 << 22}, "Op"), int64_t{1} << 62);
}

TEST(SizeTest, AnEmptyDimensionWinsOverGiantOnes) {
    EXPECT_EQ(CheckedNumElements(Dims{0}, "Op"), 0);
    EXPECT_EQ(CheckedNumElements(Dims{0, kGiant, kGiant}, "Op"), 0);
    EXPECT_EQ(CheckedNumElements(Dims{kGiant, kGiant, 0}, "Op"), 0);
    EXPECT_EQ(CheckedNumElements(Dims{kGiant, kGiant, 0, kGiant, kGiant}, "Op"), 0);
}

TEST(SizeTest, RefusesNegativeAndOverflowingShapes) {
    EXPECT_THROW(CheckedNumElements(Dims{-1}, "Op"), ShapeError);
    EXPECT_THROW(CheckedNumElements(Dims{0, -1}, "Op"), ShapeError);
    EXPECT_THROW(CheckedNumElements(Dims{-2, -3}, "Op"), ShapeError);
    EXPECT_THROW(CheckedNumElements(Dims{kGiant, 1 << 23}, "Op"), ShapeError);
    EXPECT_THROW(CheckedNumElements(Dims{kGiant, kGiant}, "Op"), ShapeError);
    try {
        CheckedNumElements(Dims{2, -3}, "Empty");
        FAIL();
    } catch (const ShapeError &error) {
        EXPECT_STREQ(error.what(), "Empty: expected sizes of at least 0, got (2, -3)");
    }
}

TEST(SizeTest, CountsBytes) {
    EXPECT_EQ(CheckedBytes(3, DataType::kFLOAT64, "Op"), 24U);
    EXPECT_EQ(CheckedBytes(Dims{65536, 65536}, DataType::kFLOAT32, "Op"), size_t{1} << 34);
    EXPECT_EQ(CheckedBytes(INT64_MAX, DataType::kBOOL, "Op"), static_cast<size_t>(INT64_MAX));
    EXPECT_THROW(CheckedBytes(INT64_MAX, DataType::kFLOAT16, "Op"), ShapeError);
    EXPECT_THROW(CheckedBytes(Dims{int64_t{1} << 61}, DataType::kFLOAT32, "Op"), ShapeError);
}

TEST(FormatTest, PrintsDimsAsPythonPrintsTuples) {
    EXPECT_EQ(FormatDims(Dims{}), "()");
    EXPECT_EQ(FormatDims(Dims{5}), "(5,)");
    EXPECT_EQ(FormatDims(Dims{2, 3}), "(2, 3)");
    EXPECT_EQ(FormatDims(Dims{2, -1, 0}), "(2, -1, 0)");
}

TEST(FormatTest, ThrowsWithAMessageAndTakesContext) {
    try {
        Throw<IndexError>("Op: expected {} to {}, got {}", 0, 4, 7);
        FAIL();
    } catch (Error &error) {
        EXPECT_STREQ(error.what(), "Op: expected 0 to 4, got 7");
        error.AddContext("in module fc1 (Linear)");
        EXPECT_STREQ(error.what(), "Op: expected 0 to 4, got 7 [in module fc1 (Linear)]");
    }
}

}  // namespace
}  // namespace infini_train
