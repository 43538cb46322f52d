// What a collective library would do on a cluster: algorithm, protocol, channels and time of a call.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <peal/types.hpp>
#include <string>
#include <topology/cluster.hpp>
#include <vector>

namespace peal::sim {

enum class Library : std::uint8_t { peal, nccl, rccl, hccl };

/// What a run forces or differs in, as its environment says.
struct LibraryOptions {
  Library library = Library::nccl;
  bool one_process = false;              ///< one process drives all GPUs of a node
  std::optional<std::string> algorithm;  ///< NCCL_ALGO: "Ring", "Tree", "NVLS", ...
  std::optional<std::string> protocol;   ///< NCCL_PROTO
  bool is_nvls_off = false;              ///< NCCL_NVLS_ENABLE=0
  bool is_p2p_off = false;               ///< NCCL_P2P_DISABLE=1
  int channels = 0;                      ///< NCCL_MIN_NCHANNELS/MAX; 0: what the library takes
};

struct LibraryCall {
  Collective collective;
  Bytes bytes;  ///< as nccl-tests has them
  DataType type = DataType::f32;
  bool is_in_place = false;
  int root = 0;
};

struct LibraryAnswer {
  Nanoseconds time;
  std::string algorithm, protocol;  ///< in the library's own names: "Ring", "LL128"
  int channels = 0;
  std::vector<std::string> constants;  ///< names of the constants that the answer rests on
};

class LibraryModel {
 public:
  static Result<LibraryModel> make(const topology::Cluster& cluster, std::vector<int> device_of_rank, LibraryOptions options);
  Result<LibraryAnswer> predict(const LibraryCall& call) const;
  ~LibraryModel();
  LibraryModel(LibraryModel&&) noexcept;
  LibraryModel& operator=(LibraryModel&&) noexcept;

 private:
  struct State;
  explicit LibraryModel(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace peal::sim
