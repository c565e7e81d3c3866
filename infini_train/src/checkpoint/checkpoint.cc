#include "infini_train/include/checkpoint/checkpoint.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/version.h"
#include "infini_train/include/dataloader.h"
#include "infini_train/include/lr_scheduler.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/checkpoint/manifest.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/io/new_file.h"
#include "infini_train/src/utils/state_reader.h"

namespace infini_train {
namespace {

namespace fs = std::filesystem;

constexpr char kScheduler[] = "scheduler.";
constexpr char kLoader[] = "loader.";
constexpr char kGenerator[] = "generator.";
constexpr char kNumber[] = "number.";

void AddAll(NamedTensors &to, const char *prefix, const NamedTensors &from) {
    for (const auto &[name, tensor] : from) {
        to[prefix + name] = tensor;
    }
}

NamedTensors TakeAll(const NamedTensors &from, std::string_view prefix) {
    NamedTensors taken;
    for (const auto &[name, tensor] : from) {
        if (name.starts_with(prefix)) {
            taken[name.substr(prefix.size())] = tensor;
        }
    }
    return taken;
}

NamedTensors ToState(const Generator::State &state) {
    const auto number = [](uint64_t value) { return Tensor::FromScalar(value, DataType::kUINT64); };
    return {{"seed", number(state.seed)}, {"stream", number(state.stream)}, {"offset", number(state.offset)}};
}

Generator::State ToGeneratorState(const NamedTensors &state) {
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    StateReader reader(state);
    const auto take = [&](const char *name) { return reader.TakeInteger<uint64_t>(name, 0, kMost, 0); };
    const Generator::State result{take("seed"), take("stream"), take("offset")};
    reader.Finish("Generator");
    return result;
}

NamedTensors TrainingState(const CheckpointParts &parts, const CheckpointInfo &info) {
    NamedTensors state;
    if (parts.scheduler != nullptr) {
        AddAll(state, kScheduler, parts.scheduler->StateDict());
    }
    if (parts.loader != nullptr) {
        AddAll(state, kLoader, parts.loader->StateDict());
    }
    if (parts.generator != nullptr) {
        AddAll(state, kGenerator, ToState(parts.generator->GetState()));
    }
    for (const auto &[name, value] : info.numbers) {
        if (name.empty()) {
            throw ValueError("Checkpoint: expected a name for each number, got an empty one");
        }
        state[kNumber + name] = Tensor::FromScalar(value, DataType::kFLOAT64);
    }
    return state;
}

// Puts `fresh` in the place of `path`, which may be there already.
void Replace(const fs::path &fresh, const fs::path &path) {
    const auto fail = [&](int error) {
        Throw<IoError>("Checkpoint: {}: can't be put in place: {}", path.string(), std::strerror(error));
    };
    if (!fs::exists(path)) {
        if (::rename(fresh.c_str(), path.c_str()) != 0) {
            fail(errno);
        }
        return;
    }
    // The two change names in one step. Few file systems can't do that: there, for a moment, the old one has another.
    fs::path old = fresh;
    if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
        if (errno != EINVAL && errno != ENOSYS) {
            fail(errno);
        }
        old = path.string() + ".old";
        std::error_code ignored;
        fs::remove_all(old, ignored);
        if (::rename(path.c_str(), old.c_str()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) {
            fail(errno);
        }
    }
    std::error_code ignored;
    fs::remove_all(old, ignored);
}

// What has to be undone if a later part doesn't fit.
class Undo {
public:
    ~Undo() {
        for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
            try {
                (*step)();
            } catch (const std::exception &) {  // a state that it had a moment ago fits
            }
        }
    }
    void Add(std::function<void()> step) { steps_.push_back(std::move(step)); }
    void Forget() { steps_.clear(); }

private:
    std::vector<std::function<void()>> steps_;
};

// A checkpoint whose files are what was written.
class Verified {
public:
    explicit Verified(const std::string &path) : path_(path), manifest_(ReadManifest(path)) {
        VerifyFiles(path, manifest_);
        if (manifest_.files.count(kTrainingFile) != 0) {
            training_ = Read(kTrainingFile);
        }
    }

    CheckpointInfo Info() const {
        CheckpointInfo info{manifest_.step, manifest_.flags, {}, manifest_.library_version};
        for (const auto &[name, tensor] : TakeAll(training_, kNumber)) {
            info.numbers[name] = tensor->Item<double>();
        }
        return info;
    }

