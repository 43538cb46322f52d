// Words shared by everybody who calls Peal: element types, reduction operators, collectives.
#pragma once

#include <cstddef>
#include <cstdint>

namespace peal {

/// Element type of a buffer. Integers wrap modulo 2^bits; `boolean` is one byte, 0 or 1.
/// f16, bf16 and the two f8 of the OCP 8-bit Floating Point Specification (revision 1.0) round to nearest even and are summed in fp32.
/// f8_e5m2 overflows to infinity; f8_e4m3fn has none, and what rounds beyond its largest number, 448, becomes NaN (nothing saturates).
enum class DataType : std::uint8_t { f64, f32, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64, boolean, f8_e4m3fn, f8_e5m2 };
inline constexpr int kDataTypeCount = 15;

/// Reduction operator. `avg` divides the sum by the number of ranks (integers truncate toward zero);
/// `premul_sum` multiplies each rank's contribution by that rank's own scalar before summing;
/// `band`, `bor`, `bxor` take integers and booleans only.
enum class ReduceOp : std::uint8_t { sum, prod, min, max, avg, premul_sum, band, bor, bxor };
inline constexpr int kReduceOpCount = 9;

/// The collectives, named as MPI and NCCL name them. `send_recv` stands for point-to-point groups.
enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  barrier,
  send_recv,
  all_gather_v,
  reduce_scatter_v,
  all_to_all_v,
  gather_v,
  scatter_v,
};
inline constexpr int kCollectiveCount = 15;

/// Bytes of one element of `type`.
constexpr std::size_t size_of(DataType type) noexcept {
  switch (type) {
    case DataType::f64:
    case DataType::i64:
    case DataType::u64: return 8;
    case DataType::f32:
    case DataType::i32:
    case DataType::u32: return 4;
    case DataType::f16:
    case DataType::bf16:
    case DataType::i16:
    case DataType::u16: return 2;
    case DataType::i8:
    case DataType::u8:
    case DataType::boolean:
    case DataType::f8_e4m3fn:
    case DataType::f8_e5m2: return 1;
  }
  return 0;
}

}  // namespace peal
