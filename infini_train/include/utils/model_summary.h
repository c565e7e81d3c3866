#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/utils/terminal.h"

namespace infini_train::utils {

/// One module in a ModelSummary. But for `own_parameters` and `tied_parameters` everything includes the modules below.
struct ModuleSummary {
    std::string path;        ///< from the summarised module, which has an empty one
    std::string name;        ///< the last part of the path
    std::string type;        ///< as Module::type()
    int64_t depth = 0;       ///< 0 for the summarised module
    std::string same_as;     ///< path of the row that is the same module, under another name; its numbers are there
    int64_t calls = 0;       ///< of its operator() in the forward
    bool is_shared = false;  ///< whether it is the module of row `same_as`
    std::vector<std::vector<int64_t>> output_dims;  ///< of the last call's outputs; {} for null

    int64_t parameters = 0;            ///< elements; a tensor that is registered twice counts once
    int64_t trainable_parameters = 0;  ///< those of them that require a gradient
    int64_t own_parameters = 0;        ///< registered on the module itself
    int64_t tied_parameters = 0;       ///< those of the own ones that a row above has, too
    int64_t parameter_bytes = 0;
    int64_t gradient_bytes = 0;  ///< of the trainable parameters, once they have a gradient
    int64_t buffer_bytes = 0;
    int64_t activation_bytes = 0;  ///< memory of all that operators gave in the forward, views excepted
    int64_t flops = 0;             ///< of the forward; see utils/flops.h
};

/// What a model is made of and what a forward of it costs: the tree of its modules with output shapes, parameters,
/// memory and FLOPs.
///
///     std::cout << utils::ModelSummary(*model, {64, 1, 28, 28});
///
/// It runs one forward, under hooks and without recording, in the mode (training or evaluation) in which the model is.
/// The default generator and the model's buffers are put back afterwards, also if the forward throws. Other hooks of
/// the model run as in any forward. Activations are what a training step holds at most; without the tensors that it
/// doesn't save for the backward pass it holds less.
class INFINI_TRAIN_EXPORT ModelSummary {
public:
    /// Forward of `inputs`. What it throws passes through.
    ModelSummary(nn::Module &model, const TensorList &inputs);
    /// Forward of one input of zeros, of a data type (the model's first floating-point parameter's, else float32, if
    /// none is given) on the model's device. Zeros are class 0 for a model that takes indices: pass kINT64 then.
    ModelSummary(nn::Module &model, const std::vector<int64_t> &input_dims,
                 std::optional<DataType> dtype = std::nullopt);

    /// The summarised module first, parents before their children, in order of registration.
    const std::vector<ModuleSummary> &rows() const { return rows_; }
    /// The summarised module's own row: the totals.
    const ModuleSummary &total() const { return rows_.front(); }
    /// Bytes of the inputs.
    int64_t input_bytes() const { return input_bytes_; }
    /// Types of operators whose FLOPs aren't known and hence not counted; utils::RegisterCost makes them known.
    const std::vector<std::string> &uncounted() const { return uncounted_; }

    /// A table, with the totals below it. Modules deeper than `max_depth` are left out, but counted in those above.
    std::string ToString(const Terminal &terminal = {}, int64_t max_depth = INT64_MAX) const;
    friend INFINI_TRAIN_EXPORT std::ostream &operator<<(std::ostream &stream, const ModelSummary &summary);

private:
    void Run(nn::Module &model, const TensorList &inputs);

    std::vector<ModuleSummary> rows_;
    std::vector<std::string> uncounted_;
    int64_t input_bytes_ = 0;
};

}  // namespace infini_train::utils
