// The trace event format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/profiler_recorder.h"

namespace infini_train::utils {
namespace {

using Json = nlohmann::ordered_json;
using profiler::Event;
using profiler::Kind;

constexpr int kProcess = 1;
constexpr int kStepsTrack = 0;  // threads count from 1

double Microseconds(int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1000;
}

Json Span(const std::string &name, const char *category, int track, int64_t start, int64_t duration) {
    return {{"name", name},
            {"cat", category},
            {"ph", "X"},
            {"pid", kProcess},
            {"tid", track},
            {"ts", Microseconds(start)},
            {"dur", Microseconds(duration)}};
}

Json Metadata(const char *what, int track, const std::string &name) {
    return {{"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", track}, {"args", {{"name", name}}}};
}

// One event a line, so that the file can be read and compared. Spans of one track are put in order first: viewers take
// those that begin together from the outside in.
class Writer {
public:
    explicit Writer(std::ostream &stream) : stream_(stream) {
        stream_ << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    }
    void Write(const Json &event) { WriteLine(Text(event)); }
    void Add(const Json &event, int64_t start, int64_t duration, int64_t rank) {
        lines_.push_back({start, -duration, rank, Text(event)});
    }
    void WriteAdded() {
        std::sort(lines_.begin(), lines_.end());
        for (const auto &line : lines_) {
            WriteLine(std::get<3>(line));
        }
        lines_.clear();
    }
    void End(size_t dropped) {
        stream_ << "\n], \"otherData\": {\"producer\": \"infini_train\", \"dropped_events\": " << dropped << "}}\n";
    }

private:
    static std::string Text(const Json &event) { return event.dump(-1, ' ', false, Json::error_handler_t::replace); }
    void WriteLine(const std::string &text) { stream_ << (std::exchange(first_, false) ? "" : ",\n") << text; }

    std::ostream &stream_;
    std::vector<std::tuple<int64_t, int64_t, int64_t, std::string>> lines_;
    bool first_ = true;
};

std::string ModuleName(const std::vector<profiler::Place> &places, const std::vector<profiler::ModuleName> &modules,
                       int place) {
    return place < 0 ? std::string() : modules[static_cast<size_t>(places[static_cast<size_t>(place)].module)].name;
}

// Spans around the functions of a backward pass, for the modules that they belong to: a function runs when the graph
// has it due, so a module may come several times.
class BackwardSpans {
public:
    BackwardSpans(Writer *writer, int track, const std::vector<profiler::Place> &places,
                  const std::vector<profiler::ModuleName> &modules)
        : writer_(*writer), track_(track), places_(places), modules_(modules) {}
    ~BackwardSpans() { CloseTo(0); }
    BackwardSpans(const BackwardSpans &) = delete;
    BackwardSpans &operator=(const BackwardSpans &) = delete;

    /// The next span that lies in no other, of a backward function or not.
    void Next(const Event &event) {
        if (event.kind != Kind::kBackward) {
            CloseTo(0);
            return;
        }
        std::vector<int> path;
        for (int place = event.place; place >= 0; place = places_[static_cast<size_t>(place)].parent) {
            path.push_back(place);
        }
        path.push_back(kPass);
        std::reverse(path.begin(), path.end());
        size_t common = 0;
        while (common < std::min(path.size(), open_.size()) && path[common] == open_[common].place) {
            ++common;
        }
        CloseTo(common);
        for (size_t i = common; i < path.size(); ++i) {
            open_.push_back({path[i], event.start});
        }
        end_ = event.start + event.duration;
    }

private:
    static constexpr int kPass = -1;  // the span around all modules
    struct Open {
        int place;
        int64_t start;
    };

    void CloseTo(size_t depth) {
        while (open_.size() > depth) {
            const auto [place, start] = open_.back();
            open_.pop_back();
            const std::string name = place == kPass ? "backward" : ModuleName(places_, modules_, place);
            writer_.Add(Span(name, place == kPass ? "pass" : "module backward", track_, start, end_ - start), start,
                        end_ - start, static_cast<int64_t>(open_.size()));
        }
    }

