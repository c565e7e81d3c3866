// Whole models beside PyTorch's float64 autograd, from files of other programs: logits, loss and every gradient.
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/io/safetensors.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "example/language_model/model_files.h"
#include "example/language_model/weights.h"

namespace infini_train::example {
namespace {

using Reference = std::map<std::string, TensorPtr>;

#define INFINI_TRAIN_NEEDS(path)                                                 \
    if (!std::filesystem::exists(path)) {                                        \
        GTEST_SKIP() << (path) << " is not there: this comparison was NOT made"; \
    }

// Largest difference as a share of the largest value.
double Difference(const TensorPtr &ours, const TensorPtr &reference) {
    EXPECT_EQ(ours->Dims(), reference->Dims());
    const auto exact = reference->To(DataType::kFLOAT64);
    const double scale = exact->Abs()->Max()->Item<double>();
    return ours->Detach()->To(DataType::kFLOAT64)->Sub(exact)->Abs()->Max()->Item<double>() / scale;
}

// Of logits (B, T, V) for the tokens that come next; as in both references.
TensorPtr Loss(const TensorPtr &logits, const TensorPtr &targets) {
    return nn::function::CrossEntropy(logits->Reshape({-1, logits->Dim(-1)}), targets->Reshape({-1}));
}

// The reference's numbers are float32 copies of float64 results: 6e-8 is the rounding.
struct Precision {
    DataType dtype;
    double tolerance;
};
class ReferenceModel : public ::testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(In, ReferenceModel,
                         ::testing::Values(Precision{DataType::kFLOAT64, 2e-7}, Precision{DataType::kFLOAT32, 3e-5}),
                         [](const auto &info) { return ToString(info.param.dtype); });

TEST_P(ReferenceModel, TinyGpt2) {
    const std::string folder = "../shared/data/tiny_gpt2";
    INFINI_TRAIN_NEEDS(folder);
    const auto reference = io::LoadSafetensors(folder + "/reference_torch1.13_f64.safetensors");
    const LoadedModel loaded = LoadModel(folder, GetParam().dtype);
    EXPECT_EQ(loaded.source, "Hugging Face GPT-2");
    for (const bool checkpoint : {false, true}) {
        loaded.model->CheckpointActivations(checkpoint);
        loaded.model->ZeroGrad();
        const auto ids = reference.at("input_ids");
        const auto logits = (*loaded.model)({ids})[0];
        const auto loss = Loss(logits->Narrow(1, 0, 11), ids->Narrow(1, 1, 11));
        loss->Backward();
        EXPECT_LT(Difference(logits, reference.at("logits")), GetParam().tolerance);
        EXPECT_NEAR(loss->Item<double>(), reference.at("loss")->ToVector<double>()[0], GetParam().tolerance);
        EXPECT_NEAR(loss->Item<double>(), 6.862451, 1e-5);
        size_t compared = 0;
        for (const Weight &weight : HuggingFaceGpt2Weights(loaded.model->config())) {
            const size_t dot = weight.parameter.rfind('.');
            const auto grad = loaded.model->module(weight.parameter.substr(0, dot))
                                  ->parameter(weight.parameter.substr(dot + 1))
                                  ->grad();
            ASSERT_NE(grad, nullptr) << weight.name;
            EXPECT_LT(Difference(weight.part(grad), reference.at("grad." + weight.name)), GetParam().tolerance)
                << weight.name;
            ++compared;
        }
        EXPECT_EQ(compared, reference.size() - 3);  // input_ids, logits, loss
    }
}

TEST_P(ReferenceModel, Stories260K) {
    const std::string folder = "../shared/data/stories260k";
    INFINI_TRAIN_NEEDS(folder);
    const auto reference = io::LoadSafetensors(folder + "/stories260K_reference_f64.safetensors");
    const LoadedModel loaded = LoadModel(folder + "/stories260K.bin", GetParam().dtype);
    EXPECT_EQ(loaded.source, "llama2.c");
    const nn::Transformer &model = *loaded.model;
    const auto tokens = reference.at("tokens")->View({1, -1});
    const auto logits = (*loaded.model)({tokens->Narrow(1, 0, 64)})[0];
    const auto loss = Loss(logits, tokens->Narrow(1, 1, 64));
    loss->Backward();
    EXPECT_LT(Difference(logits->View({64, 512}), reference.at("logits")), GetParam().tolerance);
    EXPECT_NEAR(loss->Item<double>(), reference.at("loss")->ToVector<double>()[0], GetParam().tolerance);
    EXPECT_NEAR(loss->Item<double>(), 0.397289, 1e-5);

    // The reference stacks the blocks' gradients, in llama2.c's layout.
    const auto grad = [&](const std::string &path) {
        const size_t dot = path.rfind('.');
        return model.module(path.substr(0, dot))->parameter(path.substr(dot + 1))->grad();
    };
    const auto paired = [](const TensorPtr &rows, int64_t heads) {
        return rows->View({heads, 2, 4, 64})->Transpose(1, 2)->Reshape({heads * 8, 64});
    };
    const std::map<std::string, std::function<TensorPtr(const std::string &)>> parts = {
        {"attention_norm", [&](const std::string &h) { return grad(h + "ln_1.weight"); }},
        {"wq", [&](const std::string &h) { return paired(grad(h + "attn.c_attn.weight")->Narrow(0, 0, 64), 8); }},
        {"wk", [&](const std::string &h) { return paired(grad(h + "attn.c_attn.weight")->Narrow(0, 64, 32), 4); }},
        {"wv", [&](const std::string &h) { return grad(h + "attn.c_attn.weight")->Narrow(0, 96, 32); }},
        {"wo", [&](const std::string &h) { return grad(h + "attn.c_proj.weight"); }},
        {"ffn_norm", [&](const std::string &h) { return grad(h + "ln_2.weight"); }},
        {"w1", [&](const std::string &h) { return grad(h + "mlp.c_gate.weight"); }},
        {"w2", [&](const std::string &h) { return grad(h + "mlp.c_proj.weight"); }},
        {"w3", [&](const std::string &h) { return grad(h + "mlp.c_fc.weight"); }},
    };
    for (const auto &[name, part] : parts) {
        TensorList layers;
        for (const char *h : {"h.0.", "h.1.", "h.2.", "h.3.", "h.4."}) {
            layers.push_back(part(h)->Contiguous());
        }
        EXPECT_LT(Difference(nn::function::Stack(layers), reference.at("grad." + name)), GetParam().tolerance) << name;
    }
    EXPECT_LT(Difference(grad("wte.weight"), reference.at("grad.tok_embeddings.weight")), GetParam().tolerance);
    EXPECT_LT(Difference(grad("ln_f.weight"), reference.at("grad.norm")), GetParam().tolerance);
    EXPECT_EQ(parts.size() + 2, reference.size() - 3);  // tokens, logits, loss
}

TEST(ReferenceModel, Stories260KGreedily) {
    const std::string folder = "../shared/data/stories260k";
    INFINI_TRAIN_NEEDS(folder);
    const auto tokens = io::LoadSafetensors(folder + "/stories260K_reference_f64.safetensors").at("tokens");
    const LoadedModel loaded = LoadModel(folder + "/stories260K.bin", DataType::kFLOAT32);
    const auto expected = tokens->ToVector<int64_t>();
    nn::KeyValueCache cache(loaded.model->config(), 1, static_cast<int64_t>(expected.size()));
    std::vector<int64_t> written{expected[0]};
    while (written.size() < expected.size()) {
        const auto last = Tensor::FromVector<int64_t>({written.back()}, {{1, 1}});
        written.push_back(loaded.model->Decode(last, &cache)->Argmax(-1)->Item<int64_t>());
    }
    EXPECT_EQ(written, expected);
}

}  // namespace
}  // namespace infini_train::example
