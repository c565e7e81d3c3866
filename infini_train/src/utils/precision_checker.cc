#include "infini_train/include/utils/precision_checker.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/global_module_hook_registry.h"
#include "infini_train/include/utils/md5.h"
#include "infini_train/include/utils/precision_check_context.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/observer.h"
#include "infini_train/src/utils/precision_io.h"
#include "infini_train/src/utils/tensor_text.h"

namespace infini_train::utils {
namespace {

namespace fs = std::filesystem;
using Context = Observer::Context;

// What of a name may stand in a file's name.
std::string FileNamePart(const std::string &name) {
    std::string part;
    for (const char c : name) {
        const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
        if (plain) {
            part += c;
        } else if (!part.empty() && part.back() != '_') {
            part += '_';
        }
    }
    return part;
}

}  // namespace

class PrecisionChecker::Impl {
public:
    explicit Impl(const PrecisionCheckConfig &config) : config_(config) {
        if (config_.format != "simple" && config_.format != "md5") {
            Throw<ValueError>("PrecisionChecker: expected the format simple or md5, got '{}'", config_.format);
        }
        if (!config_.baseline.empty()) {
            baseline_ = ReadRecords(config_.baseline);
            for (size_t i = 0; i < baseline_.size(); ++i) {
                baseline_index_.emplace(baseline_[i].Key(), i);
            }
            differences_.resize(baseline_.size());
        }
        if (!config_.output_path.empty() && config_.level != PrecisionCheckLevel::OFF) {
            OpenFolder();
        }
    }

    const PrecisionCheckConfig &config() const { return config_; }
    bool Wants(int64_t step) const { return config_.max_steps == 0 || step < config_.max_steps; }

    // One record for each tensor of the list. `what` has all but the role and what is read from the tensor.
    void AddAll(const TensorRecord &what, const char *role, const TensorList &tensors) {
        for (size_t i = 0; i < tensors.size(); ++i) {
            if (tensors[i] != nullptr) {
                Add(what, fmt::format("{} {}", role, i), *tensors[i]);
            }
        }
    }

    void Add(TensorRecord record, std::string role, const Tensor &tensor) {
        if (!Wants(record.step)) {
            return;
        }
        record.role = std::move(role);
        record.dtype = tensor.Dtype();
        record.dims = tensor.Dims();
        record.statistics = ComputeStatistics(tensor);
        record.md5 = Md5(tensor, config_.md5_tolerance);
        const std::lock_guard lock(mutex_);
        // A graph that is gone through twice gives the same key again.
        if (record.step != keys_step_) {
            keys_.clear();
            keys_step_ = record.step;
        }
        const int times = ++keys_[record.Key()];
        if (times > 1) {
            record.role += fmt::format(" #{}", times);
        }
        Write(record, tensor);
        records_.push_back(record);
        CompareWithBaseline(record, tensor);
    }

    // Modules: the call whose backward runs is the latest that hasn't had one.
    int64_t ForwardCall(const std::string &module, int64_t step) {
        const std::lock_guard lock(mutex_);
        Calls &calls = CallsOf(module, step);
        if (autograd::GradMode::IsEnabled()) {
            calls.pending.push_back(calls.forward);
        }
        return calls.forward++;
    }
    int64_t BackwardCall(const std::string &module, int64_t step) {
        const std::lock_guard lock(mutex_);
        Calls &calls = CallsOf(module, step);
        if (calls.pending.empty()) {
            return 0;  // through a retained graph once more: Add tells them apart
        }
        const int64_t call = calls.pending.back();
        calls.pending.pop_back();
        return call;
    }

    std::vector<TensorRecord> Records() const {
        const std::lock_guard lock(mutex_);
        return records_;
    }

    RunComparison Comparison() const {
        const std::lock_guard lock(mutex_);
        RunComparison comparison;
        for (size_t i = 0; i < baseline_.size(); ++i) {
            if (differences_[i]) {
                comparison.records.push_back(*differences_[i]);
            } else {
                comparison.only_in_baseline.push_back(baseline_[i].Key());
            }
        }
        comparison.only_in_other = unknown_;
        return comparison;
    }

    Observer::Handlers MakeHandlers(const std::shared_ptr<Impl> &self) const;

private:
    struct Calls {
        int64_t step = 0;
        int64_t forward = 0;
        std::vector<int64_t> pending;
    };

    Calls &CallsOf(const std::string &module, int64_t step) {
        Calls &calls = calls_[module];
        if (calls.step != step) {
            calls = {step, 0, {}};
        }
        return calls;
    }

