#include "infini_train/include/utils/precision_check_config.h"

#include <charconv>
#include <string_view>

#include "infini_train/include/common/error.h"
#include "infini_train/include/utils/precision_check_context.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {
namespace {

[[noreturn]] void Fail(std::string_view key, std::string_view value, const char *expected) {
    Throw<ValueError>("PrecisionCheckConfig: {}: expected {}, got '{}'", key, expected, value);
}

bool ReadBool(std::string_view key, std::string_view value) {
    if (value == "true" || value == "1") {
        return true;
    }
    if (value != "false" && value != "0") {
        Fail(key, value, "true or false");
    }
    return false;
}

template <typename T>
T ReadNumber(std::string_view key, std::string_view value, const char *expected) {
    T number{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || !(number >= 0)) {
        Fail(key, value, expected);
    }
    return number;
}

void Set(PrecisionCheckConfig &config, std::string_view key, std::string_view value) {
    constexpr const char *kPositive = "a number of at least 0";
    if (key == "level") {
        const int level = ReadNumber<int>(key, value, "0 (off), 1 (modules) or 2 (functions)");
        if (level > 2) {
            Fail(key, value, "0 (off), 1 (modules) or 2 (functions)");
        }
        config.level = static_cast<PrecisionCheckLevel>(level);
    } else if (key == "path" || key == "output_path") {
        config.output_path = value;
    } else if (key == "format") {
        if (value != "simple" && value != "md5") {
            Fail(key, value, "simple or md5");
        }
        config.format = value;
    } else if (key == "save_tensors") {
        config.save_tensors = ReadBool(key, value);
    } else if (key == "md5_tolerance") {
        config.md5_tolerance = ReadNumber<double>(key, value, kPositive);
    } else if (key == "backward") {
        config.backward = ReadBool(key, value);
    } else if (key == "parameters") {
        config.parameters = ReadBool(key, value);
    } else if (key == "max_steps") {
        config.max_steps = ReadNumber<int64_t>(key, value, kPositive);
    } else if (key == "baseline") {
        config.baseline = value;
    } else if (key == "stop") {
        config.stop = ReadBool(key, value);
    } else if (key == "rtol" || key == "atol") {
        Tolerance tolerance = config.tolerance.value_or(Tolerance{});
        (key == "rtol" ? tolerance.rtol : tolerance.atol) = ReadNumber<double>(key, value, kPositive);
        config.tolerance = tolerance;
    } else {
        Throw<ValueError>(
            "PrecisionCheckConfig: unknown key '{}'; there are: level, path, format, save_tensors, md5_tolerance, "
            "backward, parameters, max_steps, baseline, stop, rtol, atol",
            key);
    }
}

}  // namespace

PrecisionCheckConfig PrecisionCheckConfig::Parse(const std::string &text) {
    PrecisionCheckConfig config;
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::string_view item = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), item.size() + 1));
        const size_t equals = item.find('=');
        if (equals == std::string_view::npos) {
            Throw<ValueError>("PrecisionCheckConfig: expected key=value, got '{}'", item);
        }
        Set(config, item.substr(0, equals), item.substr(equals + 1));
    }
    return config;
}

PrecisionCheckContext &PrecisionCheckContext::Instance() {
    static thread_local PrecisionCheckContext context;
    return context;
}

std::string PrecisionCheckContext::GetKey() const {
    return fmt::format("[GAS-{}] [L-{}]{}{}", gas_, layer_, layer_name_.empty() ? "" : " ", layer_name_);
}

}  // namespace infini_train::utils
