#include "infini_train/include/autograd/dropout.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/core/philox.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"

namespace infini_train {
namespace {

using autograd::Dropout;
using test::ExpectDerivatives;
using test::ExpectError;
using test::NoiseTensor;

constexpr DataType kFloatingTypes[] = {DataType::kBFLOAT16, DataType::kFLOAT16, DataType::kFLOAT32, DataType::kFLOAT64};

TEST(Dropout, KeepsWhatThePhiloxNumbersSay) {
    // More than a chunk, and not a multiple of a block.
    constexpr int64_t kCount = 5003;
    for (const double p : {0.0625, 0.5, 0.9}) {
        Generator generator(1234567890123456789U, 0xABCDEF0123456789U);
        generator.SetState({1234567890123456789U, 0xABCDEF0123456789U, 0xFFFFFFFFU - 100});  // carries on the way
        const auto state = generator.GetState();
        const auto x = NoiseTensor({kCount}, 3);
        const auto y = Dropout::Run(x, p, true, &generator)->ToVector<double>();
        const auto values = x->ToVector<double>();
        int64_t kept = 0;
        for (int64_t i = 0; i < kCount; ++i) {
            const auto block = PhiloxBlock(state.seed, state.stream, state.offset + static_cast<uint64_t>(i / 4));
            const bool keeps = block[static_cast<size_t>(i % 4)] >= p * 0x1p32;
            kept += keeps ? 1 : 0;
            ASSERT_EQ(y[static_cast<size_t>(i)], keeps ? values[static_cast<size_t>(i)] * (1 / (1 - p)) : 0.0) << i;
        }
        EXPECT_EQ(generator.GetState().offset, state.offset + (kCount + 3) / 4);
        // Five standard deviations.
        EXPECT_NEAR(static_cast<double>(kept), kCount * (1 - p), 5 * std::sqrt(kCount * p * (1 - p)));
    }
}

TEST(Dropout, DoesNotDependOnThreads) {
    const int threads = GetNumThreads();
    std::vector<float> first;
    for (const int used : {1, 2, 7}) {
        SetNumThreads(used);
        Generator generator(5);
        const auto y = Dropout::Run(Tensor::Ones({3, 33333}), 0.3, true, &generator)->ToVector<float>();
        if (first.empty()) {
            first = y;
        }
        EXPECT_EQ(y, first);
    }
    SetNumThreads(threads);
}

TEST(Dropout, DrawsAnew) {
    ManualSeed(7);
    const auto x = Tensor::Ones({100});
    const auto a = Dropout::Run(x)->ToVector<float>();
    const auto b = Dropout::Run(x)->ToVector<float>();
    EXPECT_NE(a, b);
    ManualSeed(7);
    EXPECT_EQ(Dropout::Run(x)->ToVector<float>(), a);
}

TEST(Dropout, TakesEveryFloatingType) {
    for (const DataType dtype : kFloatingTypes) {
        Generator generator(1);
        const auto x = Tensor::Ones({1000}, dtype)->RequiresGrad();
        const auto y = Dropout::Run(x, 0.5, true, &generator);
        EXPECT_EQ(y->Dtype(), dtype);
        Generator same(1);
        const auto expected = Dropout::Run(Tensor::Ones({1000}), 0.5, true, &same)->ToVector<float>();
        EXPECT_EQ(y->ToVector<float>(), expected);
        y->Backward(Tensor::Ones({1000}, dtype));
        EXPECT_EQ(x->grad()->Dtype(), dtype);
        EXPECT_EQ(x->grad()->ToVector<float>(), expected);
    }
    ExpectError<DtypeError>([] { Dropout::Run(Tensor::Ones({2}, DataType::kINT32)); },
                            "Dropout: expected a floating-point tensor, got int32");
}

TEST(Dropout, DropsEverythingOrNothing) {
    const auto x = Tensor::Full({10}, INFINITY)->RequiresGrad();
    const auto y = Dropout::Run(x, 1.0);
    EXPECT_EQ(y->ToVector<float>(), std::vector<float>(10, 0.0F));
    y->Sum()->Backward();
    EXPECT_EQ(x->grad()->ToVector<float>(), std::vector<float>(10, 0.0F));

    EXPECT_EQ(Dropout::Run(x, 0.0), x);
    EXPECT_EQ(Dropout::Run(x, 0.5, false), x);
    const auto before = DefaultGenerator().GetState();
    const auto z = std::make_shared<Dropout>(0.5, false)->Apply({x})[0];
    EXPECT_EQ(z->ToVector<float>(), x->ToVector<float>());
    EXPECT_EQ(DefaultGenerator().GetState(), before);
    x->ZeroGrad();
    z->Sum()->Backward();
    EXPECT_EQ(x->grad()->ToVector<float>(), std::vector<float>(10, 1.0F));
}

TEST(Dropout, TakesAnyStridesAndNoElements) {
    Generator generator(3);
    const auto x = NoiseTensor({40, 50}, 1);
    const auto y = Dropout::Run(x->Transpose(0, 1), 0.5, true, &generator)->ToVector<double>();
    Generator same(3);
    EXPECT_EQ(y, Dropout::Run(x->Transpose(0, 1)->Contiguous(), 0.5, true, &same)->ToVector<double>());
    EXPECT_EQ(Dropout::Run(Tensor::Ones({0, 2}))->Dims(), (std::vector<int64_t>{0, 2}));
}

TEST(Dropout, SaysWhatIsWrong) {
    ExpectError<ValueError>([] { std::make_shared<Dropout>(1.5); },
                            "Dropout: expected a probability in [0, 1], got 1.5");
    ExpectError<ValueError>([] { std::make_shared<Dropout>(-0.25); },
                            "Dropout: expected a probability in [0, 1], got -0.25");
    EXPECT_THROW(std::make_shared<Dropout>(std::numeric_limits<double>::quiet_NaN()), ValueError);
    ExpectError<ValueError>([] { Dropout::Run(Tensor::Ones({1}), 2.0, false); },
                            "Dropout: expected a probability in [0, 1], got 2");
    ExpectError<ValueError>([] { Dropout::Run(nullptr); }, "Dropout: input 0 is null");
}

TEST(Dropout, HasDerivatives) {
    const auto dropped = [](const TensorList &in) {
        Generator generator(9);
        return Dropout::Run(in[0], 0.4, true, &generator);
    };
    ExpectDerivatives(dropped, {NoiseTensor({3, 5}, 1)});
    ExpectDerivatives([](const TensorList &in) { return Dropout::Run(in[0], 1.0); }, {NoiseTensor({3}, 1)});
}

}  // namespace
}  // namespace infini_train
