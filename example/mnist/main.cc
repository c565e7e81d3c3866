// Trains a small network to read MNIST or Fashion-MNIST. `mnist --help` lists the flags.

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gflags/gflags.h>

#include "infini_train/include/common/version.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/io/safetensors.h"
#include "infini_train/include/lr_scheduler.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/csv_writer.h"
#include "infini_train/include/utils/model_summary.h"
#include "infini_train/include/utils/nan_guard.h"
#include "infini_train/include/utils/precision_checker.h"

#include "example/common/flags.h"
#include "example/common/image_grid.h"
#include "example/common/line_plot.h"
#include "example/common/profile.h"
#include "example/common/signal.h"
#include "example/common/table.h"
#include "example/common/terminal.h"
#include "example/mnist/idx.h"
#include "example/mnist/mnist_dataset.h"
#include "example/mnist/models.h"
#include "example/mnist/trainer.h"

DEFINE_string(dataset, "", "folder with the four IDX files, plain or gzip; empty: Debian's dataset-fashion-mnist");
DEFINE_string(model, "mlp", "mlp (one hidden layer), mlp512 (two of 512) or lenet (convolutions)");
DEFINE_int32(hidden, 500, "units of mlp's hidden layer");
DEFINE_int32(bs, 64, "images in a batch");
DEFINE_int32(num_epoch, 5, "passes over the training images; 0 only evaluates");
DEFINE_double(lr, 0, "learning rate; 0: 0.001 for adam and adamw, 0.05 for sgd");
DEFINE_string(lr_schedule, "cosine",
              "over the run: cosine (falls to zero), one_cycle (rises for 30 % of it, then falls) or constant");
DEFINE_string(optimizer, "adam", "adam, adamw or sgd (with momentum 0.9)");
DEFINE_string(device, "cpu", "where to compute: cpu, or cuda where the library was built with it");
DEFINE_uint64(seed, 42, "of the initial weights and the order of the images; the same seed gives the same run");
DEFINE_int32(threads, 0, "CPU threads; 0: all cores. The results don't depend on it");
DEFINE_string(save, "", "file to write the trained weights to, in safetensors format");
DEFINE_string(load, "", "file of weights to begin with, as --save wrote it");
DEFINE_string(out, ".", "folder for history.csv and history.png");
DEFINE_bool(watch, false, "print activations and gradients by layer after each epoch, seen through hooks");
DEFINE_int32(watch_every, 100, "batches from one look at the layers to the next");
DEFINE_string(watch_csv, "", "file for every look at the layers, as CSV");
DEFINE_string(tensorboard, "", "folder for TensorBoard: losses, layers, gradients and the speed of the parameters");
DEFINE_string(report, "", "file for a report on the same, as one HTML page");
DEFINE_bool(nan_guard, false, "stop at the first value that isn't finite and say which operator made it");
DEFINE_string(precision_check, "",
              "record what is computed, as in level=2,path=run1,max_steps=3; docs/tools/numerics.md");
DEFINE_string(profile, "", "file for a trace of 20 batches after the first 5, for ui.perfetto.dev; also prints tables");
DEFINE_bool(summary, false, "show the network's layers, shapes, parameters, memory and FLOPs first");

