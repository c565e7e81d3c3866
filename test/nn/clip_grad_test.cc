#include "infini_train/include/nn/utils/clip_grad.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/io/safetensors.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using nn::utils::ClipGradNorm;
using nn::utils::ClipGradValue;
using test::Floats;
using test::Leaf;
using test::Of;
using test::Thrown;
using test::Values;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TensorPtr WithGrad(const TensorPtr &grad) {
    const TensorPtr param = Tensor::ZerosLike(grad)->RequiresGrad();
    param->set_grad(grad);
    return param;
}

class ClipGradFixtures : public ::testing::Test {
protected:
    TensorList Params(DataType dtype = DataType::kFLOAT64) const {
        return {WithGrad(At("grad0")->Clone()->To(dtype)), WithGrad(At("grad1")->Clone()->To(dtype))};
    }
    TensorPtr At(const std::string &name) const { return fixtures_.at("clip/" + name); }
    void ExpectGrads(const TensorList &params, const std::string &name, double tolerance) const {
        for (size_t i = 0; i < params.size(); ++i) {
            const auto expected = At(name + "/grad" + std::to_string(i))->ToVector<double>();
            const auto values = params[i]->grad()->ToVector<double>();
            for (size_t j = 0; j < expected.size(); ++j) {
                EXPECT_NEAR(values[j], expected[j], tolerance) << name;
            }
        }
    }

    const std::map<std::string, TensorPtr> fixtures_ = io::LoadSafetensors("test/fixtures/training.safetensors");
};

TEST_F(ClipGradFixtures, NormsArePyTorchs) {
    const struct {
        const char *name;
        double norm_type, max_norm;
    } cases[] = {{"norm1", 1, 0.75}, {"norm2", 2, 0.75}, {"norminf", kInf, 0.75}, {"loose", 2, 1000}};
    for (const auto &c : cases) {
        const double expected = At(std::string(c.name) + "/norm")->Item<double>();
        TensorList params = Params();
        const uint32_t version = params[0]->grad()->Version();
        EXPECT_NEAR(ClipGradNorm(params, c.max_norm, c.norm_type), expected, 1e-14 * expected) << c.name;
        ExpectGrads(params, c.name, 1e-15);
        EXPECT_EQ(params[0]->grad()->Version() > version, c.max_norm < 1) << c.name;
        params = Params(DataType::kFLOAT32);
        EXPECT_NEAR(ClipGradNorm(params, c.max_norm, c.norm_type), expected, 1e-6 * expected) << c.name;
        ExpectGrads(params, c.name, 1e-6);
        params = Params(DataType::kBFLOAT16);
        EXPECT_NEAR(ClipGradNorm(params, c.max_norm, c.norm_type), expected, 1e-2 * expected) << c.name;
        ExpectGrads(params, c.name, 2e-2);
    }
}

TEST_F(ClipGradFixtures, ValuesArePyTorchs) {
    const TensorList params = Params();
    ClipGradValue(params, 0.4);
    ExpectGrads(params, "value", 0);
}

TEST(ClipGrad, StridedGradientsAndMissingOnes) {
    const TensorPtr strided = Of({3, 9, 4, 9}, {2, 2})->Transpose(0, 1);
    const TensorList params = {WithGrad(strided), Leaf({1, 2}), WithGrad(Tensor::Empty({0}))};
    EXPECT_NEAR(ClipGradNorm({params[0]}, kInf), std::sqrt(9 + 81 + 16 + 81), 1e-12);  // only measures
    EXPECT_EQ(Values(strided), Floats({3, 4, 9, 9}));
    ClipGradValue(params, 3.5);
    EXPECT_EQ(Values(params[0]->grad()), Floats({3, 3.5, 3.5, 3.5}));
    EXPECT_EQ(ClipGradNorm({}, 1), 0);
    EXPECT_EQ(ClipGradNorm({params[1]}, 1), 0);
    ClipGradNorm(params, 0);
    EXPECT_EQ(Values(params[0]->grad()), Floats({0, 0, 0, 0}));
}

