#include "infini_train/include/utils/precision_record.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/tensor/shape.h"
#include "infini_train/src/utils/precision_io.h"
#include "infini_train/src/utils/tensor_text.h"

namespace infini_train::utils {
namespace {

using nlohmann::json;

DataType DtypeOf(const std::string &name) {
    for (int i = 0; i < kNumDataTypes; ++i) {
        if (ToString(static_cast<DataType>(i)) == name) {
            return static_cast<DataType>(i);
        }
    }
    throw ValueError("unknown data type '" + name + "'");
}

// JSON has no NaN: null stands for it.
double NumberOf(const json &value) {
    return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

TensorRecord FromJson(const json &line) {
    TensorRecord record;
    line.at("step").get_to(record.step);
    line.at("phase").get_to(record.phase);
    line.at("module").get_to(record.module);
    line.at("function").get_to(record.function);
    line.at("call").get_to(record.call);
    line.at("role").get_to(record.role);
    record.dtype = DtypeOf(line.at("dtype").get<std::string>());
    line.at("dims").get_to(record.dims);
    line.at("count").get_to(record.statistics.count);
    line.at("zeros").get_to(record.statistics.zeros);
    line.at("nans").get_to(record.statistics.nans);
    line.at("infs").get_to(record.statistics.infs);
    record.statistics.mean = NumberOf(line.at("mean"));
    record.statistics.std = NumberOf(line.at("std"));
    record.statistics.min = NumberOf(line.at("min"));
    record.statistics.max = NumberOf(line.at("max"));
    line.at("md5").get_to(record.md5);
    line.at("file").get_to(record.file);
    return record;
}

// In the data type that the run had: .npy files hold bfloat16 as float32.
TensorPtr Load(const TensorRecord &record, const std::string &directory) {
    const TensorPtr tensor = Tensor::FromNpy((std::filesystem::path(directory) / record.file).string());
    return tensor->Dtype() == record.dtype ? tensor : CastCopy(*tensor, record.dtype);
}

// As if the two were tensors of a few elements, of their own data types' precision.
TensorDifference CompareStatistics(const TensorRecord &baseline, const TensorRecord &other,
                                   std::optional<Tolerance> tolerance) {
    const auto values = [](const TensorRecord &record) {
        const TensorStatistics &statistics = record.statistics;
        const auto tensor =
            Tensor::FromVector<double>({statistics.min, statistics.max, statistics.mean, statistics.std});
        return IsFloatingPoint(record.dtype) ? CastCopy(*tensor, record.dtype) : tensor;
    };
    TensorDifference difference = CompareTensors(*values(baseline), *values(other), tolerance);
    const bool same_counts =
        baseline.statistics.nans == other.statistics.nans && baseline.statistics.infs == other.statistics.infs;
    difference.within = difference.within && same_counts;
    difference.worst.clear();
    return difference;
}

std::string Number(double value) {
    return fmt::format("{:.3g}", value);
}

std::string Describe(const RecordDifference &pair) {
    const TensorDifference &difference = pair.difference;
    std::string text = fmt::format("{} {}", ToString(pair.baseline.dtype), FormatDims(pair.baseline.dims));
    if (pair.other.dtype != pair.baseline.dtype) {
        text += " against " + ToString(pair.other.dtype);
    }
    if (!difference.mismatch.empty()) {
        return text + ": " + difference.mismatch;
    }
    if (!pair.by_values) {
        return text + fmt::format(": statistics differ by up to {} (relative {}); no values were saved",
                                  Number(difference.max_abs), Number(difference.max_rel));
    }
    text += fmt::format(": {} of {} outside, max abs {}, max rel {}, {} ulp, cosine {:.6g}", difference.outside,
                        difference.count, Number(difference.max_abs), Number(difference.max_rel), difference.max_ulp,
                        difference.cosine);
    if (!difference.worst.empty()) {
        text += fmt::format("; worst at {}: {:.9g} became {:.9g}", FormatDims(difference.worst),
                            difference.worst_baseline, difference.worst_other);
    }
    return text;
}

}  // namespace

std::string TensorRecord::Key() const {
    return fmt::format("step {} {} {}{}{}{}call {} {}", step, phase, module, module.empty() ? "" : " ", function,
                       function.empty() ? "" : ", ", call, role);
}

std::string ToJson(const TensorRecord &record) {
    const TensorStatistics &statistics = record.statistics;
    nlohmann::ordered_json line = {{"step", record.step},
                                   {"phase", record.phase},
                                   {"module", record.module},
                                   {"function", record.function},
                                   {"call", record.call},
                                   {"role", record.role},
                                   {"dtype", ToString(record.dtype)},
                                   {"dims", record.dims},
                                   {"count", statistics.count},
                                   {"zeros", statistics.zeros},
                                   {"nans", statistics.nans},
                                   {"infs", statistics.infs},
                                   {"mean", statistics.mean},
                                   {"std", statistics.std},
                                   {"min", statistics.min},
                                   {"max", statistics.max},
                                   {"md5", record.md5},
                                   {"file", record.file}};
    return line.dump();
}

std::vector<TensorRecord> ReadRecords(const std::string &directory) {
    const std::string path = (std::filesystem::path(directory) / kRecordsFile).string();
    std::ifstream file(path);
    if (!file) {
        Throw<IoError>("ReadRecords: {}: can't be opened", path);
    }
    std::vector<TensorRecord> records;
    std::string line;
    for (size_t number = 1; std::getline(file, line); ++number) {
        try {
            records.push_back(FromJson(json::parse(line)));
        } catch (const std::exception &error) {
            Throw<IoError>("ReadRecords: {}: line {}: expected a tensor's record: {}", path, number, error.what());
        }
    }
    return records;
}

RecordDifference CompareWith(const TensorRecord &baseline, const std::string &baseline_directory,
                             const TensorRecord &other, const Tensor *values, std::optional<Tolerance> tolerance) {
    RecordDifference pair{baseline, other, false, true, {}, false};
    if (baseline.dims != other.dims) {
        pair.difference.mismatch = FormatDims(baseline.dims) + " against " + FormatDims(other.dims);
        pair.within = pair.difference.within = pair.difference.identical = false;
        return pair;
    }
    pair.difference.count = baseline.statistics.count;
    pair.identical = baseline.md5 == other.md5 && baseline.dtype == other.dtype;
    if (pair.identical) {
        return pair;
    }
    pair.by_values = !baseline.file.empty() && values != nullptr;
    pair.difference = pair.by_values ? CompareTensors(*Load(baseline, baseline_directory), *values, tolerance)
                                     : CompareStatistics(baseline, other, tolerance);
    pair.within = pair.difference.within;
    return pair;
}

RecordDifference CompareRecords(const TensorRecord &baseline, const std::string &baseline_directory,
                                const TensorRecord &other, const std::string &other_directory,
                                std::optional<Tolerance> tolerance) {
    const bool needs_values = baseline.md5 != other.md5 && !baseline.file.empty() && !other.file.empty();
    const TensorPtr values = needs_values ? Load(other, other_directory) : nullptr;
    return CompareWith(baseline, baseline_directory, other, values.get(), tolerance);
}

RunComparison CompareRuns(const std::string &baseline_directory, const std::string &other_directory,
                          std::optional<Tolerance> tolerance) {
    const std::vector<TensorRecord> baseline = ReadRecords(baseline_directory);
    const std::vector<TensorRecord> other = ReadRecords(other_directory);
    std::unordered_map<std::string, const TensorRecord *> others;
    for (const TensorRecord &record : other) {
        others.emplace(record.Key(), &record);
    }
    RunComparison comparison;
    for (const TensorRecord &record : baseline) {
        const auto found = others.find(record.Key());
        if (found == others.end()) {
            comparison.only_in_baseline.push_back(record.Key());
            continue;
        }
        comparison.records.push_back(
            CompareRecords(record, baseline_directory, *found->second, other_directory, tolerance));
        others.erase(found);
    }
    for (const TensorRecord &record : other) {
        if (others.contains(record.Key())) {
            comparison.only_in_other.push_back(record.Key());
        }
    }
    return comparison;
}

size_t RunComparison::NumIdentical() const {
    return static_cast<size_t>(
        std::count_if(records.begin(), records.end(), [](const auto &pair) { return pair.identical; }));
}
size_t RunComparison::NumOutside() const {
    return static_cast<size_t>(
        std::count_if(records.begin(), records.end(), [](const auto &pair) { return !pair.within; }));
}

const RecordDifference *RunComparison::First() const {
    const auto found = std::find_if(records.begin(), records.end(), [](const auto &pair) { return !pair.within; });
    return found == records.end() ? nullptr : &*found;
}

std::string RunComparison::ToString(size_t max_rows) const {
    std::string text;
    if (const RecordDifference *first = First()) {
        text += fmt::format("the runs part at {}\n    {}\n", first->baseline.Key(), Describe(*first));
    }
    const size_t outside = NumOutside();
    text +=
        fmt::format("{} tensor{} in both runs: {} identical, {} within the tolerance, {} outside\n", records.size(),
                    records.size() == 1 ? "" : "s", NumIdentical(), records.size() - NumIdentical() - outside, outside);
    std::vector<std::vector<std::string>> rows = {{"tensor", "outside", "max abs", "max rel", "ulp", "cosine"}};
    for (const RecordDifference &pair : records) {
        if (pair.within || rows.size() > max_rows) {
            continue;
        }
        const TensorDifference &difference = pair.difference;
        const std::string count = !difference.mismatch.empty() ? difference.mismatch
                                  : pair.by_values ? fmt::format("{} of {}", difference.outside, difference.count)
                                                   : "statistics";
        rows.push_back({pair.baseline.Key(), count, Number(difference.max_abs), Number(difference.max_rel),
                        std::to_string(difference.max_ulp), fmt::format("{:.6g}", difference.cosine)});
    }
    if (outside > 0) {
        text += AlignColumns(rows);
    }
    if (outside > max_rows) {
        text += fmt::format("... and {} more\n", outside - max_rows);
    }
    for (const auto &[keys, name] :
         {std::pair{&only_in_baseline, "the baseline"}, std::pair{&only_in_other, "the other run"}}) {
        if (!keys->empty()) {
            text += fmt::format("{} only in {}, the first: {}\n", keys->size(), name, keys->front());
        }
    }
    return text;
}

}  // namespace infini_train::utils
