#include "infini_train/include/data/token_dataset.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/dataloader.h"
#include "infini_train/include/tensor.h"

#include "test/support/temp_dir.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::TempDir;
using test::Thrown;
using Ids = std::vector<int32_t>;
using Indices = std::vector<int64_t>;

template <typename T>
std::string Bytes(const std::vector<T> &values) {
    return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

// llm.c's header, by hand.
std::string Header(int32_t magic, int32_t version, int32_t count) {
    Ids header(256);
    header[0] = magic;
    header[1] = version;
    header[2] = count;
    return Bytes(header);
}

std::string LlmC(const std::vector<uint16_t> &tokens) {
    return Header(20240520, 1, static_cast<int32_t>(tokens.size())) + Bytes(tokens);
}

Ids Range(int32_t begin, int32_t end) {
    Ids ids(static_cast<size_t>(end - begin));
    std::iota(ids.begin(), ids.end(), begin);
    return ids;
}

std::vector<uint16_t> Range16(uint16_t begin, uint16_t end) {
    const Ids ids = Range(begin, end);
    return {ids.begin(), ids.end()};
}

void ExpectWindow(const std::pair<TensorPtr, TensorPtr> &window, const Indices &x, const Indices &y) {
    EXPECT_EQ(window.first->ToVector<int64_t>(), x);
    EXPECT_EQ(window.second->ToVector<int64_t>(), y);
}

TEST(TokenDataset, WindowsOfAnLlmCFile) {
    const TempDir dir;
    const auto dataset = TokenDataset::FromFiles({dir.Write("a.bin", LlmC({5, 6, 7, 8, 9, 10, 65535}))}, 3);
    EXPECT_EQ(dataset->Size(), 2U);
    EXPECT_EQ(dataset->NumTokens(), 7U);
    ExpectWindow((*dataset)[0], {5, 6, 7}, {6, 7, 8});
    ExpectWindow((*dataset)[1], {8, 9, 10}, {9, 10, 65535});
    EXPECT_EQ((*dataset)[0].first->Dtype(), DataType::kINT64);
    const auto [x, y] = dataset->Batch(Indices{1, 0, 1});
    EXPECT_EQ(x->Dims(), Indices({3, 3}));
    ExpectWindow({x, y}, {8, 9, 10, 5, 6, 7, 8, 9, 10}, {9, 10, 65535, 6, 7, 8, 9, 10, 65535});
    // One token less, and the last window has no target.
    EXPECT_EQ(TokenDataset::FromFiles({dir.Write("b.bin", LlmC({5, 6, 7, 8, 9, 10}))}, 3)->Size(), 1U);
}

TEST(TokenDataset, EveryFormatAndDataType) {
    const TempDir dir;
    const Ids wide = {1, 70000, 3, 2147483647};
    const auto check = [](const TokenDataset &dataset, int64_t second, int64_t last) {
        ExpectWindow(dataset[0], {1, second, 3}, {second, 3, last});
    };
    check(*TokenDataset::FromFiles({dir.Write("llama3", Header(20240801, 7, 4) + Bytes(wide))}, 3), 70000, 2147483647);
    check(*TokenDataset::FromFiles({dir.Write("u32", Bytes(wide))}, 3, {.format = TokenFormat::kUint32}), 70000,
          2147483647);
    check(*TokenDataset::FromFiles({dir.Write("u16", Bytes(std::vector<uint16_t>{1, 60000, 3, 4}))}, 3,
                                   {.format = TokenFormat::kUint16}),
          60000, 4);
    const auto in_memory = TokenDataset::FromTokens(wide, 3, {.dtype = DataType::kINT32});
    check(*in_memory, 70000, 2147483647);
    EXPECT_EQ((*in_memory)[0].second->Dtype(), DataType::kINT32);
}

TEST(TokenDataset, StridesOverlap) {
    const auto dataset = TokenDataset::FromTokens(Range(0, 8), 4, {.stride = 1});
    EXPECT_EQ(dataset->Size(), 4U);
    ExpectWindow((*dataset)[3], {3, 4, 5, 6}, {4, 5, 6, 7});
    EXPECT_EQ(TokenDataset::FromTokens(Range(0, 8), 4, {.stride = 3})->Size(), 2U);
}

TEST(TokenDataset, ShardsByPatternInOrder) {
    const TempDir dir;
    dir.Write("train_000002.bin", LlmC(Range16(100, 107)));
    dir.Write("train_000001.bin", LlmC(Range16(0, 7)));
    dir.Write("train_000003.bin", LlmC({1, 2}));  // too short for a window
    dir.Write("val.bin", LlmC(Range16(200, 207)));
    const auto dataset = TokenDataset::FromFiles({dir.path() + "/val.bin", dir.path() + "/train_*.bin"}, 3);
    EXPECT_EQ(dataset->NumShards(), 4U);
    EXPECT_EQ(dataset->NumTokens(), 23U);
    EXPECT_EQ(dataset->Size(), 6U);
    // In order, a batch holds consecutive tokens, as llm.c's loader gives them; no window crosses files.
    DataLoader loader(dataset, 2);
    auto batch = loader.begin();
    ExpectWindow(*batch, {200, 201, 202, 203, 204, 205}, {201, 202, 203, 204, 205, 206});
    ExpectWindow(*++batch, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, 6});
    ExpectWindow(*++batch, {100, 101, 102, 103, 104, 105}, {101, 102, 103, 104, 105, 106});
}

