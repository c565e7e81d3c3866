#include "example/language_model/weights.h"

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {
namespace {

// Makes the entries of a file's list.
class Lister {
public:
    explicit Lister(const nn::TransformerConfig &config)
        : width_(config.width),
          hidden_(config.Hidden()),
          heads_(config.heads),
          kv_heads_(config.KvHeads()),
          size_(config.HeadSize()),
          config_(config) {}

    Weights Take() { return std::move(weights_); }

    int64_t queries() const { return heads_ * size_; }
    int64_t keys() const { return kv_heads_ * size_; }

    // The parameter as it is.
    void Vector(const std::string &name, const std::string &parameter, int64_t size) {
        weights_.push_back({name, {size}, parameter, [](const TensorPtr &whole) { return whole; }});
    }
    void Matrix(const std::string &name, const std::string &parameter, int64_t rows, int64_t columns) {
        weights_.push_back({name, {rows, columns}, parameter, [](const TensorPtr &whole) { return whole; }});
    }
    // (in, out) in the file.
    void Conv1d(const std::string &name, const std::string &parameter, int64_t in, int64_t out) {
        weights_.push_back({name, {in, out}, parameter, [](const TensorPtr &whole) { return whole->Transpose(0, 1); }});
    }
    // Some rows of a matrix, or elements of a bias.
    void Rows(const std::string &name, const std::string &parameter, int64_t first, int64_t rows, bool is_bias) {
        std::vector<int64_t> dims{rows};
        if (!is_bias) {
            dims.push_back(width_);
        }
        weights_.push_back(
            {name, dims, parameter, [=](const TensorPtr &whole) { return whole->Narrow(0, first, rows); }});
    }
    // Rows whose rotary pairs lie side by side in the file.
    void PairedRows(const std::string &parameter, int64_t first, int64_t heads) {
        const std::vector<int64_t> dims{heads, size_ / 2, 2, width_};
        weights_.push_back({"", dims, parameter, [=](const TensorPtr &whole) {
                                return whole->Narrow(0, first, dims[0] * dims[1] * 2)
                                    ->View({dims[0], 2, dims[1], dims[3]})
                                    ->Transpose(1, 2);
                            }});
    }
    // `list` for each block, with its path.
    template <typename List>
    void Blocks(const List &list) {
        for (int64_t layer = 0; layer < config_.layers; ++layer) {
            list(layer, fmt::format("h.{}.", layer));
        }
    }

    const int64_t width_, hidden_, heads_, kv_heads_, size_;

private:
    const nn::TransformerConfig &config_;
    Weights weights_;
};

// What both of llama2.c's formats hold in the same order, from the queries on; `ffn_norm` stands after `wo`.
template <typename Between>
void ListLlama2CMatrices(Lister *list, const Between &between) {
    list->Blocks([&](int64_t, const std::string &h) { list->PairedRows(h + "attn.c_attn.weight", 0, list->heads_); });
    list->Blocks([&](int64_t, const std::string &h) {
        list->PairedRows(h + "attn.c_attn.weight", list->queries(), list->kv_heads_);
    });
    list->Blocks([&](int64_t, const std::string &h) {
        list->Rows("", h + "attn.c_attn.weight", list->queries() + list->keys(), list->keys(), false);
    });
    list->Blocks([&](int64_t, const std::string &h) {
        list->Matrix("", h + "attn.c_proj.weight", list->width_, list->queries());
    });
    between();
    list->Blocks(
        [&](int64_t, const std::string &h) { list->Matrix("", h + "mlp.c_gate.weight", list->hidden_, list->width_); });
    list->Blocks(
        [&](int64_t, const std::string &h) { list->Matrix("", h + "mlp.c_proj.weight", list->width_, list->hidden_); });
    list->Blocks(
        [&](int64_t, const std::string &h) { list->Matrix("", h + "mlp.c_fc.weight", list->hidden_, list->width_); });
}

void ListNorms(Lister *list, const char *norm) {
    list->Blocks([&](int64_t, const std::string &h) { list->Vector("", h + norm, list->width_); });
}

}  // namespace

TensorPtr Weight::In(const nn::Transformer &model) const {
    const size_t dot = parameter.rfind('.');
    return part(model.module(parameter.substr(0, dot))->parameter(parameter.substr(dot + 1))->Detach());
}

Weights HuggingFaceGpt2Weights(const nn::TransformerConfig &config) {
    Lister list(config);
    const int64_t width = list.width_;
    const auto vector = [&](const std::string &name, int64_t size) { list.Vector(name, name, size); };
    const auto conv = [&](const std::string &name, int64_t in, int64_t out) {
        list.Conv1d(name + ".weight", name + ".weight", in, out);
        vector(name + ".bias", out);
    };
    const auto norm = [&](const std::string &name) {
        vector(name + ".weight", width);
        vector(name + ".bias", width);
    };
    list.Matrix("wte.weight", "wte.weight", config.vocab_size, width);
    list.Matrix("wpe.weight", "wpe.weight", config.context, width);
    list.Blocks([&](int64_t, const std::string &h) {
        norm(h + "ln_1");
        conv(h + "attn.c_attn", width, 3 * width);
        conv(h + "attn.c_proj", width, width);
        norm(h + "ln_2");
        conv(h + "mlp.c_fc", width, list.hidden_);
        conv(h + "mlp.c_proj", list.hidden_, width);
    });
    norm("ln_f");
    if (!config.tied) {
        list.Matrix("lm_head.weight", "lm_head.weight", config.vocab_size, width);
    }
    return list.Take();
}

Weights HuggingFaceLlamaWeights(const nn::TransformerConfig &config) {
    Lister list(config);
    const int64_t width = list.width_;
    list.Matrix("embed_tokens.weight", "wte.weight", config.vocab_size, width);
    const auto linear = [&](const std::string &name, const std::string &parameter, int64_t in, int64_t out) {
        list.Matrix(name + ".weight", parameter + ".weight", out, in);
        if (config.bias) {
            list.Vector(name + ".bias", parameter + ".bias", out);
        }
    };
    const auto rows = [&](const std::string &name, const std::string &parameter, int64_t first, int64_t count) {
        list.Rows(name + ".weight", parameter + ".weight", first, count, false);
        if (config.bias) {
            list.Rows(name + ".bias", parameter + ".bias", first, count, true);
        }
    };
    list.Blocks([&](int64_t layer, const std::string &h) {
        const std::string block = fmt::format("layers.{}.", layer);
        list.Vector(block + "input_layernorm.weight", h + "ln_1.weight", width);
        rows(block + "self_attn.q_proj", h + "attn.c_attn", 0, list.queries());
        rows(block + "self_attn.k_proj", h + "attn.c_attn", list.queries(), list.keys());
        rows(block + "self_attn.v_proj", h + "attn.c_attn", list.queries() + list.keys(), list.keys());
        linear(block + "self_attn.o_proj", h + "attn.c_proj", list.queries(), width);
        list.Vector(block + "post_attention_layernorm.weight", h + "ln_2.weight", width);
        linear(block + "mlp.gate_proj", h + "mlp.c_gate", width, list.hidden_);
        linear(block + "mlp.up_proj", h + "mlp.c_fc", width, list.hidden_);
        linear(block + "mlp.down_proj", h + "mlp.c_proj", list.hidden_, width);
    });
    list.Vector("norm.weight", "ln_f.weight", width);
    if (!config.tied) {
        list.Matrix("lm_head.weight", "lm_head.weight", config.vocab_size, width);
    }
    return list.Take();
}

Weights LlmCWeights(const nn::TransformerConfig &config) {
    Lister list(config);
    const int64_t width = list.width_;
    list.Matrix("", "wte.weight", config.vocab_size, width);
    list.Matrix("", "wpe.weight", config.context, width);
    const auto norms = [&](const char *name) {
        ListNorms(&list, (std::string(name) + ".weight").c_str());
        ListNorms(&list, (std::string(name) + ".bias").c_str());
    };
    const auto linears = [&](const char *name, int64_t in, int64_t out) {
        list.Blocks([&](int64_t, const std::string &h) { list.Matrix("", h + name + ".weight", out, in); });
        list.Blocks([&](int64_t, const std::string &h) { list.Vector("", h + name + ".bias", out); });
    };
    norms("ln_1");
    linears("attn.c_attn", width, 3 * width);
    linears("attn.c_proj", width, width);
    norms("ln_2");
    linears("mlp.c_fc", width, list.hidden_);
    linears("mlp.c_proj", list.hidden_, width);
    list.Vector("", "ln_f.weight", width);
    list.Vector("", "ln_f.bias", width);
    return list.Take();
}

Weights Llama2CFirstWeights(const nn::TransformerConfig &config) {
    Lister list(config);
    list.Matrix("", "wte.weight", config.vocab_size, config.width);
    ListNorms(&list, "ln_1.weight");
    ListLlama2CMatrices(&list, [&] { ListNorms(&list, "ln_2.weight"); });
    list.Vector("", "ln_f.weight", config.width);
    return list.Take();
}

Weights Llama2CWeights(const nn::TransformerConfig &config) {
    Lister list(config);
    ListNorms(&list, "ln_1.weight");
    ListNorms(&list, "ln_2.weight");
    list.Vector("", "ln_f.weight", config.width);
    list.Matrix("", "wte.weight", config.vocab_size, config.width);
    ListLlama2CMatrices(&list, [] {});
    return list.Take();
}

}  // namespace infini_train::example
