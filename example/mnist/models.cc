#include "example/mnist/models.h"

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/convolution.h"
#include "infini_train/include/nn/modules/flatten.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/pooling.h"

namespace infini_train::example {
namespace {

constexpr int64_t kNumClasses = 10;

std::shared_ptr<nn::Module> Mlp(int64_t inputs, const std::vector<int64_t> &hidden) {
    auto net = std::make_shared<nn::Sequential>(std::make_shared<nn::Flatten>());
    for (const int64_t units : hidden) {
        net->Append(std::make_shared<nn::Linear>(inputs, units));
        net->Append(std::make_shared<nn::Relu>());
        inputs = units;
    }
    net->Append(std::make_shared<nn::Linear>(inputs, kNumClasses));
    return net;
}

std::shared_ptr<nn::Module> LeNet() {
    using namespace nn;
    return std::make_shared<Sequential>(
        std::make_shared<Conv2d>(1, 6, 5, 1, 2), std::make_shared<Relu>(), std::make_shared<MaxPool2d>(2),  // 14 x 14
        std::make_shared<Conv2d>(6, 16, 5), std::make_shared<Relu>(), std::make_shared<MaxPool2d>(2),       // 5 x 5
        std::make_shared<Flatten>(), std::make_shared<Linear>(400, 120), std::make_shared<Relu>(),
        std::make_shared<Linear>(120, 84), std::make_shared<Relu>(), std::make_shared<Linear>(84, kNumClasses));
}

}  // namespace

const std::vector<std::string> &ModelNames() {
    static const std::vector<std::string> names = {"mlp", "mlp512", "lenet"};
    return names;
}

std::shared_ptr<nn::Module> MakeModel(const std::string &name, int64_t rows, int64_t cols, int64_t hidden) {
    if (name == "mlp") {
        return Mlp(rows * cols, {hidden});
    }
    if (name == "mlp512") {
        return Mlp(rows * cols, {512, 512});
    }
    if (name == "lenet" && rows == 28 && cols == 28) {
        return LeNet();
    }
    throw ValueError(name == "lenet" ? "lenet: expected images of 28 x 28, got " + std::to_string(rows) + " x " +
                                           std::to_string(cols)
                                     : "MakeModel: unknown model " + name);
}

}  // namespace infini_train::example
