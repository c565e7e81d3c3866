// Encoding and decoding, one thread. Without arguments the text is made up and its vocabulary learned from it;
//
//     tokenizer_bench TOKENIZER TEXT [SECONDS]
//
// instead encodes a file with a tokenizer for some seconds (default 2) and prints the tokens and the best MB/s, for
// scripts/bench_vs_tiktoken.sh.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <benchmark/benchmark.h>

#include "infini_train/include/text/bpe_trainer.h"
#include "infini_train/include/text/char_tokenizer.h"
#include "infini_train/include/text/tokenizer.h"

namespace infini_train::text {
namespace {

// Words of random letters whose frequencies fall as those of a language do.
const std::string &Text() {
    static const std::string text = [] {
        std::mt19937 random(1);
        std::vector<std::string> words(5000);
        for (std::string &word : words) {
            for (uint32_t i = 0; i < 2 + random() % 8; ++i) {
                word += static_cast<char>('a' + random() % 26);
            }
        }
        std::string made;
        while (made.size() < (size_t{4} << 20)) {
            const double place = std::uniform_real_distribution<double>(0, 1)(random);
            made += words[static_cast<size_t>(place * place * place * 5000)];
            made += random() % 12 == 0 ? ".\n" : random() % 12 == 0 ? ", " : " ";
        }
        return made;
    }();
    return text;
}

const Tokenizer &Bpe() {
    static const auto tokenizer = [] {
        BpeTrainer trainer({4096});
        trainer.AddText(Text());
        return trainer.Train();
    }();
    return *tokenizer;
}

const Tokenizer &Chars() {
    static const auto tokenizer = CharTokenizer::FromText(Text());
    return *tokenizer;
}

void Encode(benchmark::State &state, const Tokenizer &(*tokenizer)()) {
    std::vector<TokenId> ids;
    for (auto _ : state) {
        ids.clear();
        tokenizer().EncodeTo(Text(), &ids);
        benchmark::DoNotOptimize(ids.data());
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * Text().size()));
}
BENCHMARK_CAPTURE(Encode, bpe, Bpe)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Encode, chars, Chars)->Unit(benchmark::kMillisecond);

void Decode(benchmark::State &state, const Tokenizer &(*tokenizer)()) {
    const std::vector<TokenId> ids = tokenizer().Encode(Text());
    for (auto _ : state) {
        benchmark::DoNotOptimize(tokenizer().Decode(ids));
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * Text().size()));
}
BENCHMARK_CAPTURE(Decode, bpe, Bpe)->Unit(benchmark::kMillisecond);

void Train(benchmark::State &state) {
    for (auto _ : state) {
        BpeTrainer trainer({4096});
        trainer.AddText(Text());
        benchmark::DoNotOptimize(trainer.Train());
    }
    state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * Text().size()));
}
BENCHMARK(Train)->Unit(benchmark::kMillisecond);

int EncodeFile(const std::string &tokenizer_path, const std::string &text_path, double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto tokenizer = LoadTokenizer(tokenizer_path);
    std::ifstream file(text_path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file || text.empty()) {
        std::fprintf(stderr, "%s: no text\n", text_path.c_str());
        return 1;
    }
    size_t count = 0;
    double best = 1e9;
    const auto start = Clock::now();
    do {
        const auto begin = Clock::now();
        count = tokenizer->Encode(text).size();
        best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    } while (std::chrono::duration<double>(Clock::now() - start).count() < seconds);
    std::printf("%zu\t%.3f\n", count, static_cast<double>(text.size()) / best / 1e6);
    return 0;
}

}  // namespace
}  // namespace infini_train::text

int main(int argc, char **argv) {
    if (argc >= 3 && argv[1][0] != '-') {
        try {
            return infini_train::text::EncodeFile(argv[1], argv[2], argc > 3 ? std::atof(argv[3]) : 2);
        } catch (const std::exception &error) {
            std::fprintf(stderr, "%s\n", error.what());
            return 1;
        }
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 1;
    }
    benchmark::RunSpecifiedBenchmarks();
}
