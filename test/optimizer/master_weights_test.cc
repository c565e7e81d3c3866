// The float32 masters of 16-bit parameters.

#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

namespace infini_train {
namespace {

using optimizers::Adam;
using optimizers::AdamW;
using optimizers::SGD;

TensorPtr Parameter(const std::vector<double> &values, DataType dtype) {
    return Tensor::FromVector(values)->To(dtype)->RequiresGrad();
}

TensorPtr Master(const Optimizer &optimizer) {
    return optimizer.StateDict().at("0.master_param");
}

std::vector<float> Rounded(const TensorPtr &master, DataType dtype) {
    return master->To(dtype)->ToVector<float>();
}

// Gradients that bfloat16 has; PyTorch 2.15's optimizers from the same ones, in float64.
TEST(MasterWeights, MatchPyTorch) {
    const auto grad_at = [](int step) {
        std::vector<double> grad;
        for (int i = 0; i < 4; ++i) {
            grad.push_back(0.1 * (i + 1) * (step * i % 2 == 0 ? 1 : -1) + 0.05 * step);
        }
        return Tensor::FromVector(grad)->To(DataType::kBFLOAT16);
    };
    const struct {
        OptimizerCreator create;
        std::vector<double> expected;
    } cases[] = {
        {SGD::Create(0.1, 0.9, 0.3, 0.05),
         {0.7800241537772116, -2.019716225125331, 0.09918161540539984, 2.663482549700677}},
        {SGD::Create(0.1, 0.9, 0, 0.05, true),
         {0.6200110157836093, -2.0299536044333935, -0.16826738055683788, 2.4950558055411705}},
        {Adam::Create(0.01, 0.8, 0.95, 1e-3, 0.1),
         {0.949621490995435, -1.9829698255246186, 0.4496021749813162, 2.9616677244963845}},
        {AdamW::Create(0.01, 0.8, 0.95, 1e-3, 0.1),
         {0.9451227798200957, -2.0155815604582616, 0.4471930562375975, 2.9650286656136142}},
    };
    for (const auto &[create, expected] : cases) {
        const TensorPtr param = Parameter({1.0, -2.0, 0.5, 3.0}, DataType::kBFLOAT16);
        const auto optimizer = create({param});
        for (int step = 0; step < 5; ++step) {
            param->set_grad(grad_at(step));
            optimizer->Step();
        }
        const TensorPtr master = Master(*optimizer);
        ASSERT_EQ(master->Dtype(), DataType::kFLOAT32);
        for (size_t i = 0; i < 4; ++i) {
            EXPECT_NEAR(master->ToVector<double>()[i], expected[i], 2e-6) << optimizer->type() << " " << i;
        }
        EXPECT_EQ(param->ToVector<float>(), Rounded(master, DataType::kBFLOAT16));
    }
}

// 1 - 100 * 2^-12 by hand; each step alone is less than what bfloat16 or float16 see of 1.
TEST(MasterWeights, SmallStepsAddUp) {
    for (const DataType dtype : {DataType::kBFLOAT16, DataType::kFLOAT16}) {
        const TensorPtr param = Parameter({1.0}, dtype);
        const TensorPtr without = Parameter({1.0}, dtype);
        SGD optimizer(TensorList{param}, 0x1p-12);
        SGD plain(TensorList{without}, 0x1p-13);
        EXPECT_TRUE(plain.master_weights());
        plain.set_master_weights(false);
        for (int step = 0; step < 100; ++step) {
            param->set_grad(Parameter({1.0}, dtype)->Detach());
            without->set_grad(Parameter({1.0}, dtype)->Detach());
            optimizer.Step();
            plain.Step();
        }
        EXPECT_EQ(Master(optimizer)->Item<double>(), 1 - 100 * 0x1p-12);
        EXPECT_EQ(param->Item<float>(), Rounded(Master(optimizer), dtype)[0]);
        EXPECT_EQ(without->Item<double>(), 1.0);
        EXPECT_EQ(plain.StateDict().count("0.master_param"), 0U);
    }
}

// Longer than a kernel's chunk, of every length of rest, beside float32 parameters with the same gradients: bit for
// bit.
TEST(MasterWeights, AreWhatFloat32ParametersWouldBe) {
    const std::vector<OptimizerCreator> creators = {SGD::Create(0.1), SGD::Create(0.1, 0.9, 0.1, 0.01),
                                                    AdamW::Create(0.01), Adam::Create(0.01, 0.9, 0.99, 1e-6, 0.1)};
    for (const DataType dtype : {DataType::kBFLOAT16, DataType::kFLOAT16}) {
        for (const OptimizerCreator &create : creators) {
            for (const int64_t size : {1, 7, 1024, 5003}) {
                Generator generator(static_cast<uint64_t>(size));
                const TensorPtr half = Tensor::Randn({size}, dtype, {}, &generator)->RequiresGrad();
                const TensorPtr full = half->Detach()->To(DataType::kFLOAT32)->RequiresGrad();
                const auto of_half = create({half});
                const auto of_full = create({full});
                for (int step = 0; step < 4; ++step) {
                    half->set_grad(Tensor::Randn({size}, dtype, {}, &generator));
                    full->set_grad(half->grad()->To(DataType::kFLOAT32));
                    of_half->Step();
                    of_full->Step();
                }
                EXPECT_EQ(Master(*of_half)->ToVector<float>(), full->ToVector<float>()) << of_half->type() << size;
                EXPECT_EQ(half->ToVector<float>(), Rounded(full, dtype)) << of_half->type() << size;
            }
        }
    }
}

TEST(MasterWeights, AnElementChangedElsewhereGoesOnFromItsValue) {
    const TensorPtr param = Parameter({1.0, 1.0}, DataType::kBFLOAT16);
    SGD optimizer(TensorList{param}, 0x1p-12);
    const auto step = [&] {
        param->set_grad(Parameter({1.0, 1.0}, DataType::kBFLOAT16)->Detach());
        optimizer.Step();
    };
    step();
    param->SetData(Parameter({1.0, 4.0}, DataType::kBFLOAT16)->Detach());
    step();
    EXPECT_EQ(Master(optimizer)->ToVector<double>(), (std::vector<double>{1 - 2 * 0x1p-12, 4 - 0x1p-12}));
    // A parameter of another type has no master; of 16 bits again, it begins one.
    param->SetData(param->Detach()->To(DataType::kFLOAT32));
    param->set_grad(Parameter({0.0, 0.0}, DataType::kFLOAT32)->Detach());
    optimizer.Step();
    EXPECT_EQ(optimizer.StateDict().count("0.master_param"), 0U);
}

TEST(MasterWeights, StridesDoNotMatter) {
    const TensorPtr base = Parameter({1, 2, 3, 4, 5, 6}, DataType::kBFLOAT16)->Detach()->View({2, 3});
    const TensorPtr param = base->Transpose(0, 1)->RequiresGrad();
    SGD optimizer(TensorList{param}, 0x1p-12);
    for (int i = 0; i < 2; ++i) {
        param->set_grad(Tensor::Ones({3, 2}, DataType::kBFLOAT16));
        optimizer.Step();
    }
    const std::vector<double> start = {1, 4, 2, 5, 3, 6};
    for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(Master(optimizer)->ToVector<double>()[i], start[i] - 2 * 0x1p-12);
    }
}

// The state goes on without the master that another optimizer had, or with one that its parameter has no use for.
TEST(MasterWeights, StatesOfOtherTypesLoad) {
    const auto stepped = [](DataType dtype) {
        const TensorPtr param = Parameter({1.0}, dtype);
        auto optimizer = std::make_shared<SGD>(TensorList{param}, 0x1p-12, 0.5);
        param->set_grad(Parameter({1.0}, dtype)->Detach());
        optimizer->Step();
        return optimizer;
    };
    const auto half = stepped(DataType::kBFLOAT16);
    const auto full = stepped(DataType::kFLOAT32);
    const auto state_of_full = full->StateDict();
    full->LoadStateDict(half->StateDict());
    EXPECT_EQ(full->StateDict().count("0.master_param"), 0U);
    half->LoadStateDict(state_of_full);
    EXPECT_EQ(half->StateDict().count("0.master_param"), 0U);
    half->params()[0]->set_grad(Parameter({1.0}, DataType::kBFLOAT16)->Detach());
    half->Step();
    // From 1, its value in 16 bits, by the momentum's 1.5.
    EXPECT_EQ(Master(*half)->Item<double>(), 1 - 1.5 * 0x1p-12);
}

}  // namespace
}  // namespace infini_train
