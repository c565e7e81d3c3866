#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/utils/profiler.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train::utils {
namespace {

using Json = nlohmann::json;

Json TraceOf(const Profiler &profiler) {
    std::stringstream stream;
    profiler.WriteTrace(stream);
    return Json::parse(stream.str());
}

struct Span {
    std::string name, category;
    int64_t start, end;  // nanoseconds
    int depth;
    std::string inside;  // the name of the span around it
};

// The spans of each track. Fails unless those of a track lie inside or beside each other, the outer one first.
std::map<int, std::vector<Span>> Nested(const Json &trace) {
    std::map<int, std::vector<Span>> tracks;
    std::map<int, std::vector<Span>> open;
    for (const Json &event : trace.at("traceEvents")) {
        if (event.at("ph") != "X") {
            continue;
        }
        const int track = event.at("tid");
        const int64_t start = std::llround(event.at("ts").get<double>() * 1000);
        const int64_t end = start + std::llround(event.at("dur").get<double>() * 1000);
        auto &stack = open[track];
        while (!stack.empty() && stack.back().end <= start) {
            stack.pop_back();
        }
        if (!stack.empty()) {
            EXPECT_GE(start, stack.back().start) << event;
            EXPECT_LE(end, stack.back().end) << event << " in " << stack.back().name;
        }
        stack.push_back({event.at("name"), event.at("cat"), start, end, static_cast<int>(stack.size()),
                         stack.empty() ? "" : stack.back().name});
        tracks[track].push_back(stack.back());
    }
    return tracks;
}

std::shared_ptr<nn::Sequential> Mlp() {
    return std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(4, 3), std::make_shared<nn::Relu>(),
                                            std::make_shared<nn::Linear>(3, 2));
}

TEST(ProfilerTrace, IsNestedAsTheCallsWere) {
    const auto net = Mlp();
    Profiler profiler;
    for (int step = 0; step < 2; ++step) {
        (*net)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
        profiler.Step();
    }
    profiler.Stop();
    const Json trace = TraceOf(profiler);
    auto tracks = Nested(trace);
    ASSERT_EQ(tracks.size(), 2U);
    ASSERT_EQ(tracks[0].size(), 2U);
    EXPECT_EQ(tracks[0][0].name, "step 0");
    EXPECT_EQ(tracks[0][1].name, "step 1");
    EXPECT_EQ(tracks[0][0].end, tracks[0][1].start);

    std::vector<std::string> first;  // of the first step, indented
    for (const Span &span : tracks[1]) {
        if (span.end <= tracks[0][0].end) {
            first.push_back(std::string(static_cast<size_t>(span.depth), ' ') + span.name + " " + span.category);
        }
    }
    EXPECT_EQ(first, (std::vector<std::string>{
                         "Sequential module",
                         " 0 (Linear) module",
                         "  Linear forward",
                         " 1 (Relu) module",
                         "  Relu forward",
                         " 2 (Linear) module",
                         "  Linear forward",
                         "Sum forward",
                         "backward pass",
                         " Sum backward",
                         "  Reshape forward in backward",
                         "  Expand forward in backward",
                         " Sequential module backward",
                         "  2 (Linear) module backward",
                         "   Linear backward",
                         "   AccumulateGrad backward",
                         "   AccumulateGrad backward",
                         "  1 (Relu) module backward",
                         "   Relu backward",
                         "  0 (Linear) module backward",
                         "   Linear backward",
                         "   AccumulateGrad backward",
                         "   AccumulateGrad backward",
                     }));
}

