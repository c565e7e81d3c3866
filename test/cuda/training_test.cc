// Whole training steps on a GPU, emulated or not, against the CPU: losses, parameters, and what hooks see.

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/convolution.h"
#include "infini_train/include/nn/modules/flatten.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/pooling.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/nn/utils/clip_grad.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "test/cuda/gpu.h"

namespace infini_train {
namespace {

using ModulePtr = std::shared_ptr<nn::Module>;

struct Task {
    std::function<ModulePtr()> model;
    std::function<TensorPtr()> inputs;
    std::vector<int64_t> label_dims;
    int64_t classes;
};

// Everything that two runs should have in common.
struct Trace {
    std::vector<std::string> names;
    std::vector<std::vector<double>> values;

    void Add(const std::string &name, const TensorPtr &tensor) {
        names.push_back(name);
        values.push_back(tensor == nullptr ? std::vector<double>{}
                                           : tensor->Detach()->To(Device())->ToVector<double>());
    }
};

void ExpectNear(const Trace &actual, const Trace &expected, double tolerance) {
    ASSERT_EQ(actual.names, expected.names);
    for (size_t i = 0; i < expected.values.size(); ++i) {
        ASSERT_EQ(actual.values[i].size(), expected.values[i].size()) << expected.names[i];
        for (size_t k = 0; k < expected.values[i].size(); ++k) {
            ASSERT_NEAR(actual.values[i][k], expected.values[i][k], tolerance * (1 + std::abs(expected.values[i][k])))
                << expected.names[i] << " [" << k << "]";
        }
    }
}

// A few steps of training from the same beginning.
Trace Train(const Task &task, const OptimizerCreator &create, Device device, int steps,
            const std::function<void(nn::Module *, Trace *)> &watch = nullptr) {
    Trace trace;
    ManualSeed(11);
    const ModulePtr model = task.model();
    model->To(device);
    const auto optimizer = create(model->Parameters());
    if (watch != nullptr) {
        watch(model.get(), &trace);
    }
    for (int step = 0; step < steps; ++step) {
        const TensorPtr inputs = task.inputs()->To(device);
        const TensorPtr labels = Tensor::RandInt(0, task.classes, task.label_dims)->To(device);
        const TensorPtr outputs = (*model)({inputs})[0];
        const TensorPtr loss = nn::function::CrossEntropy(outputs->View({-1, task.classes}), labels->View({-1}));
        optimizer->ZeroGrad();
        loss->Backward();
        nn::utils::ClipGradNorm(model->Parameters(), 1.0);
        optimizer->Step();
        trace.Add("loss", loss);
    }
    for (const auto &[name, parameter] : model->NamedParameters()) {
        trace.Add(name, parameter);
    }
    return trace;
}

Task Perceptron() {
    return {[]() -> ModulePtr {
                return std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(40, 24),
                                                        std::make_shared<nn::Relu>(),
                                                        std::make_shared<nn::Linear>(24, 10));
            },
            [] {
                return Tensor::Randn({16, 40});
            },
            {16},
            10};
}

Task Convolutional() {
    return {[]() -> ModulePtr {
                return std::make_shared<nn::Sequential>(
                    std::make_shared<nn::Conv2d>(1, 4, 3), std::make_shared<nn::Relu>(),
                    std::make_shared<nn::MaxPool2d>(2), std::make_shared<nn::Flatten>(),
                    std::make_shared<nn::Linear>(4 * 5 * 5, 10));
            },
            [] {
                return Tensor::Randn({6, 1, 12, 12});
            },
            {6},
            10};
}

Task LanguageModel(const nn::TransformerConfig &config) {
    return {[config]() -> ModulePtr { return std::make_shared<nn::Transformer>(config); },
            [config] {
                return Tensor::RandInt(0, config.vocab_size, {2, 20});
            },
            {2, 20},
            config.vocab_size};
}

nn::TransformerConfig Gpt2() {
    nn::TransformerConfig config;
    config.vocab_size = 61;
    config.context = 32;
    config.layers = config.heads = 2;
    config.width = 32;
    return config;
}

class TrainingOnGpu : public ::testing::Test {
protected:
    void SetUp() override { INFINI_TRAIN_NEEDS_GPU(); }

    static void Compare(const Task &task, const OptimizerCreator &create, double tolerance,
                        const std::function<void(nn::Module *, Trace *)> &watch = nullptr) {
        constexpr int kSteps = 3;
        const Trace on_cpu = Train(task, create, Device(), kSteps, watch);
        const Trace on_gpu = Train(task, create, test::Gpu(), kSteps, watch);
        ExpectNear(on_gpu, on_cpu, tolerance);
    }
};

TEST_F(TrainingOnGpu, PerceptronWithSgd) {
    Compare(Perceptron(), optimizers::SGD::Create(0.1, 0.9, 0.0, 1e-3, true), 2e-5);
}

TEST_F(TrainingOnGpu, PerceptronWithAdam) {
    Compare(Perceptron(), optimizers::Adam::Create(1e-2), 2e-4);
}

TEST_F(TrainingOnGpu, ConvolutionalNetwork) {
    Compare(Convolutional(), optimizers::SGD::Create(0.1, 0.9), 5e-5);
}

TEST_F(TrainingOnGpu, Gpt2WithAdamW) {
    Compare(LanguageModel(Gpt2()), optimizers::AdamW::Create(1e-3), 1e-3);
}

TEST_F(TrainingOnGpu, Gpt2WithDropout) {
    nn::TransformerConfig config = Gpt2();
    config.dropout = 0.2;
    Compare(LanguageModel(config), optimizers::SGD::Create(0.1), 1e-4);
}

TEST_F(TrainingOnGpu, Llama) {
    Compare(LanguageModel(nn::TransformerConfig::Llama(61, 32, 2, 4, 32)), optimizers::SGD::Create(0.1), 1e-4);
}

// Module hooks, before and after, forward and backward, and a tensor's; one of them changes what goes on.
TEST_F(TrainingOnGpu, HooksSeeAndDoTheSame) {
    const auto watch = [](nn::Module *model, Trace *trace) {
        for (const auto &[name, parameter] : model->NamedParameters()) {
            parameter->RegisterHook([trace, name = name](const TensorPtr &grad) {
                trace->Add("gradient of " + name, grad);
                return grad->Mul(0.5);
            });
        }
        model->RegisterForwardPreHook(
            [trace](nn::Module *, const TensorList &inputs) { trace->Add("input", inputs[0]); });
        model->RegisterForwardPostHook([trace](nn::Module *, const TensorList &, const TensorList &outputs) {
            trace->Add("output", outputs[0]);
            return TensorList{outputs[0]->Mul(1.5)};
        });
        model->RegisterBackwardPreHook(
            [trace](nn::Module *, const TensorList &grads) { trace->Add("before", grads[0]); });
        model->RegisterBackwardPostHook([trace](nn::Module *, const TensorList &, const TensorList &grad_outputs) {
            trace->Add("after", grad_outputs[0]);
        });
    };
    Compare(Perceptron(), optimizers::SGD::Create(0.1), 2e-5, watch);
    Compare(LanguageModel(Gpt2()), optimizers::SGD::Create(0.1), 1e-4, watch);
}

}  // namespace
}  // namespace infini_train
