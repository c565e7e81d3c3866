#pragma once

#include <optional>
#include <string>

#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/precision_record.h"

namespace infini_train::utils {

inline constexpr char kRecordsFile[] = "records.jsonl";
inline constexpr char kLogFile[] = "log.txt";
inline constexpr char kTensorsFolder[] = "tensors";

/// A line of records.jsonl, without its end.
std::string ToJson(const TensorRecord &record);

/// CompareRecords where the other run's values are at hand; null if they aren't.
RecordDifference CompareWith(const TensorRecord &baseline, const std::string &baseline_directory,
                             const TensorRecord &other, const Tensor *values, std::optional<Tolerance> tolerance);

}  // namespace infini_train::utils
