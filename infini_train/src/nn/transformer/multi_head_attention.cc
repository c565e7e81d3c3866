#include "infini_train/include/nn/modules/transformer/multi_head_attention.h"

#include <memory>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/init.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"
#include "infini_train/src/nn/transformer/layers.h"

namespace infini_train::nn {
namespace {

constexpr char kQueries[] = "q_proj";
constexpr char kKeys[] = "k_proj";
constexpr char kValues[] = "v_proj";
constexpr char kOut[] = "out_proj";

void CheckSizes(int64_t width, int64_t heads, const MultiHeadAttentionOptions &options) {
    if (width < 1 || heads < 1 || options.kv_heads < 0 || options.head_size < 0 || options.key_width < 0 ||
        options.value_width < 0) {
        Throw<ValueError>(
            "MultiHeadAttention: expected a width and heads of at least 1 and no negative size, got a "
            "width of {} and {} heads",
            width, heads);
    }
    if (options.head_size == 0 && width % heads != 0) {
        Throw<ValueError>("MultiHeadAttention: expected a width that divides into {} heads, got {}", heads, width);
    }
    if (options.kv_heads != 0 && heads % options.kv_heads != 0) {
        Throw<ValueError>("MultiHeadAttention: expected heads that are a multiple of the {} kv_heads, got {}",
                          options.kv_heads, heads);
    }
    if (!(options.dropout >= 0 && options.dropout <= 1)) {
        Throw<ValueError>("MultiHeadAttention: expected a dropout in [0, 1], got {}", options.dropout);
    }
}

MultiHeadAttentionOptions Resolved(int64_t width, int64_t heads, MultiHeadAttentionOptions options) {
    CheckSizes(width, heads, options);
    const auto fill = [](int64_t *size, int64_t value) { *size = *size == 0 ? value : *size; };
    fill(&options.kv_heads, heads);
    fill(&options.head_size, width / heads);
    fill(&options.key_width, width);
    fill(&options.value_width, options.key_width);
    return options;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions &options,
                                       Device device, DataType dtype)
    : CloneableModule(kType), heads_(heads), options_(Resolved(width, heads, options)) {
    const auto projection = [&](const char *name, int64_t in, int64_t out) {
        const auto linear = NewLinear(in, out, options_.bias, 0.0, {device, dtype, /*initialize=*/false});
        init::XavierUniform(linear->parameter(Linear::kParamWeightName));
        RegisterModule(name, linear);
    };
    projection(kQueries, width, heads * options_.head_size);
    projection(kKeys, options_.key_width, options_.kv_heads * options_.head_size);
    projection(kValues, options_.value_width, options_.kv_heads * options_.head_size);
    projection(kOut, heads * options_.head_size, width);
}

TensorPtr MultiHeadAttention::ByHead(const char *projection, const TensorPtr &input, int64_t heads) const {
    if (input->NumDims() != 3) {
        Throw<ShapeError>("MultiHeadAttention: expected (batch, positions, width), got {}", FormatDims(input->Dims()));
    }
    const auto rows = (*module(projection))({input})[0];
    return rows->View({input->Dim(0), input->Dim(1), heads, options_.head_size})->Transpose(1, 2);
}

TensorList MultiHeadAttention::Forward(const TensorList &inputs) {
    const auto given = [&](size_t i) { return i < inputs.size() ? inputs[i] : nullptr; };
    if (inputs.empty() || inputs.size() > 4 || inputs[0] == nullptr) {
        Throw<ValueError>("MultiHeadAttention: expected queries and, if any, keys, values and a mask, got {} inputs{}",
                          inputs.size(), inputs.empty() || inputs[0] != nullptr ? "" : ", the first of them null");
    }
    const TensorPtr keys = given(1) != nullptr ? given(1) : inputs[0];
    const TensorPtr values = given(2) != nullptr ? given(2) : keys;
    function::AttentionOptions options;
    options.mask = given(3);
    options.dropout_p = is_training() ? options_.dropout : 0.0;
    options.is_causal = options_.is_causal;
    const auto found =
        function::ScaledDotProductAttention(ByHead(kQueries, inputs[0], heads_), ByHead(kKeys, keys, options_.kv_heads),
                                            ByHead(kValues, values, options_.kv_heads), options);
    const auto side_by_side =
        found->Transpose(1, 2)->Reshape({inputs[0]->Dim(0), inputs[0]->Dim(1), heads_ * options_.head_size});
    return (*module(kOut))({side_by_side});
}

std::string MultiHeadAttention::ExtraRepr() const {
    return fmt::format("heads={}, kv_heads={}, head_size={}, is_causal={}, dropout={}", heads_, options_.kv_heads,
                       options_.head_size, options_.is_causal, options_.dropout);
}

}  // namespace infini_train::nn
