#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/core/generator.h"

namespace infini_train {

class DataLoader;
class LRSchedulerBase;
class Optimizer;

namespace nn {
class Module;
}

/// The objects whose states make up a checkpoint. Null ones aren't saved, and are left alone by loading.
struct CheckpointParts {
    nn::Module *model = nullptr;
    Optimizer *optimizer = nullptr;
    LRSchedulerBase *scheduler = nullptr;
    DataLoader *loader = nullptr;  ///< its position among the data
    Generator *generator = &DefaultGenerator();
};

/// What a checkpoint says besides.
struct CheckpointInfo {
    int64_t step = 0;
    std::map<std::string, std::string> flags = {};  ///< of the run; UTF-8
    std::map<std::string, double> numbers = {};     ///< whatever else training goes on from, kept bit for bit
    std::string library_version = {};               ///< of the library that wrote it; Save fills it in
};

/// The whole state of a training, as a folder:
///
///     model.safetensors, optimizer.safetensors    as the two name their tensors
///     training.safetensors                        scheduler, loader, generator and numbers
///     checkpoint.json                             step, flags, versions; size and CRC-32 of each file and of itself
///
/// A training that goes on from one does, bit for bit, what it would have done without a break, provided that model,
/// optimizer, scheduler and loader are made as they were.
class INFINI_TRAIN_EXPORT Checkpoint {
public:
    /// Writes one. The folder appears under its name when all of it is on the disk; one that was there before is
    /// replaced at once. So a crash leaves the old one or the new one, whole. Folders above are made. Throws IoError
    /// with the system's reason, ValueError for flags that aren't UTF-8 or a number without a name.
    static void Save(const std::string &path, const CheckpointParts &parts, const CheckpointInfo &info = {});

    /// Reads one into the parts. Checks everything first: IoError for a folder that isn't there, is of an unknown
    /// version, or in which any bit differs from what was written; ValueError for a part that it doesn't hold, and
    /// where a part's own LoadStateDict doesn't take it. Then no part has changed.
    static CheckpointInfo Load(const std::string &path, const CheckpointParts &parts);

    /// The same checks, and what it says, without loading.
    static CheckpointInfo Verify(const std::string &path);
};

/// The checkpoints of one run, as folders `step_00001000` in a folder, of which only the latest ones are kept.
class INFINI_TRAIN_EXPORT CheckpointFolder {
public:
    /// Keeps the `keep` checkpoints of the highest steps, besides the one saved last; 0 keeps all.
    explicit CheckpointFolder(std::string path, size_t keep = 3);

    /// Saves under the name of `info.step` and then removes older ones; gives the path. Throws what Checkpoint::Save
    /// throws, and ValueError for a negative step.
    std::string Save(const CheckpointParts &parts, const CheckpointInfo &info);

    /// The paths, lowest step first; none if the folder isn't there.
    std::vector<std::string> List() const;
    /// The path with the highest step.
    std::optional<std::string> Latest() const;
    /// Loads that; nothing if there is none. Throws what Checkpoint::Load throws: a damaged one is never passed over.
    std::optional<CheckpointInfo> LoadLatest(const CheckpointParts &parts) const;

private:
    void RemoveOld(const std::string &latest) const;

    std::string path_;
    size_t keep_;
};

}  // namespace infini_train
