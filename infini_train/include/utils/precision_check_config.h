#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/utils/tensor_comparison.h"

namespace infini_train::utils {

/// Whether the inputs and outputs of modules are looked at, or those of functions.
enum class PrecisionCheckLevel { OFF = 0, MODULE = 1, FUNCTION = 2 };

/// What PrecisionChecker does; the first five have InfiniTrain's names.
struct INFINI_TRAIN_EXPORT PrecisionCheckConfig {
    PrecisionCheckLevel level = PrecisionCheckLevel::OFF;
    /// Folder of the record; it is made. A record that lies there is replaced. Empty: nothing is written.
    std::string output_path = "./precision_check";
    std::string format = "simple";  ///< lines of the log: `simple` (statistics and first values) or `md5`
    bool save_tensors = false;      ///< whether all tensors are written as .npy files
    double md5_tolerance = 0;       ///< see Md5
    bool backward = true;           ///< whether gradients are looked at
    bool parameters = true;         ///< whether gradients before, and parameters after an optimizer's step are
    int64_t max_steps = 0;          ///< how many steps are looked at; 0: all
    std::string baseline = {};      ///< folder of a record that each tensor is compared with as it comes
    bool stop = false;              ///< with a baseline: throw PrecisionError at the first one that is apart
    std::optional<Tolerance> tolerance = {};  ///< with a baseline; otherwise DefaultTolerance

    /// Reads `level=2,path=run1,format=md5,save_tensors=true`, in any order; the keys are `level` (0 to 2), `path`, and
    /// the names above, with `rtol` and `atol` for the tolerance. Throws ValueError that names the key.
    static PrecisionCheckConfig Parse(const std::string &text);
};

}  // namespace infini_train::utils