    // What an earlier run left is removed, and nothing else.
    void OpenFolder() {
        const fs::path folder = config_.output_path;
        std::error_code error;
        fs::create_directories(folder, error);
        if (fs::exists(folder / kRecordsFile)) {
            fs::remove_all(folder / kTensorsFolder, error);
        }
        if (config_.save_tensors && !error) {
            fs::create_directories(folder / kTensorsFolder, error);
        }
        records_file_.open(folder / kRecordsFile);
        log_.open(folder / kLogFile);
        if (error || !records_file_ || !log_) {
            Throw<IoError>("PrecisionChecker: {}: can't be written{}{}", config_.output_path, error ? ": " : "",
                           error ? error.message() : "");
        }
    }

    void Write(TensorRecord &record, const Tensor &tensor) {
        if (!records_file_.is_open()) {
            return;
        }
        if (config_.save_tensors) {
            record.file =
                fmt::format("{}/{:06}_{}_{}_{}_{}.npy", kTensorsFolder, records_.size(), record.phase,
                            FileNamePart(record.module), FileNamePart(record.function), FileNamePart(record.role));
            tensor.SaveAsNpy((fs::path(config_.output_path) / record.file).string());
        }
        records_file_ << ToJson(record) << '\n';
        log_ << PrecisionCheckContext::Instance().GetKey() << ' ' << record.Key() << ": "
             << DescribeTensor(tensor, record.statistics, config_.format == "md5" ? record.md5 : "") << '\n';
        records_file_.flush();  // what there is survives an abort of the run
        if (!records_file_ || !log_) {
            Throw<IoError>("PrecisionChecker: {}: writing failed", config_.output_path);
        }
    }

    void CompareWithBaseline(const TensorRecord &record, const Tensor &tensor) {
        if (config_.baseline.empty()) {
            return;
        }
        const auto found = baseline_index_.find(record.Key());
        if (found == baseline_index_.end()) {
            unknown_.push_back(record.Key());
            return;
        }
        RecordDifference &difference = differences_[found->second].emplace(
            CompareWith(baseline_[found->second], config_.baseline, record, &tensor, config_.tolerance));
        if (!difference.within && config_.stop) {
            throw PrecisionError("PrecisionChecker: " + RunComparison{{difference}, {}, {}}.ToString());
        }
    }

    const PrecisionCheckConfig config_;
    std::vector<TensorRecord> baseline_;
    std::unordered_map<std::string, size_t> baseline_index_;

