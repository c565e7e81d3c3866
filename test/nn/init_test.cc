#include "infini_train/include/nn/init.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/nn/modules/convolution.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/normalization.h"
#include "infini_train/include/nn/modules/sparse.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Thrown;
namespace init = nn::init;
using Dims = std::vector<int64_t>;

struct Moments {
    double mean = 0, std = 0, min = 0, max = 0;
};

Moments MomentsOf(const TensorPtr &tensor) {
    const auto values = tensor->ToVector<double>();
    Moments m{0, 0, *std::min_element(values.begin(), values.end()), *std::max_element(values.begin(), values.end())};
    for (const double value : values) {
        m.mean += value / static_cast<double>(values.size());
    }
    for (const double value : values) {
        m.std += (value - m.mean) * (value - m.mean) / static_cast<double>(values.size());
    }
    m.std = std::sqrt(m.std);
    return m;
}

// 40,000 elements: the mean is within 5 std / 200 and the standard deviation within 3 % of what they should be.
void ExpectUniform(const TensorPtr &tensor, double bound) {
    const Moments m = MomentsOf(tensor);
    EXPECT_NEAR(m.mean, 0, 0.02 * bound);
    EXPECT_NEAR(m.std, bound / std::sqrt(3.0), 0.03 * bound / std::sqrt(3.0));
    EXPECT_GE(m.min, -bound * 1.000001);
    EXPECT_LE(m.max, bound * 1.000001);
    EXPECT_LT(m.min, -0.99 * bound);
    EXPECT_GT(m.max, 0.99 * bound);
}

void ExpectNormal(const TensorPtr &tensor, double mean, double std) {
    const Moments m = MomentsOf(tensor);
    EXPECT_NEAR(m.mean, mean, 0.025 * std);
    EXPECT_NEAR(m.std, std, 0.03 * std);
    EXPECT_GT(m.max, mean + 3 * std);
    EXPECT_LT(m.min, mean - 3 * std);
}

class InitTest : public testing::Test {
protected:
    void SetUp() override { ManualSeed(11); }
    const TensorPtr weight_ = Tensor::Empty({100, 400});  // fan_in 400, fan_out 100
};

TEST_F(InitTest, CountsFans) {
    EXPECT_EQ(init::CalculateFans(weight_).fan_in, 400);
    EXPECT_EQ(init::CalculateFans(weight_).fan_out, 100);
    const auto fans = init::CalculateFans(Tensor::Empty({8, 3, 5, 7}));
    EXPECT_EQ(fans.fan_in, 3 * 35);
    EXPECT_EQ(fans.fan_out, 8 * 35);
    EXPECT_EQ(Thrown<ShapeError>([] { init::CalculateFans(Tensor::Empty({3})); }),
              "CalculateFans: expected at least two dimensions (out, in, ...), got (3,)");
    EXPECT_EQ(Thrown<ShapeError>([] { init::KaimingUniform(Tensor::Empty({3})); }),
              "KaimingUniform: expected at least two dimensions (out, in, ...), got (3,)");
}

// PyTorch's calculate_gain.
TEST_F(InitTest, KnowsGains) {
    using enum init::NonLinearityType;
    EXPECT_EQ(init::CalculateGain(kLinear), 1);
    EXPECT_EQ(init::CalculateGain(kConv2d), 1);
    EXPECT_EQ(init::CalculateGain(kSigmoid), 1);
    EXPECT_NEAR(init::CalculateGain(kTanh), 1.6666666666666667, 1e-15);
    EXPECT_NEAR(init::CalculateGain(kRelu), 1.4142135623730951, 1e-15);
    EXPECT_NEAR(init::CalculateGain(kLeakyRelu), 1.4141428569978354, 1e-15);
    EXPECT_NEAR(init::CalculateGain(kSelu), 0.75, 1e-15);
}

TEST_F(InitTest, FillsAsTheFormulasSay) {
    ExpectUniform(init::Uniform(weight_, -3, 3), 3);
    ExpectNormal(init::Normal(weight_, 2, 0.5), 2, 0.5);
    ExpectUniform(init::XavierUniform(weight_, 2), 2 * std::sqrt(6.0 / 500));
    ExpectNormal(init::XavierNormal(weight_), 0, std::sqrt(2.0 / 500));
    ExpectUniform(init::KaimingUniform(weight_, std::sqrt(5.0)), 1 / std::sqrt(400.0));
    ExpectUniform(init::KaimingUniform(weight_, 0, init::KaimingMode::kFanOut, init::NonLinearityType::kRelu),
                  std::sqrt(6.0 / 100));
    ExpectNormal(init::KaimingNormal(weight_), 0, std::sqrt(2.0 / 400));
    ExpectNormal(init::KaimingNormal(weight_, 0, init::KaimingMode::kFanOut, init::NonLinearityType::kLinear), 0, 0.1);
    EXPECT_EQ(init::Ones(weight_)->ToVector<float>(), test::Floats(40000, 1));
    EXPECT_EQ(init::Zeros(weight_)->ToVector<float>(), test::Floats(40000, 0));
    EXPECT_EQ(init::Constant(weight_, 2.5)->ToVector<float>(), test::Floats(40000, 2.5F));
}