    NamedTensors File(const char *name, const char *what) const {
        if (manifest_.files.count(name) == 0) {
            Missing(what);
        }
        return Read(name);
    }

    NamedTensors Training(const char *prefix, const char *what) const {
        NamedTensors state = TakeAll(training_, prefix);
        if (state.empty()) {
            Missing(what);
        }
        return state;
    }

private:
    [[noreturn]] void Missing(const char *what) const { Throw<ValueError>("Checkpoint: {} holds no {}", path_, what); }
    NamedTensors Read(const char *name) const { return io::LoadSafetensors((fs::path(path_) / name).string()); }

    const std::string path_;
    const Manifest manifest_;
    NamedTensors training_;
};

}  // namespace

void Checkpoint::Save(const std::string &path, const CheckpointParts &parts, const CheckpointInfo &info) {
    // A slash at the end would make the name's last part empty.
    const fs::path target = fs::path(path).has_filename() ? fs::path(path) : fs::path(path).parent_path();
    const fs::path fresh = target.string() + ".tmp";
    Manifest manifest{info.step, "", info.flags, {}};
    manifest.library_version = fmt::format("{}.{}.{}", kVersionMajor, kVersionMinor, kVersionPatch);
    const NamedTensors training = TrainingState(parts, info);
    ToText(manifest);  // throws before anything is written
    try {
        fs::remove_all(fresh);
        fs::create_directories(fresh);
    } catch (const fs::filesystem_error &error) {
        Throw<IoError>("Checkpoint: {}: can't be made: {}", fresh.string(), error.code().message());
    }
    const auto write = [&](const char *name, const NamedTensors &tensors) {
        manifest.files[name] = io::WriteSafetensors((fresh / name).string(), tensors);
    };
    try {
        if (parts.model != nullptr) {
            write(kModelFile, parts.model->StateDict());
        }
        if (parts.optimizer != nullptr) {
            write(kOptimizerFile, parts.optimizer->StateDict());
        }
        write(kTrainingFile, training);
        const std::string text = ToText(manifest);
        io::NewFile file((fresh / kManifestFile).string(), "Checkpoint");
        file.Write(text.data(), text.size());
        file.Commit();
        Replace(fresh, target);
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(fresh, ignored);
        throw;
    }
    io::SyncFolder(target.parent_path().string(), "Checkpoint");
}

CheckpointInfo Checkpoint::Load(const std::string &path, const CheckpointParts &parts) {
    const Verified checkpoint(path);
    const CheckpointInfo info = checkpoint.Info();
    NamedTensors loader_state;
    if (parts.loader != nullptr) {
        loader_state = checkpoint.Training(kLoader, "position among the data");
        DataLoader trial = *parts.loader;
        trial.LoadStateDict(loader_state);
    }
    Generator::State generator_state;
    if (parts.generator != nullptr) {
        generator_state = ToGeneratorState(checkpoint.Training(kGenerator, "random generator"));
    }
    Undo undo;
    if (parts.optimizer != nullptr) {
        Optimizer *const optimizer = parts.optimizer;
        const NamedTensors state = checkpoint.File(kOptimizerFile, "optimizer");
        // Shares the optimizer's tensors, which loading leaves as they are and replaces by others.
        undo.Add([optimizer, before = optimizer->StateDict()] { optimizer->LoadStateDict(before); });
        optimizer->LoadStateDict(state);
    }
    if (parts.scheduler != nullptr) {
        LRSchedulerBase *const scheduler = parts.scheduler;
        const NamedTensors state = checkpoint.Training(kScheduler, "scheduler");
        undo.Add([scheduler, before = scheduler->StateDict()] { scheduler->LoadStateDict(before); });
        scheduler->LoadStateDict(state);
    }
    if (parts.model != nullptr) {
        parts.model->LoadStateDict(checkpoint.File(kModelFile, "model"));
    }
    undo.Forget();
    if (parts.loader != nullptr) {
        parts.loader->LoadStateDict(loader_state);
    }
    if (parts.generator != nullptr) {
        parts.generator->SetState(generator_state);
    }
    return info;
}

CheckpointInfo Checkpoint::Verify(const std::string &path) {
    return Verified(path).Info();
}

}  // namespace infini_train
