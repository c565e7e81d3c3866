#include "infini_train/include/utils/tensorboard_writer.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <unistd.h>
#include <utility>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/checksum.h"
#include "infini_train/src/utils/png.h"
#include "infini_train/src/utils/protobuf.h"

namespace infini_train::utils {
namespace {

double Now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string FileName(double time) {
    static std::atomic<int> count{0};
    char host[256] = "localhost";
    gethostname(host, sizeof(host) - 1);
    return fmt::format("events.out.tfevents.{:010d}.{}.{}.{}", static_cast<int64_t>(time), host, getpid(), count++);
}

// A checksum of data that contains checksums would be weak, so they're stored rotated, with a constant added.
uint32_t MaskedCrc(std::string_view bytes) {
    const uint32_t crc = Crc32c(bytes);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

template <typename T>
std::string_view BytesOf(const T &value) {
    return {reinterpret_cast<const char *>(&value), sizeof(value)};
}

// HistogramProto: `limits` are the buckets' right edges, each bucket begins where the one before ends.
ProtobufMessage EncodeHistogram(const TensorStatistics &of) {
    std::vector<double> limits;
    std::vector<double> counts;
    double end = of.min;
    for (const HistogramBin &bin : of.histogram) {
        if (bin.low > end) {
            limits.push_back(bin.low);
            counts.push_back(0);
        }
        // Limits grow strictly, also behind the zeros' bin of no width.
        end = std::max(bin.high, std::nextafter(bin.low, std::numeric_limits<double>::infinity()));
        limits.push_back(end);
        counts.push_back(static_cast<double>(bin.count));
    }
    const auto count = static_cast<double>(of.Finite());
    ProtobufMessage message;
    message.Double(1, of.min).Double(2, of.max).Double(3, count).Double(4, of.mean * count);
    message.Double(5, (of.std * of.std + of.mean * of.mean) * count);
    message.PackedDoubles(6, limits).PackedDoubles(7, counts);
    return message;
}

// Pixels row by row, the channels of each side by side.
std::string Pixels(const Tensor &image) {
    const auto planes = image.ToVector<float>();
    const auto channels = static_cast<size_t>(image.Dim(0));
    const size_t size = planes.size() / channels;
    const float scale = image.Dtype() == DataType::kUINT8 ? 1.0F : 255.0F;
    std::string pixels;
    for (size_t i = 0; i < size; ++i) {
        for (size_t c = 0; c < channels; ++c) {
            const float value = planes[c * size + i] * scale;
            // What isn't a number isn't greater than 0.
            pixels += static_cast<char>(static_cast<uint8_t>(value > 0 ? std::min(std::round(value), 255.0F) : 0.0F));
        }
    }
    return pixels;
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::string &directory, std::function<double()> clock)
    : clock_(clock ? std::move(clock) : Now) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
        Throw<IoError>("TensorBoardWriter: can't create the folder '{}': {}", directory, error.message());
    }
    const double time = clock_();
    path_ = (std::filesystem::path(directory) / FileName(time)).string();
    file_ = std::fopen(path_.c_str(), "wb");
    if (file_ == nullptr) {
        Throw<IoError>("TensorBoardWriter: can't create '{}': {}", path_, std::strerror(errno));
    }
    try {
        WriteRecord(ProtobufMessage().Double(1, time).Bytes(3, "brain.Event:2").bytes());
    } catch (...) {
        std::fclose(file_);
        throw;
    }
}

TensorBoardWriter::~TensorBoardWriter() {
    std::fclose(file_);
}

void TensorBoardWriter::AddScalar(const std::string &tag, double value, int64_t step) {
    WriteValue(step, ProtobufMessage().Bytes(1, tag).Float(2, static_cast<float>(value)).bytes());
}

void TensorBoardWriter::AddHistogram(const std::string &tag, const Tensor &values, int64_t step) {
    AddHistogram(tag, ComputeStatistics(values, /*histogram=*/true), step);
}

void TensorBoardWriter::AddHistogram(const std::string &tag, const TensorStatistics &statistics, int64_t step) {
    if (statistics.Finite() == 0) {
        return;
    }
    if (statistics.histogram.empty()) {
        Throw<ValueError>("TensorBoardWriter: the statistics of '{}' have no histogram", tag);
    }
    WriteValue(step, ProtobufMessage().Bytes(1, tag).Message(5, EncodeHistogram(statistics)).bytes());
}

void TensorBoardWriter::AddText(const std::string &tag, const std::string &text, int64_t step) {
    constexpr int kString = 7;  // DataType.DT_STRING
    const auto metadata = ProtobufMessage().Message(1, ProtobufMessage().Bytes(1, "text"));
    const auto shape = ProtobufMessage().Message(2, ProtobufMessage().Varint(1, 1));
    const auto tensor = ProtobufMessage().Varint(1, kString).Message(2, shape).Bytes(8, text);
    WriteValue(step, ProtobufMessage().Bytes(1, tag).Message(8, tensor).Message(9, metadata).bytes());
}

void TensorBoardWriter::AddImage(const std::string &tag, const Tensor &image, int64_t step) {
    if (image.NumDims() != 3 || image.NumElements() == 0 ||
        (image.Dim(0) != 1 && image.Dim(0) != 3 && image.Dim(0) != 4)) {
        Throw<ShapeError>("TensorBoardWriter: expected an image (1, 3 or 4 channels, height, width), got {} as '{}'",
                          FormatDims(image.Dims()), tag);
    }
    if (image.Dtype() != DataType::kUINT8 && !IsFloatingPoint(image.Dtype())) {
        Throw<DtypeError>("TensorBoardWriter: expected an image of uint8 or floating-point, got {} as '{}'",
                          ToString(image.Dtype()), tag);
    }
    const auto channels = static_cast<int>(image.Dim(0));
    const auto height = static_cast<uint32_t>(image.Dim(1));
    const auto width = static_cast<uint32_t>(image.Dim(2));
    auto message = ProtobufMessage().Varint(1, height).Varint(2, width).Varint(3, static_cast<uint64_t>(channels));
    message.Bytes(4, EncodePng(Pixels(image), width, height, channels));
    WriteValue(step, ProtobufMessage().Bytes(1, tag).Message(4, message).bytes());
}

void TensorBoardWriter::WriteValue(int64_t step, const std::string &value) {
    const auto summary = ProtobufMessage().Bytes(1, value);
    const std::lock_guard<std::mutex> lock(mutex_);
    WriteRecord(
        ProtobufMessage().Double(1, clock_()).Varint(2, static_cast<uint64_t>(step)).Message(5, summary).bytes());
}

void TensorBoardWriter::WriteRecord(const std::string &event) {
    const uint64_t size = event.size();
    const uint32_t size_crc = MaskedCrc(BytesOf(size));
    const uint32_t crc = MaskedCrc(event);
    const std::string record = std::string(BytesOf(size)).append(BytesOf(size_crc)).append(event).append(BytesOf(crc));
    if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() || std::fflush(file_) != 0) {
        Throw<IoError>("TensorBoardWriter: can't write to '{}': {}", path_, std::strerror(errno));
    }
}

}  // namespace infini_train::utils