TEST(TokenDataset, ResumesAcrossShards) {
    const TempDir dir;
    for (const char *name : {"0", "1", "2"}) {
        dir.Write(std::string("shard") + name, LlmC(Range16(static_cast<uint16_t>(100 * *name), 5000)));
    }
    const auto open = [&] { return TokenDataset::FromFiles({dir.path() + "/shard*"}, 4); };
    for (const bool shuffle : {false, true}) {
        for (const size_t workers : {0, 2, 8}) {
            DataLoader whole(open(), 3, shuffle, 1, false, workers);
            std::vector<Indices> rest;
            std::map<std::string, TensorPtr> state;
            for (auto batch = whole.begin(); batch != whole.end(); ++batch) {
                const TensorPtr x = batch->first;
                if (!state.empty()) {
                    rest.push_back(x->ToVector<int64_t>());
                } else if (batch.BatchIndex() == whole.NumBatches() / 2) {
                    state = whole.StateDict();
                }
            }
            DataLoader resumed(open(), 3, shuffle, 1, false, workers);
            resumed.LoadStateDict(state);
            std::vector<Indices> again;
            for (const auto &[x, y] : resumed) {
                again.push_back(x->ToVector<int64_t>());
            }
            EXPECT_FALSE(rest.empty());
            EXPECT_EQ(again, rest);
        }
    }
}

TEST(TokenDataset, MalformedFiles) {
    const TempDir dir;
    const std::string good = LlmC(Range16(0, 10));
    const struct {
        std::string bytes, says;
        TokenFormat format = TokenFormat::kLlmC;
    } cases[] = {
        {"", "a header of 1024 bytes, found 0"},
        {good.substr(0, 1023), "a header of 1024 bytes, found 1023"},
        {Header(20240521, 1, 0), "the magic number 20240520 or 20240801, found 20240521"},
        {Header(20240520, 2, 0), "version 1, found 2"},
        {Header(20240801, 1, 0), "version 7, found 1"},
        {good + "x", "tokens of 2 bytes each behind the header, found 21 bytes"},
        {Header(20240801, 7, 1) + "abcdef", "tokens of 4 bytes each behind the header, found 6 bytes"},
        {good.substr(0, good.size() - 2), "the 10 tokens that the header counts, found 9"},
        {good + "xy", "the 10 tokens that the header counts, found 11"},
        {Header(20240520, 1, -1), "the -1 tokens"},
        {"abc", "tokens of 2 bytes each, found 3 bytes", TokenFormat::kUint16},
        {"abcdef", "tokens of 4 bytes each, found 6 bytes", TokenFormat::kUint32},
        {"", "tokens of 2 bytes each, found 0 bytes", TokenFormat::kUint16},
    };
    for (const auto &c : cases) {
        const std::string path = dir.Write("bad.bin", c.bytes);
        const std::string message = Thrown<IoError>([&] { TokenDataset::FromFiles({path}, 2, {.format = c.format}); });
        EXPECT_TRUE(Contains(message, path + ": expected ") && Contains(message, c.says)) << c.says << "\n" << message;
    }
    const auto open = [](const std::string &path) {
        return Thrown<IoError>([&] { TokenDataset::FromFiles({path}, 2); });
    };
    EXPECT_TRUE(Contains(open(dir.path() + "/none"), "No such file"));
    EXPECT_TRUE(Contains(open(dir.path() + "/none*"), "expected files that match"));
    EXPECT_TRUE(Contains(open(dir.path()), "expected a file"));
}

