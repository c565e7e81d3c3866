#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/dataset.h"
#include "infini_train/include/datatype.h"

namespace infini_train {

/// How a file holds its tokens; all numbers are little-endian.
enum class TokenFormat : uint8_t {
    /// llm.c's: 256 int32 of header (magic, version, number of tokens, zeros), then the tokens. Magic 20240520 with
    /// version 1 means uint16, 20240801 with version 7 uint32 (Llama 3).
    kLlmC,
    /// Nothing but the tokens, as nanoGPT's.
    kUint16,
    kUint32,
};

/// Windows of a stream of tokens, to learn to predict the next one: sample i is x = tokens s, ..., s + T - 1 and
/// y = tokens s + 1, ..., s + T, with s = i * stride. Batches of DataLoader are (B, T).
///
///     auto dataset = TokenDataset::FromFiles({"data/train_*.bin"}, /*window=*/1024);
///     DataLoader sequential(dataset, 4);                  // the tokens one after the other, as llm.c takes them
///     DataLoader shuffled(dataset, 4, /*shuffle=*/true);  // the windows in an order that a seed decides
///
/// Several files (shards) make one long list of windows, none of which crosses from one file into the next, so that a
/// loader's position says where training goes on, across shards. Files are mapped, not read: they take no memory of the
/// process's own, and mustn't shrink while a dataset lives.
class INFINI_TRAIN_EXPORT TokenDataset : public Dataset {
public:
    struct Options {
        TokenFormat format = TokenFormat::kLlmC;
        size_t stride = 0;                  ///< tokens from one window's start to the next one's; 0: the window
        int64_t vocab_size = 0;             ///< ids have to be below; 0: any id will do
        DataType dtype = DataType::kINT64;  ///< of x and y: int64 or int32
    };

    /// Opens files: each entry is a path, or a pattern with *, ? or [...], whose matches are taken in alphabetical
    /// order. All headers and sizes are checked here: IoError for a file that isn't there or can't be read, a wrong
    /// magic or version, a size that isn't a whole number of tokens or not what the header says. The ids themselves are
    /// checked when a window is asked for. ValueError for a window of 0, another data type, a negative vocabulary, no
    /// files, or files too short for even one window.
    static std::shared_ptr<TokenDataset> FromFiles(const std::vector<std::string> &paths, size_t window,
                                                   const Options &options);
    static std::shared_ptr<TokenDataset> FromFiles(const std::vector<std::string> &paths, size_t window);

    /// Tokens in memory, say of a text just encoded; `format` doesn't matter. Throws ValueError as above, and for ids
    /// that are negative.
    static std::shared_ptr<TokenDataset> FromTokens(const std::vector<int32_t> &tokens, size_t window,
                                                    const Options &options);
    static std::shared_ptr<TokenDataset> FromTokens(const std::vector<int32_t> &tokens, size_t window);

    ~TokenDataset() override;

    /// Throws IndexError for a number out of range, IoError, with file and place, for an id beyond the vocabulary.
    std::pair<TensorPtr, TensorPtr> operator[](size_t idx) const override;
    size_t Size() const override;
    std::pair<TensorPtr, TensorPtr> Batch(std::span<const int64_t> indices) const override;

    size_t window() const { return window_; }
    size_t NumShards() const;
    /// Of all shards.
    uint64_t NumTokens() const;

private:
    struct Shard;

    TokenDataset(std::vector<Shard> shards, size_t window, const Options &options);
    template <typename Out>
    void CopyWindow(size_t index, Out *x, Out *y) const;
    std::pair<TensorPtr, TensorPtr> Windows(std::span<const int64_t> indices, const std::vector<int64_t> &dims) const;

    size_t window_;
    Options options_;
    std::vector<Shard> shards_;
};

/// Writes tokens as a file of that format: complete under its name or not at all. Throws ValueError for ids that are
/// negative or too large for the format, IoError with the system's reason. llm.c's format takes uint16 if all ids are
/// below 65,536, otherwise uint32.
INFINI_TRAIN_EXPORT void WriteTokenFile(const std::string &path, const std::vector<int32_t> &tokens,
                                        TokenFormat format = TokenFormat::kLlmC);

}  // namespace infini_train
