#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/utils/tensor_comparison.h"
#include "infini_train/include/utils/tensor_statistics.h"

namespace infini_train::utils {

/// One tensor that PrecisionChecker has seen. Two runs' tensors belong together if all that Key holds is equal, in
/// whatever order they came.
struct INFINI_TRAIN_EXPORT TensorRecord {
    int64_t step = 0;
    std::string phase;     ///< `forward`, `backward`, or `step` around an optimizer's step
    std::string module;    ///< as Module::Describe names it; for `step` the parameter
    std::string function;  ///< type of the function or optimizer; empty for a module
    int64_t call = 0;      ///< of the same function in the same module in this step (backward: the forward's number)
    std::string role;      ///< `output 0`, `gradient of input 1`, `gradient`, `parameter`
    DataType dtype = DataType::kFLOAT32;
    std::vector<int64_t> dims;
    TensorStatistics statistics;
    std::string md5;
    std::string file;  ///< of the values, below the record's folder; empty if they weren't saved

    /// `step 0 forward fc1 (Linear) Linear, call 0 output 0`
    std::string Key() const;
};

/// Reads a record. Throws IoError with the path and the line.
INFINI_TRAIN_EXPORT std::vector<TensorRecord> ReadRecords(const std::string &directory);

/// One tensor of two runs.
struct RecordDifference {
    TensorRecord baseline;
    TensorRecord other;
    bool identical = false;  ///< same MD5, shape and data type
    bool within = true;      ///< identical, or values (else statistics) within the tolerance
    /// Of the values where both are there, else of minimum, maximum, mean and standard deviation.
    TensorDifference difference;
    bool by_values = false;
};

/// Two runs beside each other, in the baseline's order.
struct INFINI_TRAIN_EXPORT RunComparison {
    std::vector<RecordDifference> records;
    std::vector<std::string> only_in_baseline;  ///< keys
    std::vector<std::string> only_in_other;

    size_t NumIdentical() const;
    size_t NumOutside() const;
    /// The first tensor that isn't within the tolerance: the operator where the runs part. Null if there is none.
    const RecordDifference *First() const;
    bool Agrees() const { return NumOutside() == 0 && only_in_baseline.empty() && only_in_other.empty(); }
    /// Where the runs part, a table of at most `max_rows` tensors that are outside, and what only one run has.
    std::string ToString(size_t max_rows = 20) const;
};

/// Compares one pair; the folders are where their files lie.
INFINI_TRAIN_EXPORT RecordDifference CompareRecords(const TensorRecord &baseline, const std::string &baseline_directory,
                                                    const TensorRecord &other, const std::string &other_directory,
                                                    std::optional<Tolerance> tolerance = std::nullopt);

/// Compares two folders that PrecisionChecker has written. Throws IoError.
INFINI_TRAIN_EXPORT RunComparison CompareRuns(const std::string &baseline_directory, const std::string &other_directory,
                                              std::optional<Tolerance> tolerance = std::nullopt);

}  // namespace infini_train::utils
