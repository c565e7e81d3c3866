#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/utils/tensor_statistics.h"

namespace infini_train::utils {

/// Writes a file that TensorBoard shows, `events.out.tfevents.*`, as TensorFlow's event files are defined
/// (tensorflow/core/util/event.proto in records of tensorflow/core/lib/io/record_writer.h).
///
///     utils::TensorBoardWriter board("runs/first");
///     board.AddScalar("loss/train", 0.52, step);
///     board.AddHistogram("fc1/weight", *model->parameter("weight"), step);
///
/// and `tensorboard --logdir runs`. A tag's part before the first slash groups charts. Methods may be called from any
/// thread. What is written is in the file when the method returns, so that a run that was broken off keeps what it has.
/// All throw IoError with the path and the system's reason.
class INFINI_TRAIN_EXPORT TensorBoardWriter {
public:
    /// Makes the folder, and a new file in it. `clock` gives the time of an event in seconds since 1970.
    explicit TensorBoardWriter(const std::string &directory, std::function<double()> clock = {});
    ~TensorBoardWriter();
    TensorBoardWriter(const TensorBoardWriter &) = delete;
    TensorBoardWriter &operator=(const TensorBoardWriter &) = delete;

    /// Stored as float32, as all of TensorBoard's scalars.
    void AddScalar(const std::string &tag, double value, int64_t step);
    /// The finite elements; without any, nothing is written.
    void AddHistogram(const std::string &tag, const Tensor &values, int64_t step);
    /// Throws ValueError for statistics of finite elements that have no histogram.
    void AddHistogram(const std::string &tag, const TensorStatistics &statistics, int64_t step);
    /// Shown as Markdown.
    void AddText(const std::string &tag, const std::string &text, int64_t step);
    /// An image (channels, height, width) of 1, 3 or 4 channels: uint8, or floating-point from 0 to 1 (what lies
    /// outside is clamped, NaN is black). Throws ShapeError, DtypeError.
    void AddImage(const std::string &tag, const Tensor &image, int64_t step);

    const std::string &path() const { return path_; }

private:
    void WriteValue(int64_t step, const std::string &value);
    void WriteRecord(const std::string &event);

    std::string path_;
    std::function<double()> clock_;
    std::mutex mutex_;
    std::FILE *file_ = nullptr;
};

}  // namespace infini_train::utils
