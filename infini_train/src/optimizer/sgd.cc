#include <limits>

#include "infini_train/include/common/error.h"
#include "infini_train/include/optimizer.h"

#include "infini_train/src/optimizer/fused.h"

namespace infini_train::optimizers {

struct SGD::Work : FusedUpdates<kernels::SgdStep, kernels::SgdUpdate> {};

SGD::SGD(const TensorList &params, double lr, double momentum, double dampening, double weight_decay, bool nesterov)
    : SGD(std::vector<ParamGroup>{{.params = params}}, lr, momentum, dampening, weight_decay, nesterov) {}

SGD::SGD(const std::vector<ParamGroup> &groups, double lr, double momentum, double dampening, double weight_decay,
         bool nesterov)
    : Optimizer("SGD", groups, lr, weight_decay,
                momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>()),
      momentum_(momentum),
      dampening_(dampening),
      nesterov_(nesterov ? 1 : 0),
      work_(std::make_unique<Work>()) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    set_master_weights(true);
    // Without a sum there is none to go on from: a state with momentum doesn't fit then.
    AddOption("momentum", &momentum_, momentum != 0 ? Range{0, kInfinity} : Range{0, 0, true});
    AddOption("dampening", &dampening_, {-kInfinity, kInfinity});
    AddOption("nesterov", &nesterov_, {0, 1, true});
    if (nesterov && (momentum <= 0 || dampening != 0)) {
        throw ValueError("SGD: Nesterov's form expects momentum and no dampening");
    }
}

SGD::~SGD() = default;

OptimizerCreator SGD::Create(double lr, double momentum, double dampening, double weight_decay, bool nesterov) {
    return [=](const TensorList &params) {
        return std::make_shared<SGD>(params, lr, momentum, dampening, weight_decay, nesterov);
    };
}

void SGD::StepImpl() {
    work_->Clear();
    for (const Update &update : BeginUpdates()) {
        if (auto *kernel_update = work_->Add(update.param, update.grad, *update.state, update.master)) {
            const bool first = update.step == 1;
            kernel_update->lr = *update.group->lr;
            kernel_update->weight_decay = *update.group->weight_decay;
            kernel_update->momentum = momentum_;
            kernel_update->keep = first ? 0 : momentum_;
            kernel_update->take = first ? 1 : 1 - dampening_;
            kernel_update->nesterov = nesterov_ != 0;
        }
    }
    work_->Run();
    EndUpdates();
}

}  // namespace infini_train::optimizers
