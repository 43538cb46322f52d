// Which kernel file answers for a type.
#include <base/names.hpp>
#include <reduce/combine.hpp>

#include "kernels.hpp"

namespace peal::reduce {

Kernels kernels_for(DataType type, ReduceOp op, Stores stores, Reads reads) noexcept {
  if (!is_supported(type, op)) return {};
  switch (type) {
    case DataType::f64:
    case DataType::f32: return kernels_for_wide(type, op, stores, reads);
    case DataType::f16:
    case DataType::bf16:
    case DataType::f8_e4m3fn:
    case DataType::f8_e5m2: return kernels_for_narrow(type, op, stores, reads);
    case DataType::boolean: return kernels_for_boolean(op, stores, reads);
    default: return kernels_for_integer(type, op, stores, reads);
  }
}

}  // namespace peal::reduce
