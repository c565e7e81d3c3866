#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"

namespace infini_train::io {

/// A safetensors file whose tensors are read one by one.
///
/// Opening it reads the header and throws IoError, with the path, what was expected and what was found, for a file that
/// can't be read, whose header is longer than the file or than 100 MB, isn't a JSON object, names a tensor twice, or
/// describes one by an unknown data type, a shape that overflows, or offsets that don't match the shape, overlap, leave
/// a gap or reach past the end.
class INFINI_TRAIN_EXPORT SafetensorsFile {
public:
    struct Info {
        DataType dtype;
        std::vector<int64_t> dims;
    };

    explicit SafetensorsFile(const std::string &path);
    ~SafetensorsFile();
    SafetensorsFile(SafetensorsFile &&) noexcept;
    SafetensorsFile &operator=(SafetensorsFile &&) noexcept;

    const std::string &path() const;
    /// What there is, by name.
    const std::map<std::string, Info> &tensors() const;
    /// The free text of the header.
    const std::map<std::string, std::string> &metadata() const;
    /// One of tensors(); IoError if there is none of that name.
    const Info &info(const std::string &name) const;

    /// A tensor, on the CPU. Throws IoError.
    TensorPtr Read(const std::string &name) const;
    /// Copies one into a tensor of the same dims, of any strides, data type and device, unrecorded, without another
    /// copy in memory. Throws IoError, for other dims too.
    void ReadInto(const std::string &name, const TensorPtr &to) const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// All tensors of a safetensors file, on the CPU. `metadata`, if given, receives the free text of the header. Throws as
/// SafetensorsFile does; nothing is allocated before all has been checked.
INFINI_TRAIN_EXPORT std::map<std::string, TensorPtr> LoadSafetensors(
    const std::string &path, std::map<std::string, std::string> *metadata = nullptr);

/// Writes one. The file appears under its name when it is complete: what was there before stays until then. Throws
/// ValueError for a null tensor or the name `__metadata__`, IoError with the system's reason.
INFINI_TRAIN_EXPORT void SaveSafetensors(const std::string &path, const std::map<std::string, TensorPtr> &tensors,
                                         const std::map<std::string, std::string> &metadata = {});

}  // namespace infini_train::io