TEST(TokenDataset, IdsBeyondTheVocabularyAreFoundInTheirWindow) {
    const TempDir dir;
    const std::string path = dir.Write("a.bin", LlmC({1, 2, 3, 4, 50257, 2, 2, 1, 1}));
    const auto dataset = TokenDataset::FromFiles({path}, 2, {.vocab_size = 50257});
    const std::string message = "TokenDataset: " + path + ": expected ids below 50257, found 50257 at token 4";
    ExpectWindow((*dataset)[0], {1, 2}, {2, 3});
    EXPECT_EQ(Thrown<IoError>([&] { (*dataset)[1]; }), message);  // as a target
    EXPECT_EQ(Thrown<IoError>([&] { dataset->Batch(Indices{0, 2}); }), message);
    ExpectWindow((*dataset)[3], {2, 1}, {1, 1});
    const auto narrow = TokenDataset::FromFiles({dir.Write("u32", Bytes(std::vector<uint32_t>{1, 4000000000U, 1}))}, 2,
                                                {.format = TokenFormat::kUint32, .dtype = DataType::kINT32});
    EXPECT_TRUE(Contains(Thrown<IoError>([&] { (*narrow)[0]; }), "expected ids below 2147483648, found 4000000000"));
    EXPECT_EQ(Thrown<IndexError>([&] { dataset->Batch(Indices{4}); }),
              "TokenDataset: expected a sample below 4, got 4");
    EXPECT_THROW((*dataset)[static_cast<size_t>(-1)], IndexError);
}

TEST(TokenDataset, RejectsWhatMakesNoSense) {
    const auto message = [](const Ids &tokens, size_t window, const TokenDataset::Options &options = {}) {
        return Thrown<ValueError>([&] { TokenDataset::FromTokens(tokens, window, options); });
    };
    EXPECT_EQ(message({1, 2}, 0), "TokenDataset: expected a window of at least 1, got 0");
    EXPECT_EQ(message({1, 2}, static_cast<size_t>(-1)), "TokenDataset: expected a window of at least 1, got -1");
    EXPECT_EQ(message({1, 2}, 2),
              "TokenDataset: expected at least 3 tokens in a piece, one more than the window, got 2 in 1");
    EXPECT_EQ(message({1, -2}, 1), "TokenDataset: expected ids >= 0, got -2 at token 1");
    EXPECT_NE(message({1, 2}, 1, {.vocab_size = -1}), "");
    EXPECT_NE(message({1, 2}, 1, {.dtype = DataType::kFLOAT32}), "");
    EXPECT_EQ(Thrown<ValueError>([] { TokenDataset::FromFiles({}, 2); }), "TokenDataset: expected files, got none");
}

TEST(TokenDataset, WritesWhatItReads) {
    const TempDir dir;
    const std::string path = dir.path() + "/a.bin";
    const auto contents = [&] {
        std::ifstream file(path, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    WriteTokenFile(path, {1, 2, 65535});
    EXPECT_EQ(contents(), LlmC({1, 2, 65535}));
    WriteTokenFile(path, {1, 65536});
    EXPECT_EQ(contents(), Header(20240801, 7, 2) + Bytes(Ids{1, 65536}));
    WriteTokenFile(path, {1, 2}, TokenFormat::kUint16);
    EXPECT_EQ(contents(), std::string("\1\0\2\0", 4));
    WriteTokenFile(path, {1}, TokenFormat::kUint32);
    EXPECT_EQ(contents(), std::string("\1\0\0\0", 4));
    EXPECT_EQ(Thrown<ValueError>([&] {
                  WriteTokenFile(path, {1, 65536}, TokenFormat::kUint16);
              }),
              "WriteTokenFile: expected ids from 0 to 65535, got 65536 at token 1");
    EXPECT_NE(Thrown<ValueError>([&] { WriteTokenFile(path, {-1}); }), "");
    EXPECT_EQ(contents().size(), 4U);
    EXPECT_NE(Thrown<IoError>([&] { WriteTokenFile(dir.path() + "/no/a.bin", {1}); }), "");
}

}  // namespace
}  // namespace infini_train
