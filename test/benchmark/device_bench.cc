// Operators on a GPU against what the GPU can do, for scripts/gpu_check.sh.
//
//   device_bench [DEVICE]
//
// Prints a line each, separated by tabs: operator, milliseconds, GB/s or TFLOP/s, and that as a share of the device's
// own: of its copies for operators that memory limits, of its largest product for products. DEVICE is cuda; cpu shows
// that the program works.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/event.h"
#include "infini_train/include/core/matmul_precision.h"
#include "infini_train/include/core/stream.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

namespace infini_train {
namespace {

constexpr int kWarmUp = 3, kRounds = 20;

// The median time of a call.
double Milliseconds(Device device, const std::function<void()> &body) {
    std::vector<double> times;
    for (int i = 0; i < kWarmUp + kRounds; ++i) {
        Event start(/*timing=*/true), end(/*timing=*/true);
        start.Record(device);
        body();
        end.Record(device);
        const double elapsed = start.ElapsedMilliseconds(end);
        if (i >= kWarmUp) {
            times.push_back(elapsed);
        }
    }
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    return times[kRounds / 2];
}

class Bench {
public:
    Bench(Device device, int64_t rows) : device_(device), rows_(rows) {}

    void Run() {
        for (const DataType dtype : {DataType::kFLOAT32, DataType::kBFLOAT16}) {
            Memory(dtype);
        }
        Products();
    }

private:
    TensorPtr Random(const std::vector<int64_t> &dims, DataType dtype) const {
        return Tensor::Randn(dims, dtype, device_);
    }

    void PrintMemory(const std::string &name, double bytes, const std::function<void()> &body) {
        const double milliseconds = Milliseconds(device_, body);
        const double rate = bytes / milliseconds * 1e-6;
        copy_rate_ = copy_rate_ == 0 ? rate : copy_rate_;
        std::printf("%s\t%.4f\t%.0f GB/s\t%.2f\n", name.c_str(), milliseconds, rate, rate / copy_rate_);
    }

    void Memory(DataType dtype) {
        constexpr int64_t kWidth = 768, kClasses = 50257;
        const std::string type = dtype == DataType::kFLOAT32 ? " float32" : " bfloat16";
        const auto size = static_cast<double>(SizeOf(dtype));
        const auto x = Random({rows_, kWidth}, dtype), y = Random({rows_, kWidth}, dtype);
        const auto weight = Random({kWidth}, dtype), bias = Random({kWidth}, dtype);
        const double elements = static_cast<double>(rows_ * kWidth) * size;
        copy_rate_ = 0;
        const autograd::NoGradGuard no_grad;
        PrintMemory("copy" + type, 2 * elements, [&] { y->CopyFrom(*x); });
        PrintMemory("add" + type, 3 * elements, [&] { x->Add(y); });
        PrintMemory("gelu" + type, 2 * elements, [&] { x->Gelu(true); });
        PrintMemory("sum of rows" + type, elements, [&] { x->Sum(1); });
        PrintMemory("sum of columns" + type, elements, [&] { x->Sum(0); });
        PrintMemory("softmax" + type, 2 * elements, [&] { x->Softmax(-1); });
        PrintMemory("layer norm" + type, 2 * elements, [&] { nn::function::LayerNorm(x, {kWidth}, weight, bias); });
        PrintMemory("transpose" + type, 2 * elements, [&] { x->Transpose(0, 1)->Contiguous(); });
        const int64_t rows = std::max<int64_t>(rows_ / 8, 1);
        const auto logits = Random({rows, kClasses}, dtype);
        const auto labels = Tensor::RandInt(0, kClasses, {rows}, DataType::kINT64, device_);
        PrintMemory("cross-entropy" + type, static_cast<double>(rows * kClasses) * size,
                    [&] { nn::function::CrossEntropy(logits, labels); });
    }

    void Products() {
        const int64_t n = std::min<int64_t>(rows_, 8192);
        const struct {
            const char *name;
            DataType dtype;
            MatmulPrecision precision;
        } kinds[] = {{"product float32", DataType::kFLOAT32, MatmulPrecision::kHighest},
                     {"product TF32", DataType::kFLOAT32, MatmulPrecision::kHigh},
                     {"product bfloat16", DataType::kBFLOAT16, MatmulPrecision::kHighest}};
        const autograd::NoGradGuard no_grad;
        for (const auto &kind : kinds) {
            SetFloat32MatmulPrecision(kind.precision);
            const auto a = Random({n, n}, kind.dtype), b = Random({n, n}, kind.dtype);
            const double milliseconds = Milliseconds(device_, [&] { a->Matmul(b); });
            const double peak =
                2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / milliseconds * 1e-9;
            std::printf("%s %ld\t%.4f\t%.1f TFLOP/s\t1.00\n", kind.name, static_cast<long>(n), milliseconds, peak);
            const int64_t length = 1024, heads = 12, batch = std::max<int64_t>(n / length, 1);
            const auto q = Random({batch, heads, length, 64}, kind.dtype);
            const double attention =
                Milliseconds(device_, [&] { nn::function::ScaledDotProductAttention(q, q, q, {.is_causal = true}); });
            const double flops = 2.0 * static_cast<double>(batch * heads * length * length) * 64;
            const double rate = flops / attention * 1e-9;
            std::printf("causal attention, for %s\t%.4f\t%.1f TFLOP/s\t%.2f\n", kind.name, attention, rate,
                        rate / peak);
        }
        SetFloat32MatmulPrecision(MatmulPrecision::kHighest);
    }

    const Device device_;
    const int64_t rows_;
    double copy_rate_ = 0;
};

}  // namespace
}  // namespace infini_train

int main(int argc, char **argv) {
    try {
        const auto device = infini_train::Device::FromString(argc > 1 ? argv[1] : "cuda");
        infini_train::Bench(device, device.IsCPU() ? 1024 : 32768).Run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "device_bench: %s\n", error.what());
        return 1;
    }
    return 0;
}