double NormalCdf(double z) {
    return std::erfc(-z / std::sqrt(2.0)) / 2;
}

// The share of values below a quantile of the cut distribution is what it should be.
void ExpectTruncated(double mean, double std, double low, double high) {
    const auto values =
        init::TruncNormal(Tensor::Empty({40000}, DataType::kFLOAT64), mean, std, low, high)->ToVector<double>();
    const auto cdf = [&](double x) { return NormalCdf((x - mean) / std); };
    const double below = low > mean ? NormalCdf((mean - low) / std) : cdf(low);  // complements keep the upper tail
    const double above = low > mean ? NormalCdf((mean - high) / std) : cdf(high);
    for (const double part : {0.1, 0.25, 0.5, 0.75, 0.9}) {
        const double x = low + (high - low) * part;
        const double at = low > mean ? NormalCdf((mean - x) / std) : cdf(x);
        const double share = (at - below) / (above - below);
        const auto count = std::count_if(values.begin(), values.end(), [&](double value) { return value < x; });
        EXPECT_NEAR(static_cast<double>(count) / 40000, share, 0.0126) << low << " " << high << " " << part;
    }
    for (const double value : values) {
        ASSERT_TRUE(value >= low && value <= high) << value;
    }
}

TEST_F(InitTest, CutsOffANormalDistribution) {
    ExpectTruncated(0, 1, -2, 2);
    ExpectTruncated(1, 0.5, 0, 1.25);
    ExpectTruncated(0, 1, 3, 5);
    ExpectTruncated(0, 1, -12, -10);
    ExpectTruncated(0, 1, 10, 12);
    EXPECT_EQ(Thrown<ValueError>([&] { init::TruncNormal(weight_, 0, 1, 2, 2); }),
              "TruncNormal: expected low < high and std > 0, got low 2, high 2 and std 1");
}

void ExpectOrthogonal(const Dims &dims, double gain) {
    const auto tensor = init::Orthogonal(Tensor::Empty(dims), gain);
    const auto values = tensor->ToVector<double>();
    const int64_t rows = dims[0], columns = tensor->NumElements() / rows;
    using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Eigen::Map<const Matrix> m(values.data(), rows, columns);
    const Eigen::MatrixXd product =
        rows <= columns ? Eigen::MatrixXd(m * m.transpose()) : Eigen::MatrixXd(m.transpose() * m);
    const auto identity = Eigen::MatrixXd::Identity(product.rows(), product.cols());
    EXPECT_LT((product - gain * gain * identity).cwiseAbs().maxCoeff(), 1e-6);
}

TEST_F(InitTest, MakesOrthogonalMatrices) {
    ExpectOrthogonal({4, 4}, 1);
    ExpectOrthogonal({5, 30}, 2);
    ExpectOrthogonal({30, 5}, 0.5);
    ExpectOrthogonal({6, 2, 3, 3}, 1);
    ExpectOrthogonal({1, 1}, 1);
    EXPECT_EQ(Thrown<ShapeError>([] { init::Orthogonal(Tensor::Empty({3})); }),
              "Orthogonal: expected at least two dimensions (rows, ...), got (3,)");
    // Of all rotations and reflections of the plane none is preferred: both signs of the determinant are as likely.
    int positive = 0;
    for (int i = 0; i < 200; ++i) {
        const auto m = init::Orthogonal(Tensor::Empty({2, 2}))->ToVector<double>();
        positive += m[0] * m[3] - m[1] * m[2] > 0;
    }
    EXPECT_NEAR(positive, 100, 36);
}

