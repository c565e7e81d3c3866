#include "infini_train/include/utils/csv_writer.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/support/temp_dir.h"

namespace infini_train::utils {
namespace {

using ::infini_train::test::Contents;
using ::infini_train::test::MessageOf;
using ::infini_train::test::TempDir;

TEST(CsvWriterTest, WritesHeaderAndNumbers) {
    const TempDir dir;
    const std::string path = dir.path() + "/history.csv";
    CsvWriter csv(path, {"epoch", "loss", "accuracy", "name"});
    csv.Row({1, 0.1, 0.5F, "mlp"});
    csv.Row({int64_t{1} << 40, 1e-10, std::nan(""), ""});
    // Nothing waits for the file to be closed.
    EXPECT_EQ(Contents(path), "epoch,loss,accuracy,name\n1,0.1,0.5,mlp\n1099511627776,1e-10,nan,\n");
}

TEST(CsvWriterTest, QuotesOnlyWhatNeedsIt) {
    const TempDir dir;
    const std::string path = dir.path() + "/q.csv";
    CsvWriter csv(path, {"plain text", "a,b"});
    csv.Row({"say \"hi\"", "two\nlines"});
    csv.Row({"\r", "semi;colon"});
    EXPECT_EQ(Contents(path),
              "plain text,\"a,b\"\n"
              "\"say \"\"hi\"\"\",\"two\nlines\"\n"
              "\"\r\",semi;colon\n");
}

TEST(CsvWriterTest, RefusesARowOfAnotherLength) {
    const TempDir dir;
    CsvWriter csv(dir.path() + "/r.csv", {"a", "b"});
    EXPECT_EQ(MessageOf<ValueError>([&] { csv.Row({1}); }), "CsvWriter: expected 2 fields, got 1");
    EXPECT_EQ(MessageOf<ValueError>([&] { CsvWriter(dir.path() + "/s.csv", {}); }),
              "CsvWriter: expected at least one column, got none");
}

TEST(CsvWriterTest, FailuresNameThePathAndTheReason) {
    const TempDir dir;
    const std::string path = dir.path() + "/none/h.csv";
    EXPECT_EQ(MessageOf<IoError>([&] { CsvWriter(path, {"a"}); }),
              "CsvWriter: can't create '" + path + "': No such file or directory");
    if (std::ifstream("/dev/full").good()) {
        EXPECT_EQ(MessageOf<IoError>([] { CsvWriter("/dev/full", {"a"}); }),
                  "CsvWriter: can't write to '/dev/full': No space left on device");
    }
}

}  // namespace
}  // namespace infini_train::utils
