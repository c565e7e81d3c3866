#include <cmath>
#include <limits>
#include <utility>

#include "infini_train/include/optimizer.h"

#include "infini_train/src/optimizer/fused.h"

namespace infini_train::optimizers {

struct Adam::Work : FusedUpdates<kernels::AdamStep, kernels::AdamUpdate> {};

Adam::Adam(std::string type, bool decoupled, const std::vector<ParamGroup> &groups, double lr, double beta1,
           double beta2, double eps, double weight_decay)
    : Optimizer(std::move(type), groups, lr, weight_decay, {"exp_avg", "exp_avg_sq"}),
      decoupled_(decoupled),
      beta1_(beta1),
      beta2_(beta2),
      eps_(eps),
      work_(std::make_unique<Work>()) {
    set_master_weights(true);
    AddOption("beta1", &beta1_, {0, 1});
    AddOption("beta2", &beta2_, {0, 1});
    AddOption("eps", &eps_, {0, std::numeric_limits<double>::infinity()});
}

Adam::Adam(const std::vector<ParamGroup> &groups, double lr, double beta1, double beta2, double eps,
           double weight_decay)
    : Adam("Adam", false, groups, lr, beta1, beta2, eps, weight_decay) {}

Adam::Adam(const TensorList &params, double lr, double beta1, double beta2, double eps, double weight_decay)
    : Adam(std::vector<ParamGroup>{{.params = params}}, lr, beta1, beta2, eps, weight_decay) {}

Adam::~Adam() = default;

OptimizerCreator Adam::Create(double lr, double beta1, double beta2, double eps, double weight_decay) {
    return
        [=](const TensorList &params) { return std::make_shared<Adam>(params, lr, beta1, beta2, eps, weight_decay); };
}

void Adam::StepImpl() {
    work_->Clear();
    // Most parameters have had equally many steps.
    int64_t step = 0;
    double correction1 = 1;
    double root_scale = 1;
    for (const Update &update : BeginUpdates()) {
        auto *kernel_update = work_->Add(update.param, update.grad, *update.state, update.master);
        if (kernel_update == nullptr) {
            continue;
        }
        if (update.step != step) {
            step = update.step;
            correction1 = 1 - std::pow(beta1_, static_cast<double>(step));
            root_scale = 1 / std::sqrt(1 - std::pow(beta2_, static_cast<double>(step)));
        }
        const double lr = *update.group->lr;
        const double weight_decay = *update.group->weight_decay;
        kernel_update->shrink = decoupled_ ? 1 - lr * weight_decay : 1;
        kernel_update->weight_decay = decoupled_ ? 0 : weight_decay;
        kernel_update->step_size = lr / correction1;
        kernel_update->root_scale = root_scale;
        kernel_update->beta1 = beta1_;
        kernel_update->beta2 = beta2_;
        kernel_update->eps = eps_;
    }
    work_->Run();
    EndUpdates();
}

AdamW::AdamW(const TensorList &params, double lr, double beta1, double beta2, double eps, double weight_decay)
    : AdamW(std::vector<ParamGroup>{{.params = params}}, lr, beta1, beta2, eps, weight_decay) {}

AdamW::AdamW(const std::vector<ParamGroup> &groups, double lr, double beta1, double beta2, double eps,
             double weight_decay)
    : Adam("AdamW", true, groups, lr, beta1, beta2, eps, weight_decay) {}

OptimizerCreator AdamW::Create(double lr, double beta1, double beta2, double eps, double weight_decay) {
    return
        [=](const TensorList &params) { return std::make_shared<AdamW>(params, lr, beta1, beta2, eps, weight_decay); };
}

}  // namespace infini_train::optimizers
