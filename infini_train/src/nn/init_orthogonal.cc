#include <Eigen/Dense>

#include "infini_train/include/nn/init.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/init_values.h"

namespace infini_train::nn::init {

TensorPtr Orthogonal(const TensorPtr &tensor, double gain, Generator *generator) {
    CheckRandom("Orthogonal", tensor);
    if (tensor->NumDims() < 2) {
        Throw<ShapeError>("Orthogonal: expected at least two dimensions (rows, ...), got {}",
                          FormatDims(tensor->Dims()));
    }
    if (tensor->NumElements() == 0) {
        return tensor;
    }
    using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const int64_t rows = tensor->Dim(0), columns = tensor->NumElements() / rows;
    const auto values = NewNormals({rows, columns}, generator);
    Eigen::Map<Matrix> matrix(values->Data<double>(), rows, columns);

    // A tall matrix has orthonormal columns in its Q; a wide one gets its rows from its transpose.
    const bool wide = rows < columns;
    const Eigen::MatrixXd tall = wide ? Eigen::MatrixXd(matrix.transpose()) : Eigen::MatrixXd(matrix);
    const Eigen::HouseholderQR<Eigen::MatrixXd> decomposition(tall);
    Eigen::MatrixXd q = decomposition.householderQ() * Eigen::MatrixXd::Identity(tall.rows(), tall.cols());
    for (Eigen::Index i = 0; i < q.cols(); ++i) {
        q.col(i) *= decomposition.matrixQR()(i, i) < 0 ? -gain : gain;
    }
    if (wide) {
        matrix = q.transpose();
    } else {
        matrix = q;
    }
    return Overwrite(tensor, values);
}

}  // namespace infini_train::nn::init
