#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/utils/precision_check_config.h"
#include "infini_train/include/utils/precision_record.h"

namespace infini_train {

namespace autograd {
class Function;
}  // namespace autograd
namespace nn {
class Module;
}  // namespace nn

namespace utils {

/// The first tensor that is apart from its baseline.
class INFINI_TRAIN_EXPORT PrecisionError : public Error {
    using Error::Error;
};

/// Records what modules or functions compute, forward and backward, to compare one run with another: on another device,
/// in another data type, before and after a change.
///
///     {
///         utils::PrecisionChecker checker(*model, {.level = utils::PrecisionCheckLevel::FUNCTION,
///                                                  .output_path = "run1", .save_tensors = true});
///         Train(...);
///     }
///     std::cout << utils::CompareRuns("run1", "run2").ToString();
///
/// The folder then holds `log.txt` (a line a tensor), `records.jsonl` (the same for programs) and `tensors/` (.npy
/// files). Steps count as NanGuard's do. In a folder given as `baseline` each tensor is looked up as it comes, so that
/// the second run needs no folder.
class INFINI_TRAIN_EXPORT PrecisionChecker {
public:
    /// Watches the whole program. Throws IoError where the folder can't be written or the baseline can't be read,
    /// ValueError for an unknown format.
    explicit PrecisionChecker(const PrecisionCheckConfig &config);
    /// Watches one model, which has to outlive the checker. Level MODULE watches it and all modules below.
    PrecisionChecker(nn::Module &model, const PrecisionCheckConfig &config);
    ~PrecisionChecker();
    PrecisionChecker(const PrecisionChecker &) = delete;
    PrecisionChecker &operator=(const PrecisionChecker &) = delete;

    int64_t step() const;
    void NextStep();
    /// All that has been seen up to now.
    std::vector<TensorRecord> Records() const;
    /// A table of it: a line a tensor with shape, data type, statistics and digest, at most `max_rows` of them.
    std::string Table(size_t max_rows = 100) const;
    /// Against config.baseline, up to now; what the run hasn't come to yet is in only_in_baseline.
    RunComparison Comparison() const;

    // ---- InfiniTrain's names ----------------------------------------------------------------------------------------

    /// What the two functions below look at.
    struct Config {
        bool check_nan = true;
        bool check_inf = true;
        bool print_stats = true;      ///< logs a line of statistics for each tensor
        bool abort_on_error = false;  ///< throws PrecisionError; the process goes on
    };
    static const Config &DefaultConfig();
    /// Logs what one function or module gives and its gradients, under `name` or its own; warns of NaN and infinities.
    static std::shared_ptr<HookHandle> RegisterForFunction(autograd::Function *function, const std::string &name = "",
                                                           const Config &config = DefaultConfig());
    static std::shared_ptr<HookHandle> RegisterForModule(nn::Module *module, const std::string &name = "",
                                                         const Config &config = DefaultConfig());

private:
    class Impl;
    struct Watch;
    PrecisionChecker(nn::Module *model, const PrecisionCheckConfig &config);
    std::shared_ptr<Impl> impl_;
    std::unique_ptr<Watch> watch_;
};

}  // namespace utils
}  // namespace infini_train