TEST(ProfilerTrace, SaysShapesCostsModulesAndMemory) {
    const auto net = Mlp();
    Profiler profiler;
    (*net)({Tensor::Ones({5, 4})});
    profiler.Stop();
    const Json trace = TraceOf(profiler);
    EXPECT_EQ(trace.at("displayTimeUnit"), "ms");
    EXPECT_EQ(trace.at("otherData").at("dropped_events"), 0);
    const auto &events = trace.at("traceEvents");
    const auto linear =
        std::find_if(events.begin(), events.end(), [](const Json &e) { return e.at("name") == "Linear"; });
    ASSERT_NE(linear, events.end());
    const Json &args = linear->at("args");
    EXPECT_EQ(args.at("module"), "0 (Linear)");
    EXPECT_EQ(args.at("inputs"), "float32(5, 4) float32(3, 4) float32(3,)");
    EXPECT_EQ(args.at("flops"), 135);
    EXPECT_EQ(args.at("bytes"), 200);
    EXPECT_GE(args.at("growth_bytes"), 60);
    const auto memory = std::count_if(events.begin(), events.end(),
                                      [](const Json &e) { return e.at("ph") == "C" && e.at("name") == "memory"; });
    EXPECT_EQ(memory, 3);
    std::set<std::string> named;
    for (const Json &event : events) {
        if (event.at("ph") == "M") {
            named.insert(event.at("args").at("name"));
        }
    }
    EXPECT_EQ(named, (std::set<std::string>{"infini_train", "thread 1"}));
}

TEST(ProfilerTrace, IsNestedAlsoWhenThingsThrowAndThreadsRun) {
    const auto net = Mlp();
    const auto bad = test::MakeModule([&](const TensorList &inputs) -> TensorList {
        (*net)(inputs);
        throw std::runtime_error("no");
    });
    Profiler profiler;
    const auto work = [&] {
        for (int i = 0; i < 10; ++i) {
            EXPECT_THROW((*bad)({Tensor::Ones({5, 4})}), std::runtime_error);
            EXPECT_THROW((*net)({Tensor::Ones({5, 3})}), ShapeError);
            (*net)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
        }
    };
    std::thread other(work);
    work();
    other.join();
    profiler.Stop();
    const auto tracks = Nested(TraceOf(profiler));
    ASSERT_EQ(tracks.size(), 2U);
    for (const auto &[track, spans] : tracks) {
        const auto count = [&spans = spans](const std::string &name, const std::string &category) {
            return std::count_if(spans.begin(), spans.end(),
                                 [&](const Span &span) { return span.name == name && span.category == category; });
        };
        EXPECT_EQ(count("Lambda", "module"), 10);
        EXPECT_EQ(count("Sequential", "module"), 30);
        EXPECT_EQ(count("Linear", "backward"), 20);
        EXPECT_EQ(count("Sequential", "module backward"), 10);
        for (const Span &span : spans) {
            if (span.name == "Lambda") {
                EXPECT_EQ(span.depth, 0);
            }
        }
    }
}

TEST(ProfilerTrace, IsLimited) {
    ProfilerOptions options;
    options.max_events = 3;
    options.shapes = options.memory = false;
    Profiler profiler(options);
    const auto x = test::Of({1});
    for (int i = 0; i < 5; ++i) {
        x->Exp();
    }
    profiler.Stop();
    EXPECT_EQ(profiler.Totals().dropped_events, 2U);
    EXPECT_EQ(profiler.Operators()[0].stats.calls, 5);
    EXPECT_EQ(profiler.Totals().peak_bytes, 0);
    const Json trace = TraceOf(profiler);
    EXPECT_EQ(Nested(trace)[1].size(), 3U);
    EXPECT_EQ(trace.at("otherData").at("dropped_events"), 2);
    EXPECT_FALSE(trace.dump().find("inputs") != std::string::npos);
}

TEST(ProfilerTrace, GoesToAFile) {
    const std::string path = (std::filesystem::temp_directory_path() / "infini_train_profiler_test.json").string();
    Profiler profiler;
    test::Of({1, 2})->Exp();
    profiler.Stop();
    profiler.WriteTrace(path);
    std::ifstream file(path);
    EXPECT_EQ(Nested(Json::parse(file))[1][0].name, "Exp");
    std::filesystem::remove(path);
    EXPECT_TRUE(test::Contains(test::Thrown<IoError>([&] { profiler.WriteTrace("/nowhere/trace.json"); }),
                               "/nowhere/trace.json"));
}

}  // namespace
}  // namespace infini_train::utils
