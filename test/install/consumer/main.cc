#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/version.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

using infini_train::Tensor;

namespace {

// y = x * x, so that dy/dx = 2x.
class Square : public infini_train::nn::Module {
public:
    Square() : Module("Square") {}
    std::vector<std::shared_ptr<Tensor>> Forward(const std::vector<std::shared_ptr<Tensor>> &inputs) override {
        return {inputs[0]->Mul(inputs[0])};
    }
};

bool Check(const char *what, double expected, double actual) {
    std::printf("%s: expected %g, got %g\n", what, expected, actual);
    return std::abs(expected - actual) < 1e-6;
}

int Run() {
    using infini_train::nn::Module;
    auto module = std::make_shared<Square>();
    double seen_output = 0;
    double seen_gradient = 0;
    auto forward = module->RegisterForwardPostHook(
        [&](Module *, const std::vector<std::shared_ptr<Tensor>> &,
            const std::vector<std::shared_ptr<Tensor>> &outputs) { seen_output = outputs[0]->Item<float>(); });
    auto backward = module->RegisterBackwardPostHook(
        [&](Module *, const std::vector<std::shared_ptr<Tensor>> &grad_inputs,
            const std::vector<std::shared_ptr<Tensor>> &) { seen_gradient = grad_inputs[0]->Item<float>(); });

    auto x = Tensor::Full({1}, 3.0f);
    x->set_requires_grad(true);
    (*module)({x})[0]->Backward();

    bool good = Check("output that the hook saw", 9, seen_output);
    good = Check("gradient that the hook saw", 6, seen_gradient) && good;
    good = Check("gradient of the leaf", 6, x->grad()->Item<float>()) && good;
    forward->Remove();
    backward->Remove();
    return good ? 0 : 1;
}

}  // namespace

int main() {
    std::printf("infini_train %d.%d\n", infini_train::kVersionMajor, infini_train::kVersionMinor);
    try {
        return Run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