    Writer &writer_;
    const int track_;
    const std::vector<profiler::Place> &places_;
    const std::vector<profiler::ModuleName> &modules_;
    std::vector<Open> open_;
    int64_t end_ = 0;
};

const char *Category(const Event &event) {
    switch (event.kind) {
        case Kind::kModule:
            return "module";
        case Kind::kForward:
            return event.phase == ProfilePhase::kBackward ? "forward in backward" : "forward";
        case Kind::kBackward:
            return "backward";
        case Kind::kOptimizer:
            return "optimizer";
    }
    return "";
}

Json Arguments(const Event &event, const std::string &module, bool memory) {
    Json args = Json::object();
    if (event.kind != Kind::kModule && !module.empty()) {
        args["module"] = module;
    }
    if (!event.inputs.empty()) {
        std::string shapes;
        for (const TensorSpec &input : event.inputs) {
            shapes += shapes.empty() ? "" : " ";
            shapes += input.present ? ToString(input.dtype) + FormatDims(input.dims) : "null";
        }
        args["inputs"] = shapes;
    }
    if (event.kind != Kind::kModule && event.kind != Kind::kOptimizer && !event.is_part) {
        args["flops"] = event.cost.flops;
        args["bytes"] = event.cost.bytes;
    }
    if (memory) {
        args["peak_bytes"] = event.peak;
        args["growth_bytes"] = event.peak - std::min(event.peak, event.live_before);
    }
    return args;
}

void AddEvent(Writer *writer, const Event &event, int track, const std::string &module, bool memory) {
    constexpr int64_t kInsideModules = 1 << 20;
    const std::string &name = event.kind == Kind::kModule ? module : event.type;
    Json span = Span(name, Category(event), track, event.start, event.duration);
    span["args"] = Arguments(event, module, memory);
    writer->Add(span, event.start, event.duration, kInsideModules + event.depth);
    if (memory && event.kind != Kind::kModule) {
        const int64_t end = event.start + event.duration;
        writer->Add({{"name", "memory"},
                     {"ph", "C"},
                     {"pid", kProcess},
                     {"ts", Microseconds(end)},
                     {"args", {{"live", event.live_after}}}},
                    end, 0, 0);
    }
}

}  // namespace

void Profiler::WriteTrace(std::ostream &stream) const {
    Recorder::Snapshot snapshot = recorder_->Take(/*with_events=*/true);
    Writer writer(stream);
    writer.Write(Metadata("process_name", kStepsTrack, "infini_train"));
    if (!snapshot.steps.empty()) {
        writer.Write(Metadata("thread_name", kStepsTrack, "steps"));
    }
    for (const auto &[number, start, end] : snapshot.steps) {
        writer.Write(Span("step " + std::to_string(number), "step", kStepsTrack, start, end - start));
    }
    for (auto &log : snapshot.threads) {
        writer.Write(Metadata("thread_name", log.number, "thread " + std::to_string(log.number)));
        std::sort(log.events.begin(), log.events.end(), [](const Event &a, const Event &b) {
            return std::pair(a.start, a.depth) < std::pair(b.start, b.depth);
        });
        {
            BackwardSpans backward(&writer, log.number, snapshot.places, snapshot.modules);
            for (const Event &event : log.events) {
                if (event.depth == 0) {
                    backward.Next(event);
                }
                AddEvent(&writer, event, log.number, ModuleName(snapshot.places, snapshot.modules, event.place),
                         recorder_->watches_memory());
            }
        }
        writer.WriteAdded();
    }
    writer.End(snapshot.dropped_events);
}

void Profiler::WriteTrace(const std::string &path) const {
    std::ofstream file(path, std::ios::binary);
    if (!file) {
        Throw<IoError>("Profiler::WriteTrace: {}: expected a file that can be written, got: {}", path,
                       std::strerror(errno));
    }
    WriteTrace(file);
    file.close();
    if (!file) {
        Throw<IoError>("Profiler::WriteTrace: {}: the trace couldn't be written: {}", path, std::strerror(errno));
    }
}

}  // namespace infini_train::utils