TEST_F(InitTest, EveryFunctionTakesAGeneratorAndGivesItsTensor) {
    const std::vector<std::function<TensorPtr(const TensorPtr &, Generator *)>> functions = {
        [](const TensorPtr &t, Generator *g) { return init::Uniform(t, 0, 1, g); },
        [](const TensorPtr &t, Generator *g) { return init::Normal(t, 0, 1, g); },
        [](const TensorPtr &t, Generator *g) { return init::TruncNormal(t, 0, 1, -2, 2, g); },
        [](const TensorPtr &t, Generator *g) { return init::XavierUniform(t, 1, g); },
        [](const TensorPtr &t, Generator *g) { return init::XavierNormal(t, 1, g); },
        [](const TensorPtr &t, Generator *g) {
            return init::KaimingUniform(t, 0, init::KaimingMode::kFanIn, init::NonLinearityType::kRelu, g);
        },
        [](const TensorPtr &t, Generator *g) {
            return init::KaimingNormal(t, 0, init::KaimingMode::kFanIn, init::NonLinearityType::kRelu, g);
        },
        [](const TensorPtr &t, Generator *g) { return init::Orthogonal(t, 1, g); },
    };
    for (size_t i = 0; i < functions.size(); ++i) {
        const auto tensor = Tensor::Zeros({6, 5})->RequiresGrad();  // a leaf that requires a gradient is fine
        Generator generator(5), other(6);
        const auto before = DefaultGenerator().GetState();
        EXPECT_EQ(functions[i](tensor, &generator), tensor) << i;
        EXPECT_EQ(DefaultGenerator().GetState(), before) << i;
        EXPECT_TRUE(tensor->is_leaf() && tensor->requires_grad()) << i;
        const auto first = tensor->ToVector<float>();
        EXPECT_NE(functions[i](tensor, &generator)->ToVector<float>(), first) << i;
        generator.SetSeed(5);
        EXPECT_EQ(functions[i](tensor, &generator)->ToVector<float>(), first) << i;
        EXPECT_NE(functions[i](tensor, &other)->ToVector<float>(), first) << i;
        EXPECT_NE(Thrown<ValueError>([&] { functions[i](nullptr, nullptr); }), "") << i;
        EXPECT_NE(Thrown<DtypeError>([&] { functions[i](Tensor::Zeros({2, 2}, DataType::kINT64), nullptr); }), "") << i;
        EXPECT_EQ(functions[i](Tensor::Zeros({0, 4}), nullptr)->NumElements(), 0) << i;
        EXPECT_NE(MomentsOf(functions[i](Tensor::Zeros({6, 5}, DataType::kBFLOAT16), nullptr)).std, 0) << i;
    }
}

TEST_F(InitTest, FillsViews) {
    const auto whole = Tensor::Zeros({4, 6});
    init::Orthogonal(whole->Transpose(0, 1)->Slice(0, 0, 4));
    const auto values = whole->ToVector<float>();
    double squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        squares += values[i] * values[i];
        EXPECT_EQ(values[i] == 0, i % 6 >= 4) << i;
    }
    EXPECT_NEAR(squares, 4, 1e-5);
}

TEST_F(InitTest, LayersStartAsPyTorchs) {
    const auto linear = std::make_shared<nn::Linear>(100, 400);
    ExpectUniform(linear->parameter("weight"), 0.1);
    ExpectUniform(std::make_shared<nn::Linear>(4, 40000)->parameter("bias"), 0.5);
    const auto conv = std::make_shared<nn::Conv2d>(8, 2000, nn::Size2d(2, 5), 1, 0, 1, /*groups=*/4);
    EXPECT_EQ(conv->parameter("weight")->Dims(), (Dims{2000, 2, 2, 5}));
    ExpectUniform(conv->parameter("weight"), 1 / std::sqrt(20.0));
    EXPECT_LE(MomentsOf(conv->parameter("bias")).max, 1 / std::sqrt(20.0));
    ExpectNormal(std::make_shared<nn::Embedding>(200, 200)->parameter("weight"), 0, 1);
    const auto norm = std::make_shared<nn::LayerNorm>(Dims{2, 3});
    EXPECT_EQ(norm->parameter("weight")->ToVector<float>(), test::Floats(6, 1));
    EXPECT_EQ(norm->parameter("bias")->ToVector<float>(), test::Floats(6, 0));
}

TEST_F(InitTest, EqualLayersDifferAndTheSeedDecides) {
    const auto weights = [](int threads) {
        const int before = GetNumThreads();
        SetNumThreads(threads);
        ManualSeed(7);
        std::vector<float> all;
        for (int i = 0; i < 2; ++i) {
            const nn::Linear layer(300, 200);
            const auto values = layer.parameter("weight")->ToVector<float>();
            all.insert(all.end(), values.begin(), values.end());
        }
        SetNumThreads(before);
        return all;
    };
    const auto one = weights(1);
    EXPECT_EQ(one, weights(1));
    EXPECT_EQ(one, weights(2));
    EXPECT_NE(std::vector<float>(one.begin(), one.begin() + 60000), std::vector<float>(one.begin() + 60000, one.end()));
    ManualSeed(8);
    EXPECT_NE(nn::Linear(300, 200).parameter("weight")->ToVector<float>(),
              std::vector<float>(one.begin(), one.begin() + 60000));
}

}  // namespace
}  // namespace infini_train
