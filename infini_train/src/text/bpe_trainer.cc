#include "infini_train/include/text/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/text/bpe_model.h"
#include "infini_train/src/text/byte_alphabet.h"
#include "infini_train/src/text/gpt2_scanner.h"

namespace infini_train::text {
namespace {

using Pair = uint64_t;

Pair MakePair(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct Word {
    std::vector<TokenId> symbols;
    int64_t count;
};

// The words of the text as symbols, with the number of times that each pair of neighbours occurs kept up to date.
class PairCounts {
public:
    explicit PairCounts(std::vector<Word> words) : words_(std::move(words)) {
        for (uint32_t w = 0; w < words_.size(); ++w) {
            const std::vector<TokenId> &symbols = words_[w].symbols;
            for (size_t i = 0; i + 1 < symbols.size(); ++i) {
                Change(MakePair(symbols[i], symbols[i + 1]), words_[w].count, w);
            }
        }
        QueueChanged();
    }

    // The most frequent pair, of equals the smallest; false if there is none.
    bool Pop(Pair *pair, int64_t *count) {
        while (!queue_.empty()) {
            const Candidate best = queue_.top();
            queue_.pop();
            const auto found = pairs_.find(best.pair);
            if (found != pairs_.end() && found->second.count == best.count) {
                *pair = best.pair;
                *count = best.count;
                return true;
            }
        }
        return false;
    }

    void Merge(Pair pair, TokenId result) {
        const auto found = pairs_.find(pair);
        const std::vector<uint32_t> where = std::move(found->second.words);
        pairs_.erase(found);
        for (const uint32_t w : where) {
            MergeInWord(pair, result, w);
        }
        QueueChanged();
    }

private:
    struct Count {
        int64_t count = 0;
        std::vector<uint32_t> words;  // Each that has it, or had.
    };
    struct Candidate {
        int64_t count;
        Pair pair;
        bool operator<(const Candidate &other) const {
            return std::tie(count, other.pair) < std::tie(other.count, pair);
        }
    };

    void Change(Pair pair, int64_t by, uint32_t word) {
        Count &count = pairs_[pair];
        count.count += by;
        if (by > 0 && (count.words.empty() || count.words.back() != word)) {
            count.words.push_back(word);
        }
        changed_.insert(pair);
    }

    void MergeInWord(Pair pair, TokenId result, uint32_t w) {
        std::vector<TokenId> &symbols = words_[w].symbols;
        const int64_t count = words_[w].count;
        size_t kept = 0;
        for (size_t i = 0; i < symbols.size();) {
            if (i + 1 == symbols.size() || MakePair(symbols[i], symbols[i + 1]) != pair) {
                symbols[kept++] = symbols[i++];
                continue;
            }
            if (kept > 0) {
                Change(MakePair(symbols[kept - 1], symbols[i]), -count, w);
                Change(MakePair(symbols[kept - 1], result), count, w);
            }
            if (i + 2 < symbols.size()) {
                Change(MakePair(symbols[i + 1], symbols[i + 2]), -count, w);
                Change(MakePair(result, symbols[i + 2]), count, w);
            }
            symbols[kept++] = result;
            i += 2;
        }
        symbols.resize(kept);
        // What the loop changed back and forth for the pair itself, as in "aaa".
        pairs_.erase(pair);
    }

    void QueueChanged() {
        for (const Pair pair : changed_) {
            const auto found = pairs_.find(pair);
            if (found == pairs_.end()) {
                continue;
            }
            if (found->second.count <= 0) {
                pairs_.erase(found);
            } else {
                queue_.push({found->second.count, pair});
            }
        }
        changed_.clear();
    }

    std::vector<Word> words_;
    std::unordered_map<Pair, Count> pairs_;
    std::unordered_set<Pair> changed_;
    std::priority_queue<Candidate> queue_;
};

bool IsUtf8(std::string_view text) {
    return EndOfValid(text.data(), text.data() + text.size()) == text.data() + text.size();
}

}  // namespace

struct BpeTrainer::Impl {
    BpeTrainerOptions options;
    std::unordered_map<std::string, int64_t> words;
};

BpeTrainer::BpeTrainer(BpeTrainerOptions options) : impl_(std::make_unique<Impl>()) {
    const auto specials = static_cast<int64_t>(options.special_tokens.size());
    if (options.vocab_size < 256 + specials || options.vocab_size > kMaxVocabSize) {
        Throw<ValueError>("BpeTrainer: expected a vocab_size from {} (256 bytes and {} special tokens) to {}, got {}",
                          256 + specials, specials, kMaxVocabSize, options.vocab_size);
    }
    if (options.min_frequency < 1) {
        Throw<ValueError>("BpeTrainer: expected a min_frequency of at least 1, got {}", options.min_frequency);
    }
    std::set<std::string> seen;
    for (const std::string &token : options.special_tokens) {
        if (token.empty() || !IsUtf8(token) || !seen.insert(token).second) {
            Throw<ValueError>("BpeTrainer: expected different special tokens of UTF-8, got '{}'{}", token,
                              seen.contains(token) ? " twice" : "");
        }
    }
    impl_->options = std::move(options);
}

BpeTrainer::~BpeTrainer() = default;

void BpeTrainer::AddText(std::string_view text) {
    std::string key;
    Gpt2Scanner(text).ForEachWord([&](const char *word, size_t bytes) {
        key.assign(word, bytes);
        ++impl_->words[key];
    });
}

std::unique_ptr<BpeTokenizer> BpeTrainer::Train() const {
    const BpeTrainerOptions &options = impl_->options;
    auto model = std::make_unique<BpeModel>();
    UseGpt2Splitter(model.get());
    std::array<TokenId, 256> byte_ids{};
    for (int id = 0; id < 256; ++id) {
        const char byte = static_cast<char>(ByteAtPlace(id));
        byte_ids[ByteAtPlace(id)] = id;
        model->vocabulary.Add({&byte, 1}, id);
    }
    std::vector<Word> words;
    for (const auto &[word, count] : impl_->words) {
        words.push_back({{}, count});
        for (const char byte : word) {
            words.back().symbols.push_back(byte_ids[static_cast<unsigned char>(byte)]);
        }
    }
    PairCounts pairs(std::move(words));
    const int64_t learned_end = options.vocab_size - static_cast<int64_t>(options.special_tokens.size());
    Pair pair = 0;
    int64_t count = 0;
    while (model->vocabulary.size() < learned_end && pairs.Pop(&pair, &count) && count >= options.min_frequency) {
        const auto left = static_cast<TokenId>(pair >> 32);
        const auto right = static_cast<TokenId>(pair & UINT32_MAX);
        const std::string token = std::string(model->vocabulary[left]) + std::string(model->vocabulary[right]);
        // Another pair may have made the same token.
        const auto known = model->vocabulary.Find(token);
        const TokenId result = known.value_or(static_cast<TokenId>(model->vocabulary.size()));
        if (!known.has_value()) {
            model->vocabulary.Add(token, result);
        }
        model->merges.Add({left, right, result, static_cast<uint32_t>(model->merges.merges().size())});
        pairs.Merge(pair, result);
    }
    auto next = static_cast<TokenId>(model->vocabulary.size());
    for (const std::string &token : options.special_tokens) {
        std::string bytes(token.size(), '\0');
        const int64_t size = CharactersToBytes(token, bytes.data());
        if (size > 0 && model->vocabulary.Find(std::string_view(bytes).substr(0, static_cast<size_t>(size)))) {
            Throw<ValueError>("BpeTrainer: expected special tokens that aren't learned from the text, got '{}'", token);
        }
        model->added.push_back({next++, token, true});
    }
    return std::make_unique<BpeTokenizer>(std::move(model));
}

}  // namespace infini_train::text
