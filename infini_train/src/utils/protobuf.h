#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace infini_train::utils {

static_assert(std::endian::native == std::endian::little, "big-endian machines would need to swap bytes here");

/// The fields of one message in Protocol Buffers' wire format (https://protobuf.dev/programming-guides/encoding/).
class ProtobufMessage {
public:
    ProtobufMessage &Varint(int field, uint64_t value) {
        Key(field, 0);
        AppendVarint(value);
        return *this;
    }
    ProtobufMessage &Double(int field, double value) {
        Key(field, 1);
        Append(value);
        return *this;
    }
    ProtobufMessage &Float(int field, float value) {
        Key(field, 5);
        Append(value);
        return *this;
    }
    /// Strings, bytes, and messages within this one.
    ProtobufMessage &Bytes(int field, std::string_view value) {
        Key(field, 2);
        AppendVarint(value.size());
        bytes_ += value;
        return *this;
    }
    ProtobufMessage &Message(int field, const ProtobufMessage &value) { return Bytes(field, value.bytes()); }
    ProtobufMessage &PackedDoubles(int field, const std::vector<double> &values) {
        return Bytes(field, {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(double)});
    }

    const std::string &bytes() const { return bytes_; }

private:
    void Key(int field, unsigned wire_type) { AppendVarint((static_cast<uint64_t>(field) << 3) | wire_type); }
    void AppendVarint(uint64_t value) {
        for (; value >= 0x80; value >>= 7) {
            bytes_ += static_cast<char>((value & 0x7F) | 0x80);
        }
        bytes_ += static_cast<char>(value);
    }
    template <typename T>
    void Append(T value) {
        bytes_.append(reinterpret_cast<const char *>(&value), sizeof(value));
    }

    std::string bytes_;
};

}  // namespace infini_train::utils