namespace infini_train::example {
namespace {

constexpr int64_t kNumClasses = 10;

struct Data {
    std::shared_ptr<const MnistDataset> train, test;
};

void CheckFlags() {
    RequireOneOf("model", FLAGS_model, ModelNames());
    RequireOneOf("optimizer", FLAGS_optimizer, {"adam", "adamw", "sgd"});
    RequireOneOf("lr_schedule", FLAGS_lr_schedule, {"cosine", "one_cycle", "constant"});
    RequirePositive("bs", FLAGS_bs);
    RequirePositive("hidden", FLAGS_hidden);
    RequirePositive("watch_every", FLAGS_watch_every);
    RequireNonNegative("num_epoch", FLAGS_num_epoch);
    RequireNonNegative("lr", FLAGS_lr);
    RequireInRange("threads", FLAGS_threads, 0, 1024);
    RequireReadable("load", FLAGS_load);
    RequireWritable("save", FLAGS_save);
    try {
        utils::PrecisionCheckConfig::Parse(FLAGS_precision_check);
    } catch (const ValueError &error) {
        throw UsageError(fmt::format("flag --precision_check: {}", error.what()));
    }
    RequireWritable("watch_csv", FLAGS_watch_csv);
    RequireWritable("report", FLAGS_report);
    RequireWritable("profile", FLAGS_profile);
}

double LearningRate() {
    return FLAGS_lr > 0 ? FLAGS_lr : FLAGS_optimizer == "sgd" ? 0.05 : 1e-3;
}

std::shared_ptr<Optimizer> MakeOptimizer(const TensorList &params) {
    if (FLAGS_optimizer == "sgd") {
        return optimizers::SGD::Create(LearningRate(), 0.9)(params);
    }
    return FLAGS_optimizer == "adam" ? optimizers::Adam::Create(LearningRate())(params)
                                     : optimizers::AdamW::Create(LearningRate())(params);
}

// For a step after each batch of the run; null for a constant rate.
std::shared_ptr<LRScheduler> MakeScheduler(const std::shared_ptr<Optimizer> &optimizer, int64_t num_images) {
    const int64_t batches = (num_images + FLAGS_bs - 1) / FLAGS_bs * FLAGS_num_epoch;
    if (FLAGS_lr_schedule == "constant" || batches == 0) {
        return nullptr;
    }
    if (FLAGS_lr_schedule == "one_cycle") {
        return std::make_shared<lr_schedulers::OneCycleLR>(optimizer, LearningRate(), batches);
    }
    return std::make_shared<lr_schedulers::CosineAnnealingLR>(optimizer, batches);
}

Data LoadData() {
    const MnistFiles files = FindMnistFilesOrDefault(FLAGS_dataset);
    MnistSplit train = ReadMnistSplit(files.train_images, files.train_labels, kNumClasses);
    MnistSplit test = ReadMnistSplit(files.test_images, files.test_labels, kNumClasses);
    if (train.images.rows != test.images.rows || train.images.cols != test.images.cols) {
        throw IoError(fmt::format("{}: expected images of {} x {} as in {}, found {} x {}", files.test_images,
                                  train.images.rows, train.images.cols, files.train_images, test.images.rows,
                                  test.images.cols));
    }
    const PixelStats stats = StatsOf(train.images);
    return {std::make_shared<MnistDataset>(std::move(train), stats),
            std::make_shared<MnistDataset>(std::move(test), stats)};
}

void PrintRun(const nn::Module &model, const Data &data, const Device &device, const Terminal &terminal) {
    int64_t parameters = 0;
    for (const auto &parameter : model.Parameters()) {
        parameters += parameter->NumElements();
    }
    const IdxImages &images = data.train->split().images;
    Table table({"", ""});
    table.AddRow({"data", FLAGS_dataset.empty() ? std::string(kFashionMnistDir) : FLAGS_dataset});
    table.AddRow({"images", fmt::format("{} to train, {} to test, {} x {}", images.count, data.test->Size(),
                                        images.rows, images.cols)});
    table.AddRow({"model", fmt::format("{}, {} parameters", FLAGS_model, parameters)});
    table.AddRow(
        {"optimizer", fmt::format("{}, learning rate {}, {}", FLAGS_optimizer, LearningRate(), FLAGS_lr_schedule)});
    table.AddRow(
        {"batches", fmt::format("{} images, {} epoch{}", FLAGS_bs, FLAGS_num_epoch, FLAGS_num_epoch == 1 ? "" : "s")});
    table.AddRow({"device", fmt::format("{}, {} threads", device.ToString(), GetNumThreads())});
    table.AddRow({"seed", std::to_string(FLAGS_seed)});
    std::cout << table.ToString(terminal) << std::flush;
}

WatchOptions Watch() {
    return {FLAGS_watch,
            FLAGS_watch_every,
            FLAGS_watch_csv,
            FLAGS_tensorboard,
            FLAGS_report,
            fmt::format("{} with {}, learning rate {}, batches of {}", FLAGS_model, FLAGS_optimizer, LearningRate(),
                        FLAGS_bs)};
}

void WritePlot(const std::vector<EpochResult> &history, const std::string &path) {
    const auto series = [&](const char *name, double EpochResult::*value, double scale) {
        PlotSeries line;
        line.name = name;
        line.markers = true;
        for (const EpochResult &result : history) {
            line.x.push_back(static_cast<double>(result.epoch));
            line.y.push_back(scale * result.*value);
        }
        return line;
    };
    PlotPanel loss, accuracy;
    loss.title = "Loss";
    loss.y_label = "cross-entropy";
    loss.series = {series("training", &EpochResult::train_loss, 1), series("test", &EpochResult::test_loss, 1)};
    accuracy.title = "Accuracy";
    accuracy.y_label = "%";
    accuracy.series = {series("training", &EpochResult::train_accuracy, 100),
                       series("test", &EpochResult::test_accuracy, 100)};
    loss.x_label = accuracy.x_label = "epoch";
    loss.whole_x = accuracy.whole_x = true;
    PlotOptions options;
    options.title = fmt::format("{} with {}, learning rate {}", FLAGS_model, FLAGS_optimizer, LearningRate());
    WriteLinePlot(path, {loss, accuracy}, options);
}

void ShowAnswers(const std::vector<int64_t> &answers, const MnistSplit &test, const Terminal &terminal) {
    const std::vector<std::string> names = MnistClassNames(FLAGS_dataset);
    ConfusionMatrix confusion(names);
    std::vector<ClassifiedImage> shown, wrong;
    const int64_t pixels = test.images.rows * test.images.cols;
    constexpr size_t kShownOfEach = 3;
    for (size_t i = 0; i < answers.size(); ++i) {
        const auto truth = static_cast<size_t>(test.labels[i]);
        const auto answer = static_cast<size_t>(answers[i]);
        confusion.Add(static_cast<int64_t>(truth), answers[i]);
        auto &list = answer == truth ? shown : wrong;
        if (list.size() < kShownOfEach) {
            list.push_back({test.images.pixels.data() + static_cast<int64_t>(i) * pixels, names[answer], names[truth]});
        }
    }
    std::cout << '\n' << confusion.ToString(terminal) << '\n';
    shown.insert(shown.end(), wrong.begin(), wrong.end());
    std::cout << DrawImages(shown, test.images.rows, test.images.cols, terminal) << std::flush;
}

std::vector<EpochResult> Train(Trainer &trainer, const std::string &csv_path) {
    std::vector<EpochResult> history;
    if (FLAGS_num_epoch == 0) {
        return history;
    }
    utils::CsvWriter csv(csv_path, {"epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "seconds"});
    for (int epoch = 1; epoch <= FLAGS_num_epoch && !StopRequested(); ++epoch) {
        history.push_back(trainer.RunEpoch(epoch));
        const EpochResult &result = history.back();
        csv.Row({result.epoch, result.train_loss, result.train_accuracy, result.test_loss, result.test_accuracy,
                 result.seconds});
    }
    return history;
}

int Main() {
    CheckFlags();
    const Terminal terminal = DetectTerminal(STDOUT_FILENO);
    const Device device = Device::FromString(FLAGS_device);
    GetDeviceBackend(device);  // throws where there is none
    if (FLAGS_threads > 0) {
        SetNumThreads(FLAGS_threads);
    }
    ManualSeed(FLAGS_seed);

    const Data data = LoadData();
    const IdxImages &images = data.train->split().images;
    const auto model = MakeModel(FLAGS_model, images.rows, images.cols, FLAGS_hidden);
    model->To(device);
    if (!FLAGS_load.empty()) {
        model->LoadStateDict(io::LoadSafetensors(FLAGS_load));
    }
    PrintRun(*model, data, device, terminal);
    if (FLAGS_summary) {
        std::cout << utils::ModelSummary(*model, {FLAGS_bs, 1, images.rows, images.cols}).ToString(terminal);
    }
    std::filesystem::create_directories(FLAGS_out);
    const std::string csv_path = (std::filesystem::path(FLAGS_out) / "history.csv").string();
    const std::string plot_path = (std::filesystem::path(FLAGS_out) / "history.png").string();

    const auto nan_guard = FLAGS_nan_guard ? std::make_unique<utils::NanGuard>() : nullptr;
    const auto checker =
        FLAGS_precision_check.empty()
            ? nullptr
            : std::make_unique<utils::PrecisionChecker>(utils::PrecisionCheckConfig::Parse(FLAGS_precision_check));
    const StopOnSignal stop;
    const auto optimizer = MakeOptimizer(model->Parameters());
    Trainer trainer(model, optimizer, MakeScheduler(optimizer, images.count), data.train, data.test,
                    {device, FLAGS_bs, FLAGS_num_epoch, FLAGS_seed, Watch()}, terminal);
    const auto profiler = FLAGS_profile.empty() ? nullptr : StartProfiler(device, /*num_steps=*/20);
    if (profiler != nullptr) {
        trainer.OnBatch([profiler = profiler.get()] { profiler->Step(); });
    }
    const std::vector<EpochResult> history = Train(trainer, csv_path);
    trainer.Finish();
    if (profiler != nullptr) {
        ShowProfile(profiler.get(), "batch", FLAGS_profile, terminal);
    }
    ShowAnswers(trainer.Predict(), data.test->split(), terminal);
    if (!history.empty()) {
        WritePlot(history, plot_path);
        std::cout << "\nhistory: " << csv_path << ", " << plot_path << '\n';
    }
    if (!FLAGS_report.empty()) {
        std::cout << "report:  " << FLAGS_report << '\n';
    }
    if (checker != nullptr && !utils::PrecisionCheckConfig::Parse(FLAGS_precision_check).baseline.empty()) {
        std::cout << '\n' << checker->Comparison().ToString();
    }
    if (!FLAGS_save.empty()) {
        io::SaveSafetensors(FLAGS_save, model->StateDict());
        std::cout << "weights: " << FLAGS_save << '\n';
    }
    return 0;
}

}  // namespace
}  // namespace infini_train::example

int main(int argc, char **argv) {
    using namespace infini_train::example;
    const ProgramInfo info = {
        "mnist",
        "Trains a small network to read MNIST or Fashion-MNIST and shows what it has learned.",
        fmt::format("{}.{}.{}", infini_train::kVersionMajor, infini_train::kVersionMinor, infini_train::kVersionPatch),
        {{"Data", {"dataset"}},
         {"Network", {"model", "hidden", "load", "save"}},
         {"Training", {"bs", "num_epoch", "lr", "lr_schedule", "optimizer", "seed"}},
         {"Machine", {"device", "threads"}},
         {"Output", {"out", "watch", "watch_every", "watch_csv", "tensorboard", "report", "summary", "profile"}},
         {"Checks", {"nan_guard", "precision_check"}}},
        {"mnist --model=lenet --num_epoch=10", "mnist --dataset=data/mnist --bs=1000 --num_epoch=30 --out=run1"}};
    return RunProgram(info, argc, argv, Main);
}