TEST(ClipGrad, SumsDontLoseSmallNumbers) {
    // In float32 a sum of 2^24 ones wouldn't grow any more.
    const auto ones = WithGrad(Tensor::Ones({(1 << 24) + 5}));
    EXPECT_EQ(ClipGradNorm({ones}, kInf, 1), (1 << 24) + 5);
    const auto large = WithGrad(Of({3e38F, 3e38F}));
    EXPECT_NEAR(ClipGradNorm({large}, kInf), 3e38F * std::sqrt(2.0), 1e25);
}

TEST(ClipGrad, TheSameForAnyNumberOfThreads) {
    const int threads = GetNumThreads();
    for (const double norm_type : {1.0, 2.0, kInf}) {
        double expected = 0;
        std::vector<float> clipped;
        for (const int count : {1, 2, 3, 7}) {
            SetNumThreads(count);
            Generator generator(3);
            TensorList params;
            for (const int64_t size : {100003, 1, 65536, 17}) {
                params.push_back(WithGrad(Tensor::Randn({size}, DataType::kFLOAT32, {}, &generator)));
            }
            const double norm = ClipGradNorm(params, 0.5, norm_type);
            const auto values = Values(params[0]->grad());
            if (count == 1) {
                expected = norm;
                clipped = values;
            }
            EXPECT_EQ(norm, expected) << norm_type << " with " << count;
            EXPECT_EQ(values, clipped) << norm_type << " with " << count;
        }
    }
    SetNumThreads(threads);
}

TEST(ClipGrad, NormsThatArentFinite) {
    const auto make = [](float odd) { return WithGrad(Of({1, odd, 2})); };
    for (const double norm_type : {1.0, 2.0, kInf}) {
        const auto nan = make(NAN);
        EXPECT_TRUE(std::isnan(ClipGradNorm({nan}, kInf, norm_type)));
        EXPECT_EQ(Values(nan->grad())[2], 2);
        EXPECT_NE(Thrown<ValueError>([&] { ClipGradNorm({nan}, 1, norm_type, true); }), "");
        EXPECT_EQ(Values(nan->grad())[2], 2);
        EXPECT_TRUE(std::isnan(ClipGradNorm({nan}, 1, norm_type)));
        EXPECT_TRUE(std::isnan(Values(nan->grad())[2]));
        const auto inf = make(-INFINITY);
        EXPECT_EQ(Thrown<ValueError>([&] { ClipGradNorm({inf}, 1, norm_type, true); }),
                  "ClipGradNorm: expected a finite norm of the gradients, got inf");
        EXPECT_EQ(ClipGradNorm({inf}, 1, norm_type), kInf);
        EXPECT_EQ(Values(inf->grad())[2], 0);
    }
    const auto odd = WithGrad(Of({NAN, 5, -INFINITY}));
    ClipGradValue({odd}, 2);
    EXPECT_TRUE(std::isnan(Values(odd->grad())[0]));
    EXPECT_EQ(Values(odd->grad())[1], 2);
    EXPECT_EQ(Values(odd->grad())[2], -2);
}

TEST(ClipGrad, RejectsWhatMakesNoSense) {
    const auto w = WithGrad(Of({1}));
    EXPECT_EQ(Thrown<ValueError>([&] { ClipGradNorm({w}, -1); }), "ClipGradNorm: expected max_norm >= 0, got -1");
    EXPECT_NE(Thrown<ValueError>([&] { ClipGradNorm({w}, kNaN); }), "");
    EXPECT_EQ(Thrown<ValueError>([&] { ClipGradNorm({w}, 1, 3); }),
              "ClipGradNorm: expected a norm of type 1, 2 or inf, got 3");
    EXPECT_EQ(Thrown<ValueError>([&] { ClipGradNorm({w, nullptr}, 1); }), "ClipGradNorm: parameter 1 is null");
    EXPECT_EQ(Thrown<ValueError>([&] {
                  ClipGradValue({w, w}, 1);
              }),
              "ClipGradValue: the gradient of parameter 1 is there twice");
    EXPECT_NE(Thrown<ValueError>([&] { ClipGradValue({w}, -1); }), "");
    EXPECT_EQ(Values(w->grad()), Floats({1}));
}

}  // namespace
}  // namespace infini_train
