#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

#include "example/language_model/generate.h"
#include "example/language_model/sampler.h"
#include "example/language_model/text_reader.h"

namespace infini_train::example {
namespace {

constexpr char kCaller[] = "BeamSearch";

// The texts that are followed, prompt included, each with the sum of the log-probabilities of its new tokens.
struct Followed {
    std::vector<std::vector<text::TokenId>> texts;
    std::vector<double> sums;
};

// Text `row` with one more token.
struct Candidate {
    double sum;
    int64_t row;
    text::TokenId id;
};

bool IsBetter(const Candidate &a, const Candidate &b) {
    return a.sum > b.sum || (a.sum == b.sum && std::pair(a.row, a.id) < std::pair(b.row, b.id));
}

void LogSoftmax(std::span<double> scores) {
    const double max = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) {
        sum += std::exp(score - max);
    }
    const double log_sum = max + std::log(sum);
    for (double &score : scores) {
        score -= log_sum;
    }
}

// The best `count` texts that are one token longer, the best first.
std::vector<Candidate> BestCandidates(const Followed &followed, std::vector<double> scores, double repetition_penalty,
                                      size_t count) {
    const size_t rows = followed.texts.size(), vocab_size = scores.size() / rows;
    std::vector<Candidate> candidates;
    candidates.reserve(scores.size());
    for (size_t row = 0; row < rows; ++row) {
        const auto of_row = std::span(scores).subspan(row * vocab_size, vocab_size);
        LogSoftmax(of_row);
        PenalizeRepetition(followed.texts[row], repetition_penalty, of_row);
        for (size_t id = 0; id < vocab_size; ++id) {
            if (of_row[id] > -std::numeric_limits<double>::infinity()) {
                candidates.push_back(
                    {followed.sums[row] + of_row[id], static_cast<int64_t>(row), static_cast<text::TokenId>(id)});
            }
        }
    }
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(std::min(count, candidates.size()));
    std::nth_element(candidates.begin(), end, candidates.end(), IsBetter);
    std::sort(candidates.begin(), end, IsBetter);
    candidates.erase(end, candidates.end());
    return candidates;
}

// The best ended sequences so far, the best first.
class Ended {
public:
    Ended(const BeamOptions &options, size_t prompt) : options_(options), prompt_(prompt) {}

    double Score(double sum, int64_t length) const {
        return sum / std::pow(static_cast<double>(std::max<int64_t>(length, 1)), options_.length_penalty);
    }

    void Add(const std::vector<text::TokenId> &text, double sum, int64_t length) {
        const double score = Score(sum, length);
        const auto worse = std::find_if(beams_.begin(), beams_.end(), [&](const Beam &b) { return b.score < score; });
        const auto new_tokens = text.begin() + static_cast<std::ptrdiff_t>(prompt_);
        beams_.insert(worse, Beam{{new_tokens, text.end()}, score});
        if (static_cast<int64_t>(beams_.size()) > options_.beams) {
            beams_.pop_back();
        }
    }

    // Whether nothing can enter any more, `sum` being that of the best text that is followed.
    bool IsFinal(double sum, int64_t length) const {
        return static_cast<int64_t>(beams_.size()) == options_.beams &&
               (options_.early_stopping || beams_.back().score >= Score(sum, length));
    }

    std::vector<Beam> Take() { return std::move(beams_); }

private:
    const BeamOptions &options_;
    const size_t prompt_;
    std::vector<Beam> beams_;
};

// Goes on with the best `beams` candidates that don't end.
Followed Advance(const Followed &followed, const std::vector<Candidate> &candidates, int64_t beams, int64_t length,
                 TextReader *reader, Ended *ended) {
    Followed next;
    std::vector<int64_t> rows;
    for (size_t rank = 0; rank < candidates.size() && static_cast<int64_t>(rows.size()) < beams; ++rank) {
        const Candidate &candidate = candidates[rank];
        const auto &text = followed.texts[static_cast<size_t>(candidate.row)];
        if (!reader->IsStop(candidate.id)) {
            rows.push_back(candidate.row);
            next.sums.push_back(candidate.sum);
            next.texts.push_back(text);
            next.texts.back().push_back(candidate.id);
        } else if (static_cast<int64_t>(rank) < beams) {  // one that isn't among the best wouldn't have been followed
            ended->Add(text, candidate.sum, length);
        }
    }
    if (!rows.empty()) {
        reader->Reorder(rows);
    }
    return next;
}

void Check(const BeamOptions &options) {
    if (options.beams < 1) {
        throw ValueError(fmt::format("{}: expected at least 1 beam, got {}", kCaller, options.beams));
    }
    if (!std::isfinite(options.length_penalty)) {
        throw ValueError(
            fmt::format("{}: expected a length_penalty that is a number, got {}", kCaller, options.length_penalty));
    }
}

}  // namespace

std::vector<Beam> BeamSearch(nn::Transformer &model, std::span<const text::TokenId> prompt, int64_t max_new_tokens,
                             const BeamOptions &options) {
    Check(options);
    TextReader reader(model, {kCaller, prompt, max_new_tokens, options.repetition_penalty, options.stop, options.kept});
    Ended ended(options, prompt.size());
    Followed followed{{{prompt.begin(), prompt.end()}}, {0.0}};
    for (int64_t length = 1; length <= max_new_tokens; ++length) {
        // Enough for `beams` that go on, whatever number of them ends.
        const size_t count = static_cast<size_t>(options.beams) + followed.texts.size() * options.stop.size();
        const auto candidates =
            BestCandidates(followed, reader.Read(followed.texts), options.repetition_penalty, count);
        followed = Advance(followed, candidates, options.beams, length, &reader, &ended);
        if (followed.texts.empty() || ended.IsFinal(followed.sums.front(), length)) {
            return ended.Take();
        }
    }
    for (size_t row = 0; row < followed.texts.size(); ++row) {
        ended.Add(followed.texts[row], followed.sums[row], max_new_tokens);
    }
    return ended.Take();
}

}  // namespace infini_train::example
