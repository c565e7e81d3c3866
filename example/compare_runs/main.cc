// Compares two runs that PrecisionChecker has recorded, and says where they part. `compare_runs --help` lists the
// flags.

#include <iostream>
#include <optional>

#include <fmt/format.h>
#include <gflags/gflags.h>

#include "infini_train/include/common/version.h"
#include "infini_train/include/utils/precision_record.h"

#include "example/common/flags.h"

DEFINE_string(baseline, "", "folder of the run that counts as right");
DEFINE_string(other, "", "folder of the run that is compared with it");
DEFINE_double(rtol, -1, "relative tolerance; below 0: that of the data type");
DEFINE_double(atol, -1, "absolute tolerance; below 0: that of the data type");
DEFINE_int32(max_rows, 20, "how many tensors that are apart to list");

namespace infini_train::example {
namespace {

int Main() {
    if (FLAGS_baseline.empty() || FLAGS_other.empty()) {
        throw UsageError("--baseline and --other are needed: two folders with a records.jsonl");
    }
    RequireNonNegative("max_rows", FLAGS_max_rows);
    if ((FLAGS_rtol < 0) != (FLAGS_atol < 0)) {
        throw UsageError("--rtol and --atol go together");
    }
    const auto tolerance = FLAGS_rtol < 0 ? std::nullopt : std::optional(utils::Tolerance{FLAGS_rtol, FLAGS_atol});
    const utils::RunComparison comparison = utils::CompareRuns(FLAGS_baseline, FLAGS_other, tolerance);
    std::cout << comparison.ToString(static_cast<size_t>(FLAGS_max_rows));
    return comparison.Agrees() ? 0 : 1;
}

}  // namespace
}  // namespace infini_train::example

int main(int argc, char **argv) {
    using namespace infini_train::example;
    const ProgramInfo info = {
        "compare_runs",
        "Compares two runs recorded by PrecisionChecker and says at which operator they part. Ends with status 0 if "
        "they "
        "agree, 1 if they don't.",
        fmt::format("{}.{}.{}", infini_train::kVersionMajor, infini_train::kVersionMinor, infini_train::kVersionPatch),
        {{"Runs", {"baseline", "other"}}, {"Comparison", {"rtol", "atol", "max_rows"}}},
        {"compare_runs --baseline=run1 --other=run2",
         "compare_runs --baseline=run1 --other=run2 --rtol=1e-3 --atol=1e-5"}};
    return RunProgram(info, argc, argv, Main);
}
