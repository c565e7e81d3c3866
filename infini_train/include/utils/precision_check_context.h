#pragma once

#include <string>

#include "infini_train/include/common/export.h"

namespace infini_train::utils {

/// Where a thread is in its training loop, as far as its program tells: stands in front of the log's lines.
class INFINI_TRAIN_EXPORT PrecisionCheckContext {
public:
    /// The calling thread's.
    static PrecisionCheckContext &Instance();

    void SetGAS(int step) { gas_ = step; }  ///< of gradient accumulation
    void SetLayer(int layer) { layer_ = layer; }
    void SetLayerName(const std::string &name) { layer_name_ = name; }
    int GetGAS() const { return gas_; }
    int GetLayer() const { return layer_; }
    const std::string &GetLayerName() const { return layer_name_; }
    /// `[GAS-0] [L-0]`, and the name if there is one.
    std::string GetKey() const;
    void Reset() { *this = {}; }

private:
    PrecisionCheckContext() = default;

    int gas_ = 0;
    int layer_ = 0;
    std::string layer_name_;
};

}  // namespace infini_train::utils
