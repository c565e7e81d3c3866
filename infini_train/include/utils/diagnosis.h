#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/utils/monitor_log.h"

namespace infini_train::utils {

/// What stands out in a series of measurements.
enum class Symptom {
    kNonFinite,   ///< NaN or infinities at any step
    kDead,        ///< outputs nearly all zero
    kConstant,    ///< outputs that don't differ
    kNoGradient,  ///< a gradient that is zero throughout
    kVanishing,   ///< a gradient far smaller than those of the other layers
    kExploding,   ///< outputs or a gradient that have grown far beyond what they were
    kUnstable,    ///< updates that are large beside the parameter
};

/// `non-finite`, `dead`, `constant`, `no gradient`, `vanishing`, `exploding`, `unstable`.
INFINI_TRAIN_EXPORT const char *ToString(Symptom symptom);

struct Finding {
    Symptom symptom = Symptom::kDead;
    Quantity quantity = Quantity::kOutput;
    std::string name;       ///< the series
    int64_t step = 0;       ///< the first one with a non-finite value; otherwise the last one measured
    std::string text = {};  ///< a sentence for people
};

/// Rules of thumb. "RMS" is the root mean square.
struct DiagnosisOptions {
    double dead_share = 0.9;        ///< zeros among the outputs, from which on a layer counts as dead
    double vanishing_ratio = 1e-3;  ///< RMS of a gradient beside the median of all series of its quantity
    double exploding_growth = 100;  ///< RMS now beside the first one
    double exploding_rms = 1;       ///< and at least this, so that a start from nothing isn't an explosion
    double unstable_ratio = 0.1;    ///< RMS of an update beside that of the parameter
};

/// What stands out in a log, the worst first. All but non-finite values are judged by the last measurement.
INFINI_TRAIN_EXPORT std::vector<Finding> Diagnose(const MonitorLog &log, const DiagnosisOptions &options = {});

}  // namespace infini_train::utils
