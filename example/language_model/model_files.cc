#include "example/language_model/model_files.h"

#include <filesystem>
#include <system_error>

#include "infini_train/include/io/binary_file.h"

#include "example/language_model/bin_models.h"
#include "example/language_model/hugging_face.h"

namespace infini_train::example {

LoadedModel LoadModel(const std::string &path, DataType dtype, Device device, double dropout) {
    const ModelOptions options{dtype, device, dropout};
    std::error_code ignored;  // BinaryFile says what is wrong with a path that can't be looked at
    if (std::filesystem::is_directory(path, ignored)) {
        return LoadHuggingFace(path, "", options);
    }
    if (std::filesystem::path(path).extension() == ".safetensors") {
        return LoadHuggingFace(std::filesystem::path(path).parent_path(), path, options);
    }
    const io::BinaryFile file(path, "LoadModel");
    uint32_t magic = 0;
    file.Read(0, &magic, sizeof(magic), "a model");
    switch (magic) {
        case kLlmCMagic:
            return LoadLlmC(file, options);
        case kLlama2CMagic:
            return LoadLlama2C(file, options);
        default:
            return LoadLlama2CFirst(file, options);
    }
}

}  // namespace infini_train::example
