#include "infini_train/include/data/token_dataset.h"

#include <algorithm>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/data/token_file.h"

namespace infini_train {

struct TokenDataset::Shard {
    std::unique_ptr<const TokenFile> file;
    uint64_t windows_end = 0;  // windows of this shard and those before it
};

TokenDataset::TokenDataset(std::vector<Shard> shards, size_t window, const Options &options)
    : window_(window), options_(options), shards_(std::move(shards)) {
    constexpr size_t kMost = size_t{1} << 40;  // beyond any memory; negative numbers arrive here as huge ones
    if (window == 0 || window > kMost) {
        Throw<ValueError>("TokenDataset: expected a window of at least 1, got {}", static_cast<int64_t>(window));
    }
    if (options_.stride > kMost) {
        Throw<ValueError>("TokenDataset: expected a stride >= 0, got {}", static_cast<int64_t>(options_.stride));
    }
    if (options_.dtype != DataType::kINT64 && options_.dtype != DataType::kINT32) {
        Throw<ValueError>("TokenDataset: expected int64 or int32, got {}", ToString(options_.dtype));
    }
    if (options_.vocab_size < 0) {
        Throw<ValueError>("TokenDataset: expected a vocabulary of at least 1 (0: any), got {}", options_.vocab_size);
    }
    if (options_.stride == 0) {
        options_.stride = window;
    }
    uint64_t windows = 0;
    for (Shard &shard : shards_) {
        // The last target lies one token behind the window.
        if (shard.file->size() > window) {
            windows += (shard.file->size() - 1 - window) / options_.stride + 1;
        }
        shard.windows_end = windows;
    }
    if (windows == 0) {
        Throw<ValueError>(
            "TokenDataset: expected at least {} tokens in a piece, one more than the window, got {} in {}", window + 1,
            NumTokens(), shards_.size());
    }
}

TokenDataset::~TokenDataset() = default;

std::shared_ptr<TokenDataset> TokenDataset::FromFiles(const std::vector<std::string> &paths, size_t window,
                                                      const Options &options) {
    std::vector<Shard> shards;
    for (const std::string &path : ExpandPatterns(paths)) {
        shards.push_back({std::make_unique<const TokenFile>(path, options.format)});
    }
    if (shards.empty()) {
        throw ValueError("TokenDataset: expected files, got none");
    }
    return std::shared_ptr<TokenDataset>(new TokenDataset(std::move(shards), window, options));
}

std::shared_ptr<TokenDataset> TokenDataset::FromFiles(const std::vector<std::string> &paths, size_t window) {
    return FromFiles(paths, window, Options());
}

std::shared_ptr<TokenDataset> TokenDataset::FromTokens(const std::vector<int32_t> &tokens, size_t window,
                                                       const Options &options) {
    std::vector<Shard> shards;
    shards.push_back({std::make_unique<const TokenFile>(tokens)});
    return std::shared_ptr<TokenDataset>(new TokenDataset(std::move(shards), window, options));
}

std::shared_ptr<TokenDataset> TokenDataset::FromTokens(const std::vector<int32_t> &tokens, size_t window) {
    return FromTokens(tokens, window, Options());
}

size_t TokenDataset::Size() const {
    return shards_.back().windows_end;
}

size_t TokenDataset::NumShards() const {
    return shards_.size();
}

uint64_t TokenDataset::NumTokens() const {
    uint64_t count = 0;
    for (const Shard &shard : shards_) {
        count += shard.file->size();
    }
    return count;
}

template <typename Out>
void TokenDataset::CopyWindow(size_t index, Out *x, Out *y) const {
    const auto shard = std::upper_bound(shards_.begin(), shards_.end(), index,
                                        [](size_t i, const Shard &s) { return i < s.windows_end; });
    const TokenFile &file = *shard->file;
    const uint64_t first = shard == shards_.begin() ? 0 : std::prev(shard)->windows_end;
    const uint64_t start = (index - first) * options_.stride;
    const uint64_t limit =
        options_.vocab_size > 0 ? static_cast<uint64_t>(options_.vocab_size) : uint64_t{1} << (8 * sizeof(Out) - 1);
    const auto copy = [&](const auto *tokens) {
        for (size_t i = 0; i <= window_; ++i) {
            const uint64_t id = tokens[start + i];
            if (id >= limit) {
                Throw<IoError>("TokenDataset: {}: expected ids below {}, found {} at token {}", file.name(), limit, id,
                               start + i);
            }
            if (i < window_) {
                x[i] = static_cast<Out>(id);
            }
            if (i > 0) {
                y[i - 1] = static_cast<Out>(id);
            }
        }
    };
    file.is_wide() ? copy(static_cast<const uint32_t *>(file.tokens()))
                   : copy(static_cast<const uint16_t *>(file.tokens()));
}

std::pair<TensorPtr, TensorPtr> TokenDataset::Windows(std::span<const int64_t> indices,
                                                      const std::vector<int64_t> &dims) const {
    const TensorPtr x = Tensor::Empty(dims, options_.dtype);
    const TensorPtr y = Tensor::Empty(dims, options_.dtype);
    for (size_t i = 0; i < indices.size(); ++i) {
        if (indices[i] < 0 || static_cast<size_t>(indices[i]) >= Size()) {
            Throw<IndexError>("TokenDataset: expected a sample below {}, got {}", Size(), indices[i]);
        }
        const auto index = static_cast<size_t>(indices[i]);
        if (options_.dtype == DataType::kINT64) {
            CopyWindow(index, x->Data<int64_t>() + i * window_, y->Data<int64_t>() + i * window_);
        } else {
            CopyWindow(index, x->Data<int32_t>() + i * window_, y->Data<int32_t>() + i * window_);
        }
    }
    return {x, y};
}

std::pair<TensorPtr, TensorPtr> TokenDataset::operator[](size_t idx) const {
    const auto index = static_cast<int64_t>(idx);
    return Windows({&index, 1}, {static_cast<int64_t>(window_)});
}

std::pair<TensorPtr, TensorPtr> TokenDataset::Batch(std::span<const int64_t> indices) const {
    return Windows(indices, {static_cast<int64_t>(indices.size()), static_cast<int64_t>(window_)});
}

}  // namespace infini_train
