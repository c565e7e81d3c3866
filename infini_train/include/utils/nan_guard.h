#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/utils/tensor_statistics.h"

namespace infini_train {

namespace nn {
class Module;
}  // namespace nn

namespace utils {

class Observer;

/// A value that isn't finite: where it came from, and what was around it.
struct INFINI_TRAIN_EXPORT NonFiniteReport {
    enum class Source {
        kOperator,           ///< an operator made it of finite inputs (of -inf, if it made NaN of that)
        kInput,              ///< it came into an operator with a tensor that no operator had made: a parameter, or data
        kModelInput,         ///< it came into the model with its inputs
        kBackward,           ///< the backward of an operator made it of finite gradients
        kGradient,           ///< it was there before any backward: given to Backward, or put in place by a hook
        kParameterGradient,  ///< a parameter's grad() holds it before an optimizer's step
        kParameter,          ///< a parameter holds it after an optimizer's step
    };
    /// One of the tensors concerned.
    struct Entry {
        std::string name;  ///< `output 0`, `input 1`, `saved 0`, `gradient of input 0`, `fc.weight`, ...
        std::vector<int64_t> dims;
        DataType dtype = DataType::kFLOAT32;
        TensorStatistics statistics;
    };

    Source source = Source::kOperator;
    std::string function;  ///< type of the operator, the model (kModelInput) or the optimizer (the last two)
    std::string module;    ///< where it was applied, as Module::Describe names it; empty outside of any module
    int64_t step = 0;
    std::string kinds;  ///< `nan`, `inf`, `-inf`, or several as `nan, inf and -inf`
    Entry found;        ///< the tensor that holds it
    /// What it was made of: the operator's inputs; backward the gradients of its outputs, then the tensors that its
    /// forward had saved; for an optimizer the parameter's value or gradient.
    std::vector<Entry> inputs;

    /// A sentence, and a line for each tensor.
    std::string ToString() const;
};

/// What NanGuard throws: its text is the report's.
class INFINI_TRAIN_EXPORT NonFiniteError : public Error {
public:
    explicit NonFiniteError(NonFiniteReport report) : Error(report.ToString()), report_(std::move(report)) {}
    const NonFiniteReport &report() const { return report_; }

private:
    NonFiniteReport report_;
};

struct NanGuardOptions {
    bool forward = true;    ///< looks at what operators give
    bool backward = true;   ///< looks at the gradients that they give
    bool optimizer = true;  ///< looks at gradients before and at parameters after each step of an optimizer
    /// Types of the operators that may give -inf, as masks do. What is made of a -inf may be one, too.
    std::vector<std::string> allow_negative_inf = {"Mask", "Where", "Copy_"};
    /// Types of the operators that aren't looked at.
    std::vector<std::string> ignore = {};
    /// Is told instead of an error being thrown, once in each step: what follows from the first value is no news.
    std::function<void(const NonFiniteReport &)> callback = {};
};

/// Stops at the first value that isn't finite, as long as it lives: throws a NonFiniteError out of the operator's call,
/// of Backward or of Optimizer::Step, or tells a callback.
///
///     utils::NanGuard guard(*model);
///     for (...) { loss->Backward(); optimizer.Step(); }
///
///     NanGuard: Log made nan in output 0 [step 12, in module 1 (LogLayer)]
///       output 0  float32 (32, 16)  283 nan of 512, from -5.999 to 0.3534, mean -1.129, std 1.047
///       input 0   float32 (32, 16)  all 512 finite, from -2.109 to 1.424, mean -0.0288, std 0.5619
///
/// A value that came in from outside is told apart from one that an operator made. Only what operators give is read,
/// once; their inputs only when there is something to report. -inf may come in and be carried on: only NaN and inf that
/// are made of it are reported. Operators that change a tensor in place outside of the graph aren't functions; what
/// they leave is seen as an input. Composed operators are seen by their parts first.
class INFINI_TRAIN_EXPORT NanGuard {
public:
    /// Guards the whole program: every thread, every operator.
    explicit NanGuard(NanGuardOptions options = {});
    /// Guards what happens in the calls of one model, its backward, and its parameters. The model has to outlive the
    /// guard.
    explicit NanGuard(nn::Module &model, NanGuardOptions options = {});
    ~NanGuard();
    NanGuard(const NanGuard &) = delete;
    NanGuard &operator=(const NanGuard &) = delete;

    /// The step that reports name: counts from 0, after each step of an optimizer (of one that has parameters of the
    /// model), and with each NextStep.
    int64_t step() const;
    void NextStep();
    /// How many reports there have been, thrown or told.
    int64_t num_reports() const;

private:
    class Impl;
    NanGuard(nn::Module *model, NanGuardOptions options);
    std::shared_ptr<Impl> impl_;
    std::unique_ptr<Observer> observer_;
};

}  // namespace utils
}  // namespace infini_train
