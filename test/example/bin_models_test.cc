// The .bin models of llm.c and llama2.c, written here as their formats say.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/io/safetensors.h"
#include "infini_train/include/tensor.h"

#include "example/language_model/model_files.h"
#include "test/support/temp_dir.h"
#include "test/support/tensors.h"

namespace infini_train::example {
namespace {

using test::Contains;
using test::TempDir;

template <typename T>
std::string Bytes(const std::vector<T> &values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

std::string Refusal(const std::string &path) {
    const std::string message = test::Thrown<IoError>([&] { LoadModel(path, DataType::kFLOAT32); });
    EXPECT_TRUE(Contains(message, "LoadModel: " + path + ": expected ") && Contains(message, ", found ")) << message;
    return message;
}

// ---- llm.c ----------------------------------------------------------------------------------------------------------

// transformers' GPT-2 of the fixtures as llm.c's train_gpt2.py writes it.
class LlmC : public ::testing::Test {
protected:
    static constexpr int32_t kPadded = 24;

    std::string Write(int32_t version, std::function<void(std::vector<int32_t> *)> change = {},
                      const std::string &tail = "", size_t cut = 0) const {
        std::vector<int32_t> header(256, 0);
        const int32_t values[] = {20240326,    version, /*context=*/8, /*vocabulary=*/20, /*layers=*/2, /*heads=*/2,
                                  /*width=*/8, kPadded};
        std::copy(std::begin(values), std::end(values), header.begin());
        if (change) {
            change(&header);
        }
        const auto tensors = io::LoadSafetensors("test/fixtures/hugging_face/gpt2/model.safetensors");
        std::string body;
        const auto add = [&](const std::string &name, bool is_matrix = false) {
            auto tensor = tensors.at("transformer." + name);
            tensor = is_matrix ? tensor->Transpose(0, 1) : tensor;
            if (version == 5) {
                const auto half = tensor->To(DataType::kBFLOAT16)->Contiguous();
                body.append(static_cast<const char *>(half->DataPtr()), half->SizeInBytes());
            } else {
                body += Bytes(tensor->ToVector<float>());
            }
        };
        add("wte.weight");
        body.append((kPadded - 20) * 8 * (version == 5 ? 2 : 4), '\x7f');
        add("wpe.weight");
        for (const char *name : {"ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias",
                                 "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias",
                                 "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"}) {
            for (const char *layer : {"h.0.", "h.1."}) {
                add(std::string(layer) + name, Contains(name, "c_") && Contains(name, "weight"));
            }
        }
        add("ln_f.weight");
        add("ln_f.bias");
        const std::string whole = Bytes(header) + body + tail;
        return dir_.Write("model.bin", whole.substr(0, whole.size() - cut));
    }

    const TempDir dir_;
};

TEST_F(LlmC, Float32IsTheModelOfTransformers) {
    const LoadedModel loaded = LoadModel(Write(3), DataType::kFLOAT32);
    EXPECT_EQ(loaded.source, "llm.c, float32");
    const auto expected = LoadModel("test/fixtures/hugging_face/gpt2", DataType::kFLOAT32).model;
    for (const auto &[name, parameter] : expected->NamedParameters()) {
        const size_t dot = name.rfind('.');
        EXPECT_EQ(loaded.model->module(name.substr(0, dot))->parameter(name.substr(dot + 1))->ToVector<float>(),
                  parameter->ToVector<float>())
            << name;
    }
    const auto logits = io::LoadSafetensors("test/fixtures/hugging_face/logits.safetensors");
    const auto ours = (*LoadModel(Write(3), DataType::kFLOAT64).model)({logits.at("ids")})[0]->Detach();
    EXPECT_LT(ours->Sub(logits.at("gpt2"))->Abs()->Max()->Item<double>(), 1e-12);
}

TEST_F(LlmC, Bfloat16) {
    const LoadedModel loaded = LoadModel(Write(5), DataType::kFLOAT32);
    EXPECT_EQ(loaded.source, "llm.c, bfloat16");
    const auto expected = LoadModel("test/fixtures/hugging_face/gpt2", DataType::kBFLOAT16).model->Parameters();
    const auto parameters = loaded.model->Parameters();
    ASSERT_EQ(parameters.size(), expected.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_EQ(parameters[i]->ToVector<float>(), expected[i]->ToVector<float>()) << i;
    }
}

TEST_F(LlmC, Malformed) {
    const auto with = [&](int position, int32_t value) {
        return Refusal(
            Write(3, [=](std::vector<int32_t> *header) { (*header)[static_cast<size_t>(position)] = value; }));
    };
    for (const int32_t version : {0, 1, 2, 4, 6, -3}) {
        EXPECT_TRUE(Contains(with(1, version), "version 3 (float32) or 5 (bfloat16) of llm.c's GPT-2")) << version;
    }
    EXPECT_TRUE(Contains(with(1, 5), " bytes for 2 blocks of 2 heads, 8 wide, a vocabulary of 20 and a context of 8"));
    for (int position = 2; position <= 6; ++position) {
        for (const int32_t value : {0, -1, INT32_MIN, INT32_MAX, 25}) {
            EXPECT_NE(with(position, value), "") << position << " " << value;
        }
    }
    EXPECT_TRUE(Contains(with(7, 19), "a padded vocabulary of at least 20"));
    EXPECT_TRUE(Contains(with(7, INT32_MAX), " bytes for "));
    EXPECT_TRUE(Contains(Refusal(Write(3, {}, "x")), " bytes for "));
    EXPECT_TRUE(Contains(Refusal(Write(3, {}, "", 1)), " bytes for "));
    for (const size_t size : {0, 1, 3, 4, 100, 1023}) {
        const std::string whole = test::Contents(Write(3));
        EXPECT_NE(Refusal(dir_.Write("cut.bin", whole.substr(0, size))), "") << size;
    }
}

// ---- llama2.c -------------------------------------------------------------------------------------------------------

// Numbers that count up, so that each says where in the file it came from.
class Llama2C : public ::testing::Test {
protected:
    static constexpr int64_t kWidth = 8, kHidden = 5, kLayers = 2, kHeads = 2, kKvHeads = 1, kVocab = 6, kContext = 3;
    static constexpr int64_t kHead = kWidth / kHeads, kKeys = kKvHeads * kHead;
    static constexpr int64_t kNorms = kLayers * kWidth, kTable = kVocab * kWidth;
    static constexpr int64_t kMatrices = kLayers * (2 * kWidth * kWidth + 2 * kKeys * kWidth + 3 * kHidden * kWidth);

    std::string Write(const std::string &header, int64_t numbers) const {
        std::vector<float> values;
        for (int64_t i = 0; i < numbers; ++i) {
            values.push_back(static_cast<float>(i));
        }
        return dir_.Write("model.bin", header + Bytes(values));
    }
    static std::vector<int32_t> Sizes(int32_t vocabulary = kVocab) {
        return {kWidth, kHidden, kLayers, kHeads, kKvHeads, vocabulary, kContext};
    }
    std::string WriteFirst(bool tied) const {
        return Write(Bytes(Sizes(tied ? kVocab : -kVocab)),
                     kTable + 2 * kNorms + kMatrices + kWidth + kContext * kHead + (tied ? 0 : kTable));
    }
    std::string WriteVersion1(bool tied, int32_t version = 1) const {
        std::string header = Bytes(std::vector<uint32_t>{0x616b3432}) + Bytes(std::vector<int32_t>{version}) +
                             Bytes(Sizes()) + (tied ? "\x01" : std::string(1, '\0'));
        header.resize(256, '\0');
        return Write(header, kTable + 2 * kNorms + kMatrices + kWidth + (tied ? 0 : kTable));
    }

    // The place in the file of row `row` of our c_attn weight, in the block of queries, keys or values that begins at
    // `start`: elements i and i + 2 of a head of 4 stand in the file at 2i and 2i + 1.
    static int64_t Paired(int64_t start, int64_t row) {
        const int64_t in_file = row / kHead * kHead + (row % 2) * 2 + row % kHead / 2;
        return start + in_file * kWidth;
    }
    static float First(const nn::Transformer &model, const std::string &module, int64_t row) {
        return model.module(module)->parameter("weight")->Detach()->Narrow(0, row, 1)->ToVector<float>()[0];
    }
    // Checks the matrices, which begin with the queries at `start`; `gap` numbers follow wo.
    static void ExpectMatrices(const nn::Transformer &model, int64_t start, int64_t gap) {
        const int64_t wk = start + kLayers * kWidth * kWidth, wv = wk + kLayers * kKeys * kWidth,
                      wo = wv + kLayers * kKeys * kWidth, w1 = wo + kLayers * kWidth * kWidth + gap,
                      w2 = w1 + kLayers * kHidden * kWidth, w3 = w2 + kLayers * kHidden * kWidth;
        for (int64_t layer = 0; layer < kLayers; ++layer) {
            const std::string h = "h." + std::to_string(layer) + ".";
            for (int64_t row = 0; row < kWidth; ++row) {
                EXPECT_EQ(First(model, h + "attn.c_attn", row), Paired(start + layer * kWidth * kWidth, row));
                EXPECT_EQ(First(model, h + "attn.c_proj", row), wo + (layer * kWidth + row) * kWidth);
                EXPECT_EQ(First(model, h + "mlp.c_proj", row), w2 + (layer * kWidth + row) * kHidden);
            }
            for (int64_t row = 0; row < kKeys; ++row) {
                EXPECT_EQ(First(model, h + "attn.c_attn", kWidth + row), Paired(wk + layer * kKeys * kWidth, row));
                EXPECT_EQ(First(model, h + "attn.c_attn", kWidth + kKeys + row), wv + (layer * kKeys + row) * kWidth);
            }
            for (int64_t row = 0; row < kHidden; ++row) {
                EXPECT_EQ(First(model, h + "mlp.c_gate", row), w1 + (layer * kHidden + row) * kWidth);
                EXPECT_EQ(First(model, h + "mlp.c_fc", row), w3 + (layer * kHidden + row) * kWidth);
            }
        }
    }

    const TempDir dir_;
};

TEST_F(Llama2C, FirstFormat) {
    for (const bool tied : {true, false}) {
        const LoadedModel loaded = LoadModel(WriteFirst(tied), DataType::kFLOAT32);
        const nn::Transformer &model = *loaded.model;
        EXPECT_EQ(loaded.source, "llama2.c");
        EXPECT_EQ(model.config().tied, tied);
        EXPECT_EQ(First(model, "wte", 5), 5 * kWidth);
        EXPECT_EQ(First(model, "h.1.ln_1", 0), kTable + kWidth);
        ExpectMatrices(model, kTable + kNorms, kNorms);
        EXPECT_EQ(First(model, "h.0.ln_2", 0), kTable + kNorms + kMatrices - kLayers * 3 * kHidden * kWidth);
        const int64_t norm = kTable + 2 * kNorms + kMatrices;
        EXPECT_EQ(First(model, "ln_f", 0), norm);
        EXPECT_EQ(First(model, "lm_head", 2), tied ? 2 * kWidth : norm + kWidth + kContext * kHead + 2 * kWidth);
    }
}

TEST_F(Llama2C, Version1) {
    for (const bool tied : {true, false}) {
        const auto model = LoadModel(WriteVersion1(tied), DataType::kFLOAT32).model;
        EXPECT_EQ(First(*model, "h.1.ln_1", 0), kWidth);
        EXPECT_EQ(First(*model, "h.0.ln_2", 0), kNorms);
        EXPECT_EQ(First(*model, "ln_f", 0), 2 * kNorms);
        const int64_t table = 2 * kNorms + kWidth;
        EXPECT_EQ(First(*model, "wte", 1), table + kWidth);
        ExpectMatrices(*model, table + kTable, 0);
        EXPECT_EQ(First(*model, "lm_head", 0), tied ? table : table + kTable + kMatrices);
    }
    EXPECT_TRUE(Contains(Refusal(WriteVersion1(true, 2)), "version 1 (float32) of llama2.c's format, found version 2"));
}

TEST_F(Llama2C, Malformed) {
    const std::string whole = test::Contents(WriteFirst(false));
    for (size_t position = 0; position < 7; ++position) {
        for (const int32_t value : {0, -1, 7, INT32_MIN, INT32_MAX}) {
            std::string changed = whole;
            std::memcpy(changed.data() + position * 4, &value, 4);
            EXPECT_NE(Refusal(dir_.Write("changed.bin", changed)), "") << position << " " << value;
        }
    }
    for (const size_t size : {0, 1, 27, 28, 29, static_cast<int>(whole.size()) - 1}) {
        EXPECT_NE(Refusal(dir_.Write("cut.bin", whole.substr(0, size))), "") << size;
    }
    EXPECT_TRUE(Contains(Refusal(dir_.Write("long.bin", whole + "x")), " bytes for 2 blocks of 2 heads, 8 wide"));
    EXPECT_NE(Refusal(dir_.Write("text.bin", "Once upon a time there was a file that is no model at all.")), "");
}

}  // namespace
}  // namespace infini_train::example
