// InfiniTrain's names and signatures, each used once: a program that uses them compiles here and does the same.

#include <any>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "infini_train/include/autograd/accumulate.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/runtime/device_guard.h"
#include "infini_train/include/dataloader.h"
#include "infini_train/include/dataset.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/dtype_dispatch.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/init.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/loss.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/nn/modules/normalization.h"
#include "infini_train/include/nn/modules/sparse.h"
#include "infini_train/include/nn/modules/transformer/causal_self_attention.h"
#include "infini_train/include/nn/modules/transformer/mlp.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/nn/modules/transformer/transformer_config.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/scalar.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/global_module_hook_registry.h"

#include "test/infinitrain_style/autograd_test.h"

namespace infini_train {
namespace {

using test::Dims;
using test::Floats;

class NamesTest : public test::AutogradTest {};

TEST_P(NamesTest, DataTypes) {
    const std::set<DataType> types = {DataType::kUINT8,    DataType::kINT8,    DataType::kUINT16,  DataType::kINT16,
                                      DataType::kUINT32,   DataType::kINT32,   DataType::kUINT64,  DataType::kINT64,
                                      DataType::kBFLOAT16, DataType::kFLOAT16, DataType::kFLOAT32, DataType::kFLOAT64,
                                      DataType::kBOOL};
    EXPECT_EQ(types.size(), 13U);
    for (const DataType type : types) {
        const auto tensor = std::make_shared<Tensor>(Dims{2}, type, GetDevice());
        tensor->Fill(1);
        EXPECT_EQ(tensor->ToVector<float>(), (Floats{1, 1})) << ToString(type);
    }
}

TEST_P(NamesTest, Transformers) {
    nn::TransformerConfig config;
    config.vocab_size = 7;
    config.width = 8;
    config.heads = 2;
    config.layers = 1;
    config.norm = nn::NormType::kRMSNorm;
    config.activation = nn::MLPType::kSwiGLU;
    const auto model = std::make_shared<nn::Transformer>(config, GetDevice());
    const auto block = model->module(nn::Transformer::kHLayerName)->module("0");
    EXPECT_EQ(block->module(nn::TransformerBlock::kLn1LayerName)->type(), nn::RMSNorm::kType);
    const auto attention = block->module(nn::TransformerBlock::kAttnLayerName);
    EXPECT_EQ(attention->type(), nn::CausalSelfAttention::kType);
    EXPECT_EQ(attention->module(nn::CausalSelfAttention::kCAttnLayerName)->parameter("weight")->Dims(), (Dims{24, 8}));
    const auto mlp = block->module(nn::TransformerBlock::kMlpLayerName);
    EXPECT_EQ(mlp->module(nn::MLP::kCProjLayerName)->parameter(nn::Linear::kParamWeightName)->Dims(), (Dims{8, 256}));
    const auto ids = std::make_shared<Tensor>(Dims{2, 3}, DataType::kINT64, GetDevice());
    ids->Fill(1);
    EXPECT_EQ((*model)({ids})[0]->Dims(), (Dims{2, 3, 7}));
}

TEST_P(NamesTest, TensorsAndGradients) {
    const auto x = std::make_shared<Tensor>(Dims{2, 2}, DataType::kFLOAT32, GetDevice(), /*requires_grad=*/true);
    {
        autograd::NoGradGuard no_grad;
        x->Fill(3.0F);
    }
    const auto loss = x->Mul(x)->Sum(1, /*keep_dim=*/true)->Mean(0)->Squeeze();
    loss->Backward(nullptr, /*retain_graph=*/true, /*create_graph=*/false);
    ExpectNear(x->grad(), {3, 3, 3, 3}, "gradient");
    loss->Backward();
    ExpectNear(x->grad(), {6, 6, 6, 6}, "gradients accumulate");
    x->ZeroGrad(/*set_to_none=*/true);
    EXPECT_EQ(x->grad(), nullptr);
    const auto copy = std::make_shared<Tensor>(Dims{2, 2}, DataType::kFLOAT32, GetDevice());
    copy->CopyFrom(x->Detach());
    const auto wide = copy->To(DataType::kFLOAT64)->To(Device());
    EXPECT_EQ(wide->Dtype(), DataType::kFLOAT64);
    ExpectNear(wide, {3, 3, 3, 3}, "converted copy");
}

TEST_P(NamesTest, TensorOperators) {
    const auto x = Constant({2, 2}, {1, 2, 3, 4});
    const auto y = Constant({2, 2}, {4, 3, 2, 1});
    ExpectNear(x->Add(y)->Sub(x)->Mul(x)->Div(y)->Neg()->Reciprocal(), {-1, -0.5, -1.0F / 3, -0.25}, "arithmetic");
    ExpectNear(x->Lt(y)->Or(x->Ge(y))->And(x->Equals(x)), {1, 1, 1, 1}, "logic");
    ExpectNear(x->Le(y), {1, 1, 0, 0}, "Le");
    ExpectNear(x->Gt(y), {0, 0, 1, 1}, "Gt");
    ExpectNear(x->Log()->Exp()->Pow(2)->Rsqrt(), {1, 0.5, 1.0F / 3, 0.25}, "powers");
    ExpectNear(x->Sin()->Pow(2)->Add(x->Cos()->Pow(2))->Add(x->Sub(x)->Tanh()), {1, 1, 1, 1}, "angles");
    ExpectNear(x->Max(1, false)->Add(x->Min(0, false)), {3, 6}, "extremes");
    ExpectNear(x->Matmul(y), {8, 5, 20, 13}, "Matmul");
    ExpectNear(x->Slice({0, 1}, {2, 2}, {1, 1})->Contiguous()->View({2})->Outer(y->Flatten(0, 1)),
               {8, 6, 4, 2, 16, 12, 8, 4}, "Outer");
    ExpectNear(x->Transpose(0, 1)->Contiguous(), {1, 3, 2, 4}, "Transpose");
    EXPECT_FALSE(x->Transpose(0, 1)->IsContiguous());
    ExpectNear(x->Split(1, 0)[1]->Unsqueeze(0)->RepeatInterleave(2, 1), {3, 4, 3, 4}, "RepeatInterleave");
    ExpectNear(x->MaskedFill(x->Gt(y), -1), {1, 2, -1, -1}, "MaskedFill");
    ExpectNear(x->Gather(1, Indices({2, 1}, {1, 0})), {2, 3}, "Gather");
}

TEST_P(NamesTest, NpyFiles) {
    const auto path = (std::filesystem::temp_directory_path() / "infini_train_names_test.npy").string();
    Constant({3}, {1, 2, 3})->SaveAsNpy(path);
    ExpectNear(Tensor::FromNpy(path, GetDevice()), {1, 2, 3}, "what was saved");
    std::filesystem::remove(path);
}

// A function as InfiniTrain's users write one.
class Double : public autograd::Function {
public:
    static constexpr char kType[] = "DoubleFunction";
    Double() : autograd::Function(kType) {}
    std::vector<std::shared_ptr<Tensor>> Forward(const std::vector<std::shared_ptr<Tensor>> &inputs) override {
        return {inputs[0]->Mul(2.0F)};
    }
    void SetupContext(const std::vector<std::shared_ptr<Tensor>> &inputs,
                      const std::vector<std::shared_ptr<Tensor>> & /*outputs*/) override {
        ctx_.SaveForBackward(inputs);
    }
    std::vector<std::shared_ptr<Tensor>> Backward(const std::vector<std::shared_ptr<Tensor>> &grad_outputs) override {
        EXPECT_TRUE(ctx_.needs_input_grad(0));
        EXPECT_EQ(ctx_.GetSavedTensors().size(), 1U);
        return {grad_outputs[0]->Mul(2.0F)};
    }
};

TEST_P(NamesTest, FunctionHooks) {
    const auto function = std::make_shared<Double>();
    std::vector<std::string> calls;
    autograd::Function::FunctionPreHook pre = [&](autograd::Function *, const TensorList &) { calls.push_back("pre"); };
    autograd::Function::FunctionPostHook post = [&](autograd::Function *, const TensorList &first,
                                                    const TensorList &second) {
        calls.push_back("post");
        ExpectNear(first[0], {calls.size() == 2 ? 1.5F : 2.0F}, "inputs, then gradients of the inputs");
        ExpectNear(second[0], {calls.size() == 2 ? 3.0F : 1.0F}, "outputs, then gradients of the outputs");
    };
    const std::shared_ptr<HookHandle> handle = function->RegisterForwardPreHook(pre);
    function->RegisterForwardPostHook(post);
    function->RegisterBackwardPreHook(pre);
    function->RegisterBackwardPostHook(post);
    const auto x = Leaf({1}, {1.5});
    function->Apply({x})[0]->Backward();
    EXPECT_EQ(calls, (std::vector<std::string>{"pre", "post", "pre", "post"}));
    ExpectNear(x->grad(), {2}, "gradient");
    handle->Remove();
}

TEST_P(NamesTest, BackwardPartialAndSavedTensorHooks) {
    int packed = 0;
    const auto x = Leaf({1}, {1.5});
    const auto function = std::make_shared<Double>();
    TensorPtr y;
    {
        autograd::SavedTensorHooksGuard guard(
            [&](const TensorPtr &tensor) {
                ++packed;
                return std::any(tensor);
            },
            [](const std::any &value) { return std::any_cast<TensorPtr>(value); });
        y = function->Apply({x})[0];
    }
    EXPECT_EQ(packed, 1);
    function->BackwardPartial(Constant({1}, {5}), 0);
    ExpectNear(x->grad(), {10}, "gradient");
    autograd::NoGradGuard no_grad;
    EXPECT_FALSE(x->Mul(2)->requires_grad());
    autograd::EnableGradGuard grad;
    EXPECT_TRUE(x->Mul(2)->requires_grad());
}

TEST_P(NamesTest, PostAccumulateGradHook) {
    const auto x = Leaf({1}, {1});
    Floats seen;
    x->RegisterPostAccumulateGradHook([&](const TensorPtr &leaf) { seen = leaf->grad()->ToVector<float>(); });
    x->Mul(3)->Backward();
    EXPECT_EQ(seen, Floats{3});
}

TEST_P(NamesTest, ModulesAndGlobalHooks) {
    std::vector<std::shared_ptr<nn::Module>> layers = {
        std::make_shared<nn::Linear>(2, 3), std::make_shared<nn::Sigmoid>(), std::make_shared<nn::Linear>(3, 2)};
    const auto model = std::make_shared<nn::Sequential>(std::move(layers));
    model->To(GetDevice());
    model->Apply([](nn::Module *module) {
        if (module->type() == nn::Linear::kType) {
            nn::init::Ones(module->parameter(nn::Linear::kParamWeightName));
            nn::init::Zeros(module->parameter("bias"));
        }
    });
    int calls = 0;
    auto &registry = utils::GlobalModuleHookRegistry::Instance();
    const ScopedHook forward(
        registry.RegisterModuleForwardHook([&](nn::Module *, const TensorList &, const TensorList &) { ++calls; }));
    const ScopedHook forward_pre(
        registry.RegisterModuleForwardPreHook([&](nn::Module *, const TensorList &) { ++calls; }));
    const ScopedHook backward(registry.RegisterModuleFullBackwardHook(
        [&](nn::Module *, const TensorList &, const TensorList &) { ++calls; }));
    const auto y = (*model)({Leaf({1, 2}, {0, 0})})[0];
    ExpectNear(y, {1.5, 1.5}, "3 sigmoid(0)");
    EXPECT_EQ(calls, 8);
    const auto loss = (*std::make_shared<nn::CrossEntropyLoss>())({y, Indices({1}, {1})})[0];
    ExpectNear(loss, {std::log(2.0F)}, "loss of two equal logits");
    loss->Backward();
    EXPECT_EQ(calls, 8 + 2 + 5);
    EXPECT_EQ(model->Parameters().size(), 4U);
    EXPECT_EQ(model->Buffers().size(), 0U);
    EXPECT_EQ(model->NamedModules().size(), 4U);
    EXPECT_EQ(model->StateDict().size(), 4U);
    model->LoadStateDict(model->StateDict());
    nn::ModuleList list({std::make_shared<nn::NewGELU>()});
    nn::ModuleDict dict({{"norm", std::make_shared<nn::LayerNorm>(std::vector<int64_t>{2})},
                         {"table", std::make_shared<nn::Embedding>(3, 2)}});
    EXPECT_EQ(list.NamedModules().size() + dict.NamedModules().size(), 5U);
}

TEST_P(NamesTest, Functional) {
    const auto ones = nn::function::Ones({2, 2})->To(GetDevice());
    ExpectNear(nn::function::Tril(ones)->Add(nn::function::Triu(ones)), {2, 1, 1, 2}, "triangles");
    ExpectNear(nn::function::Pow(nn::function::Rsqrt(nn::function::Reciprocal(ones->Mul(4))), 2), {4, 4, 4, 4},
               "powers");
    ExpectNear(nn::function::Sin(ones->Sub(1))->Add(nn::function::Cos(ones->Sub(1))), {1, 1, 1, 1}, "angles");
    ExpectNear(nn::function::Tanh(ones->Sub(1)), {0, 0, 0, 0}, "Tanh");
    ExpectNear(nn::function::Sigmoid(ones->Sub(1)), {0.5, 0.5, 0.5, 0.5}, "Sigmoid");
    ExpectNear(nn::function::Sum(ones, 1)->Add(nn::function::Mean(ones, 0)), {3, 3}, "sums");
    ExpectNear(nn::function::Max(ones, 1)->Sub(nn::function::Min(ones, 0)), {0, 0}, "extremes");
    ExpectNear(nn::function::Softmax(ones, 1), {0.5, 0.5, 0.5, 0.5}, "Softmax");
    ExpectNear(nn::function::Slice(ones, {0, 0}, {1, 2}, {1, 1}), {1, 1}, "Slice");
    EXPECT_EQ(nn::function::Stack({ones, ones}, 0)->Dims(), (Dims{2, 2, 2}));
    EXPECT_EQ(nn::function::Concat({ones, ones}, 0)->Dims(), (Dims{4, 2}));
}

TEST_P(NamesTest, OptimizersAndData) {
    const auto step = [&](const std::function<std::shared_ptr<Optimizer>(const TensorList &)> &create) {
        const auto x = Leaf({1}, {1});
        const auto optimizer = create({x});
        optimizer->ZeroGrad();
        x->Mul(2)->Backward();
        optimizer->Step();
        optimizer->LoadStateDict(optimizer->StateDict());
        return x->Item<float>();
    };
    EXPECT_FLOAT_EQ(step(optimizers::SGD::Create(0.25)), 0.5);
    EXPECT_FLOAT_EQ(step(optimizers::Adam::Create(0.25, 0.9, 0.999, 1e-8)), 0.75);
    EXPECT_FLOAT_EQ(optimizers::SGD({Leaf({1}, {1})}, 0.25).learning_rate(), 0.25);

    const auto dataset = std::make_shared<TensorDataset>(Constant({3, 1}, {1, 2, 3}), Indices({3}, {0, 1, 2}));
    Floats sizes;
    for (const auto &[inputs, targets] : DataLoader(dataset, /*batch_size=*/2)) {
        EXPECT_EQ(inputs->Dim(0), targets->Dim(0));
        sizes.push_back(static_cast<float>(inputs->Dim(0)));
    }
    EXPECT_EQ(sizes, (Floats{2, 1}));
}

TEST_P(NamesTest, Devices) {
    const DeviceGuard guard(GetDevice());
    EXPECT_EQ(Device(Device::DeviceType::kCPU, 0), Device());
    const auto size = DispatchDtype(DataType::kFLOAT64, [&]<typename T>() { return sizeof(T); });
    EXPECT_EQ(size, 8U);
    EXPECT_EQ(Scalar(2.5).To<double>(), 2.5);
}

INFINI_TRAIN_TEST_ON_ALL_DEVICES(NamesTest);

}  // namespace
}  // namespace infini_train