    mutable std::mutex mutex_;  // guards what follows
    std::ofstream records_file_;
    std::ofstream log_;
    std::vector<TensorRecord> records_;
    std::vector<std::optional<RecordDifference>> differences_;  // of each of baseline_
    std::vector<std::string> unknown_;
    std::map<std::string, Calls> calls_;
    std::unordered_map<std::string, int> keys_;  // how often each came in keys_step_
    int64_t keys_step_ = 0;
};

// Its hooks run until it is gone.
struct PrecisionChecker::Watch {
    Observer observer;
    HookGroup modules;
};

Observer::Handlers PrecisionChecker::Impl::MakeHandlers(const std::shared_ptr<Impl> &self) const {
    using autograd::Function;
    Observer::Handlers handlers;
    const auto what = [](const Context &context, const char *phase, std::string module, std::string function,
                         int64_t call) {
        TensorRecord record;
        record.step = context.step();
        record.phase = phase;
        record.module = std::move(module);
        record.function = std::move(function);
        record.call = call;
        return record;
    };
    if (config_.level == PrecisionCheckLevel::FUNCTION) {
        handlers.forward = [self, what](const Context &context, Function *function, const Observer::Call &call,
                                        const TensorList & /*inputs*/, const TensorList &outputs) {
            self->AddAll(what(context, "forward", call.module, function->type(), call.number), "output", outputs);
        };
        if (config_.backward) {
            handlers.backward = [self, what](const Context &context, Function *function, const Observer::Call &call,
                                             const TensorList &grad_inputs, const TensorList & /*grad_outputs*/) {
                // What was applied inside of a backward pass is numbered as it comes.
                const char *phase = call.number < 0 ? "double backward" : "backward";
                self->AddAll(what(context, phase, call.module, function->type(), std::max<int64_t>(0, call.number)),
                             "gradient of input", grad_inputs);
            };
        }
    }
    if (config_.parameters) {
        handlers.before_step = [self, what](const Context &context, Optimizer *optimizer,
                                            const NamedTensors &parameters) {
            for (const auto &[name, parameter] : parameters) {
                if (const TensorPtr grad = parameter->grad()) {
                    self->Add(what(context, "step", name, optimizer->type(), 0), "gradient", *grad);
                }
            }
        };
        handlers.after_step = [self, what](const Context &context, Optimizer *optimizer,
                                           const NamedTensors &parameters) {
            for (const auto &[name, parameter] : parameters) {
                self->Add(what(context, "step", name, optimizer->type(), 0), "parameter", *parameter);
            }
        };
    }
    return handlers;
}

PrecisionChecker::PrecisionChecker(nn::Module *model, const PrecisionCheckConfig &config)
    : impl_(std::make_shared<Impl>(config)) {
    if (config.level == PrecisionCheckLevel::OFF) {
        return;
    }
    const bool by_function = config.level == PrecisionCheckLevel::FUNCTION;
    watch_.reset(new Watch{{model, "PrecisionChecker", by_function, impl_->MakeHandlers(impl_)}, {}});
    if (by_function) {
        return;
    }
    const auto record = [steps = watch_->observer.steps()](const char *phase, const nn::Module &module) {
        TensorRecord record;
        record.step = steps->load();
        record.phase = phase;
        record.module = module.Describe();
        return record;
    };
    const auto forward = [impl = impl_, record](nn::Module *module, const TensorList &, const TensorList &outputs) {
        TensorRecord what = record("forward", *module);
        what.call = impl->ForwardCall(what.module, what.step);
        impl->AddAll(what, "output", outputs);
    };
    const auto backward = [impl = impl_, record](nn::Module *module, const TensorList &grad_inputs,
                                                 const TensorList &) {
        if (module == nullptr) {
            return;  // gone before its backward
        }
        TensorRecord what = record("backward", *module);
        what.call = impl->BackwardCall(what.module, what.step);
        impl->AddAll(what, "gradient of input", grad_inputs);
    };
    const HookOptions options{.name = "PrecisionChecker"};
    const auto add = [&](auto handle) { watch_->modules.Add(std::move(handle)); };
    if (model == nullptr) {
        auto &all = GlobalModuleHookRegistry::Instance();
        add(all.RegisterModuleForwardHook(forward, options));
        if (config.backward) {
            add(all.RegisterModuleFullBackwardHook(backward, options));
        }
        return;
    }
    for (const auto &[path, module] : model->NamedModules()) {
        add(module->RegisterForwardPostHook(forward, options));
        if (config.backward) {
            add(module->RegisterBackwardPostHook(backward, options));
        }
    }
}

PrecisionChecker::PrecisionChecker(const PrecisionCheckConfig &config) : PrecisionChecker(nullptr, config) {}
PrecisionChecker::PrecisionChecker(nn::Module &model, const PrecisionCheckConfig &config)
    : PrecisionChecker(&model, config) {}
PrecisionChecker::~PrecisionChecker() = default;

int64_t PrecisionChecker::step() const {
    return watch_ == nullptr ? 0 : watch_->observer.step();
}
void PrecisionChecker::NextStep() {
    if (watch_ != nullptr) {
        watch_->observer.NextStep();
    }
}

std::vector<TensorRecord> PrecisionChecker::Records() const {
    return impl_->Records();
}
RunComparison PrecisionChecker::Comparison() const {
    return impl_->Comparison();
}

std::string PrecisionChecker::Table(size_t max_rows) const {
    const std::vector<TensorRecord> records = impl_->Records();
    std::vector<std::vector<std::string>> rows = {
        {"tensor", "shape", "dtype", "min", "max", "mean", "std", "nan", "inf", "md5"}};
    const auto number = [](double value) { return fmt::format("{:.4g}", value); };
    for (size_t i = 0; i < std::min(max_rows, records.size()); ++i) {
        const TensorRecord &record = records[i];
        const TensorStatistics &statistics = record.statistics;
        rows.push_back({record.Key(), FormatDims(record.dims), ToString(record.dtype), number(statistics.min),
                        number(statistics.max), number(statistics.mean), number(statistics.std),
                        std::to_string(statistics.nans), std::to_string(statistics.infs), record.md5.substr(0, 8)});
    }
    std::string text = AlignColumns(rows);
    if (records.size() > max_rows) {
        text += fmt::format("... and {} more\n", records.size() - max_rows);
    }
    return text;
}

}  // namespace infini_train::utils
