// The step of a least-squares fit: A x = b, where A is symmetric and positive definite.
#pragma once

#include <vector>

namespace peal::tuning {

/// Solves A x = b by Cholesky's method; `a` is A, row by row (its upper half is not read), `b` becomes x. False, and b spoilt, where A is
/// not positive definite.
bool solve_positive_definite(std::vector<double> a, std::vector<double>& b);

}  // namespace peal::tuning
