#include "example/language_model/hugging_face.h"

#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/io/binary_file.h"
#include "infini_train/include/io/safetensors.h"

#include "example/language_model/json_file.h"
#include "example/language_model/weights.h"

namespace infini_train::example {
namespace {

constexpr char kOneFile[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr size_t kMostIndexBytes = size_t{16} << 20;

[[noreturn]] void Fail(const std::string &path, const std::string &expected, const std::string &found) {
    throw IoError(fmt::format("LoadModel: {}: expected {}, found {}", path, expected, found));
}

bool EndsWith(const std::string &text, const std::string &end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// What transformers writes and the model has no use for: masks and tables that are computed, and the output layer where
// it is the embedding.
bool IsIgnored(const std::string &name, const nn::TransformerConfig &config) {
    return (config.tied && name == "lm_head.weight") || EndsWith(name, ".attn.bias") ||
           EndsWith(name, ".attn.masked_bias") || EndsWith(name, "rotary_emb.inv_freq");
}

// The tensors of one or several files, by their names without the prefix of the class that wrote them.
class TensorFiles {
public:
    TensorFiles(const std::string &shown, const std::vector<std::string> &paths, const std::string &prefix)
        : shown_(shown) {
        for (const std::string &path : paths) {
            files_.emplace_back(path);
            for (const auto &[name, info] : files_.back().tensors()) {
                const bool has_prefix = name.compare(0, prefix.size(), prefix) == 0;
                const std::string plain = has_prefix ? name.substr(prefix.size()) : name;
                if (!places_.emplace(plain, Place{files_.size() - 1, name}).second) {
                    Fail(shown_, "each tensor once", fmt::format("'{}' twice", plain));
                }
            }
        }
    }

    // Throws unless the files hold these weights, and nothing that has no place.
    void Check(const Weights &weights, const nn::TransformerConfig &config) const {
        std::set<std::string> wanted;
        for (const Weight &weight : weights) {
            wanted.insert(weight.name);
            const auto found = places_.find(weight.name);
            if (found == places_.end()) {
                Fail(shown_, fmt::format("a tensor '{}'", weight.name), "none");
            }
            const auto &info = InfoOf(found->second);
            if (info.dims != weight.dims || !IsFloatingPoint(info.dtype)) {
                Fail(shown_,
                     fmt::format("floating-point numbers ({}) as '{}'", fmt::join(weight.dims, ", "), weight.name),
                     fmt::format("{} ({})", ToString(info.dtype), fmt::join(info.dims, ", ")));
            }
        }
        for (const auto &[name, place] : places_) {
            if (wanted.count(name) == 0 && !IsIgnored(name, config)) {
                Fail(shown_, fmt::format("the {} tensors of the model that config.json describes", weights.size()),
                     fmt::format("also '{}'", place.name));
            }
        }
    }

    void ReadInto(const Weight &weight, const TensorPtr &to) const {
        const Place &place = places_.at(weight.name);
        files_[place.file].ReadInto(place.name, to);
    }

    // A model of more blocks than there are tensors needs no closer look, which would take its time.
    void CheckCount(const nn::TransformerConfig &config) const {
        if (config.layers > static_cast<int64_t>(places_.size())) {
            Fail(shown_, fmt::format("the tensors of {} blocks", config.layers),
                 fmt::format("{} tensors", places_.size()));
        }
    }

private:
    struct Place {
        size_t file;
        std::string name;
    };

    const io::SafetensorsFile::Info &InfoOf(const Place &place) const { return files_[place.file].info(place.name); }

    const std::string shown_;
    std::vector<io::SafetensorsFile> files_;
    std::map<std::string, Place> places_;
};

// The files that an index names, each once.
std::vector<std::string> IndexedFiles(const std::filesystem::path &folder) {
    const std::string path = folder / kIndex;
    const JsonFile map = JsonFile(path, kMostIndexBytes).Object("weight_map");
    std::set<std::string> names;
    for (const auto &[tensor, file] : map.json().items()) {
        const std::string name = map.Text(tensor.c_str());
        if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
            Fail(path, fmt::format("a file of this folder for '{}'", tensor), "'" + name + "'");
        }
        names.insert(folder / name);
    }
    return {names.begin(), names.end()};
}

std::vector<std::string> WeightFiles(const std::filesystem::path &folder) {
    if (std::filesystem::exists(folder / kOneFile)) {
        return {folder / kOneFile};
    }
    if (std::filesystem::exists(folder / kIndex)) {
        return IndexedFiles(folder);
    }
    const bool is_old = std::filesystem::exists(folder / "pytorch_model.bin");
    Fail(folder, fmt::format("{} or {}", kOneFile, kIndex),
         is_old ? "pytorch_model.bin; transformers' save_pretrained(..., safe_serialization=True) converts it"
                : "neither");
}

Weights WeightsOf(const nn::TransformerConfig &config) {
    return IsLlama(config) ? HuggingFaceLlamaWeights(config) : HuggingFaceGpt2Weights(config);
}

// What transformers' classes put in front of all names but the output layer's.
std::string PrefixOf(const nn::TransformerConfig &config) {
    return IsLlama(config) ? "model." : "transformer.";
}

}  // namespace

LoadedModel LoadHuggingFace(const std::string &folder, const std::string &weights, const ModelOptions &options) {
    nn::TransformerConfig config = ReadHuggingFaceConfig(std::filesystem::path(folder) / "config.json");
    config.dropout = options.dropout;
    const auto paths = weights.empty() ? WeightFiles(folder) : std::vector<std::string>{weights};
    const TensorFiles files(weights.empty() ? folder : weights, paths, PrefixOf(config));
    files.CheckCount(config);
    const Weights wanted = WeightsOf(config);
    files.Check(wanted, config);
    const auto model = std::make_shared<nn::Transformer>(config, options.device, options.dtype, /*initialize=*/false);
    for (const Weight &weight : wanted) {
        files.ReadInto(weight, weight.In(*model));
    }
    return {model, IsLlama(config) ? "Hugging Face LLaMA" : "Hugging Face GPT-2"};
}

void SaveHuggingFace(const std::string &folder, const nn::Transformer &model) {
    const nn::TransformerConfig &config = model.config();
    const std::string text = HuggingFaceConfig(config, model.module("wte")->parameter("weight")->Dtype());
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
        throw IoError(fmt::format("SaveHuggingFace: {}: expected a folder, found {}", folder, error.message()));
    }
    std::map<std::string, TensorPtr> tensors;
    for (const Weight &weight : WeightsOf(config)) {
        const std::string prefix = weight.name == "lm_head.weight" ? "" : PrefixOf(config);
        tensors[prefix + weight.name] = weight.In(model);
    }
    io::SaveSafetensors(std::filesystem::path(folder) / kOneFile, tensors, {{"format", "pt"}});
    io::WriteFile(std::filesystem::path(folder) / "config.json", text, "SaveHuggingFace");
}

}  // namespace infini_train::example
