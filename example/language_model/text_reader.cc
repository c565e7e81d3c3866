#include "example/language_model/text_reader.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "example/language_model/sampler.h"

namespace infini_train::example {
namespace {

void CheckIds(const TextRequest &request, const char *what, std::span<const text::TokenId> ids, int64_t vocab_size) {
    for (const text::TokenId id : ids) {
        if (id < 0 || id >= vocab_size) {
            throw ValueError(
                fmt::format("{}: expected {} below the vocabulary's {}, got {}", request.caller, what, vocab_size, id));
        }
    }
}

const TextRequest &Checked(const TextRequest &request, const nn::TransformerConfig &config) {
    if (request.prompt.empty()) {
        throw ValueError(fmt::format("{}: expected a prompt of at least one token, got none", request.caller));
    }
    CheckIds(request, "ids of the prompt", request.prompt, config.vocab_size);
    CheckIds(request, "stop ids", request.stop, config.vocab_size);
    if (request.max_new_tokens < 0) {
        throw ValueError(
            fmt::format("{}: expected max_new_tokens >= 0, got {}", request.caller, request.max_new_tokens));
    }
    if (!(request.repetition_penalty > 0) || !std::isfinite(request.repetition_penalty)) {
        throw ValueError(
            fmt::format("{}: expected repetition_penalty > 0, got {}", request.caller, request.repetition_penalty));
    }
    if (request.kept < 0 || request.kept >= config.context) {
        throw ValueError(fmt::format("{}: expected kept from 0 to {}, below the context, got {}", request.caller,
                                     config.context - 1, request.kept));
    }
    return request;
}

nn::KeyValueCache NewCache(const nn::Transformer &model, const TextRequest &request) {
    const int64_t context = model.config().context;
    const auto prompt = static_cast<int64_t>(std::min<size_t>(request.prompt.size(), static_cast<size_t>(context)));
    const int64_t capacity = std::min(context, prompt + std::min(context, request.max_new_tokens));
    const TensorPtr weight = model.Parameters().front();
    return nn::KeyValueCache(model.config(), /*batch=*/1, capacity, weight->GetDevice(), weight->Dtype());
}

}  // namespace

EvaluationGuard::EvaluationGuard(nn::Module &model) {
    for (const auto &[path, module] : model.NamedModules()) {
        modes_.emplace_back(module, module->is_training());
    }
    model.Eval();
}

EvaluationGuard::~EvaluationGuard() {
    // Parents first: Train sets what is below, too.
    for (const auto &[module, training] : modes_) {
        module->Train(training);
    }
}

TextReader::TextReader(nn::Transformer &model, const TextRequest &request)
    : model_(model), evaluation_(model), request_(Checked(request, model.config())), cache_(NewCache(model, request)) {}

std::vector<double> TextReader::Read(const std::vector<std::vector<text::TokenId>> &texts) {
    const auto length = static_cast<int64_t>(texts[0].size());
    if (length - forgotten_ > cache_.capacity()) {
        const int64_t half = std::max<int64_t>(model_.config().context / 2, 1);
        forgotten_ = length - (request_.kept > 0 ? request_.kept : half);
        cache_.Truncate(0);
    }
    const int64_t begin = forgotten_ + cache_.length();
    std::vector<int64_t> ids;
    for (const auto &text : texts) {
        ids.insert(ids.end(), text.begin() + begin, text.end());
    }
    const auto rows = static_cast<int64_t>(texts.size());
    const auto unread = Tensor::FromVector(ids, {{rows, length - begin}})->To(model_.Parameters().front()->GetDevice());
    std::vector<double> scores = model_.Decode(unread, &cache_)->ToVector<double>();
    CheckScores(request_.caller, scores);
    return scores;
}

void TextReader::Reorder(const std::vector<int64_t> &rows) {
    cache_.Reorder(rows);
}

bool TextReader::IsStop(text::TokenId id) const {
    return std::find(request_.stop.begin(), request_.stop.end(), id) != request_.stop.end();
}

}  // namespace infini_train::example
