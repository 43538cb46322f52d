// What another collective library (NCCL, RCCL, HCCL) would do on a cluster: algorithm, protocol, channels, and how long it takes.
//
// The choice of NCCL and RCCL is NCCL's own: its planning model with its published figures (data/constants/libraries/nccl.yaml). The time
// of what was chosen:
//
//   T = launch + F + N + X + 2 sqrt((F + r N) X)
//
// F hops inside nodes and N hops between them, each with a latency by protocol and kind of wire; X = bytes / rate, where the rate is the
// narrowest of what the algorithm crosses (rings of the machine, NVSwitches that compute, NICs). The last term is what the best number of
// pieces k costs a pipeline of h hops of latency l: (h + k)(l + X / k) is least at k = sqrt(h X / l). Rings stop there once a step of
// every buffer is under way: what follows comes behind the last piece, so the X of that term is at most a round of such steps. r is the
// share of the network's latency that pieces pay, none of it with LL128, which in rings pays a part of F alone. Where NICs do not reach the
// GPUs' memory, what brings the bytes to them may be narrower than they are: PCIe, on which both directions meet, or processes that copy.
// Old versions' channels each fetch their work, which is part of the launch; and a process that drives several GPUs may need longer to hand
// a call over than they need for it, which then is T.
// HCCL goes by its own rules (data/constants/libraries/hccl.yaml): steps that each have all of their bytes, first inside a server and then
// between servers, or both at once; X is the sum of what each takes, and there is no last term.
// Constants belong to a generation of GPU, wire or network (fitted.yaml names the machines that they rest on), never to a case. `peal` has
// no formula: its schedules are simulated (sim/simulate.hpp).
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <memory>
#include <optional>
#include <peal/types.hpp>
#include <string>
#include <topology/cluster.hpp>
#include <topology/library_constants.hpp>
#include <vector>

namespace peal::sim {

enum class Library : std::uint8_t { peal, nccl, rccl, hccl };
std::string_view name_of(Library library) noexcept;  ///< "nccl"; empty past the last
Result<Library> parse_library(std::string_view text);
/// The library that a GPU's maker has for it: RCCL for AMD's, HCCL for Ascend's, else NCCL.
Library library_of(const topology::Cluster& cluster, int device);

/// What a run forces or differs in, as its environment says.
struct LibraryOptions {
  Library whose = Library::nccl;
  bool one_process = false;              ///< one process drives all GPUs of a node
  std::optional<std::string> algorithm;  ///< NCCL_ALGO: "Ring", "Tree", "NVLS", "NVLSTree", "PAT", "CollNetDirect", "CollNetChain";
                                         ///< HCCL_ALGO between servers: "Ring", "H-D_R", "NHR", "Pipeline", "Pairwise"
  std::optional<std::string> protocol;   ///< NCCL_PROTO: "LL", "LL128", "Simple"
  bool is_nvls_off = false;              ///< NCCL_NVLS_ENABLE=0
  bool is_p2p_off = false;               ///< NCCL_P2P_DISABLE=1: GPUs of a node meet in host memory
  bool is_gdr_off = false;               ///< no GPUDirect RDMA (NCCL_NET_GDR_LEVEL=0): NICs meet GPUs in host memory
  int calls = 20;                        ///< in a row, of which nccl-tests takes the mean; those to or from a root overlap
  int channels = 0;                      ///< NCCL_MAX_NCHANNELS; 0: what the library takes
  std::string version;                   ///< of the library, "2.26.2"; empty: a recent one
  bool was_published = false;            ///< a run of the past: without a version it is taken for one of its GPUs' time
  std::string network;                   ///< "tcp", "infiniband", ...: over the NICs in this way; empty: as they are
};

/// Type, place and root matter to Peal's schedules only.
struct LibraryCall {
  Collective collective = Collective::all_reduce;
  Bytes bytes;  ///< as nccl-tests counts them
  DataType type = DataType::f32;
  bool is_in_place = false;
  int root = 0;
};

struct LibraryAnswer {
  Nanoseconds time;
  std::string algorithm, protocol;     ///< in the library's own names: "Ring", "LL128"
  int channels = 0;                    ///< 0: the library has none
  std::vector<std::string> constants;  ///< names of the fitted ones that the time rests on; of Peal's schedules "SCOPE/PROTOCOL"
};

/// How a chosen call crosses the machine, with the fitted constants left open, so that a fit can turn them.
struct LibraryWay {
  struct Limit {
    double GBps = 0;  ///< of the algorithm's bytes
    int share = -1;   ///< constant that scales it; -1: none
  };
  std::string algorithm;
  std::string_view protocol;
  double bytes = 0;
  int launch = -1;
  int launch_more = -1;  ///< a process drives several GPUs
  double more = 0;       ///< how many
  double fixed_us = 0;   ///< what NCCL's plan has for it and nothing was fitted to
  int hop = -1;
  double hops = 0;              ///< inside nodes
  int hop_short = -1;           ///< share of such a hop that each halving of a short message saves
  double halvings = 0;          ///< of 512 bytes down to the message; at most those down to 16
  bool is_handed_over = false;  ///< what hops take is the process's time, too
  int post = -1;                ///< what a pair of ranks on two nodes costs a host
  double posts = 0;
  int work = -1;        ///< what a channel costs a call that reads its work in host memory; -1: nothing
  double channels = 0;  ///< that the call takes
  int net_hop = -1;
  int net_more = -1;         ///< what the network's latency is above InfiniBand's
  double net_crossings = 1;  ///< times that a hop pays it: Simple looks whether the bytes have come
  double net_hops = 0;
  double net_later = 0;     ///< hops of `net_hops` that take `net_later_us` in place of the constant: all but the first of each pass
  double net_later_us = 0;  ///< of NCCL's plan
  int stored = -1;          ///< what a unit of `held` costs each hop between nodes
  double held = 0;          ///< what such a hop has all of before it goes on: KiB of a channel, with Simple us of a node's NICs
  int net_ramp = -1;
  int pieces = -1;            ///< us that pieces pay beside what follows from the hops
  int ramp = -1;              ///< share of the hops inside nodes that pieces pay; -1: all of it
  bool flows_inside = false;  ///< pieces pay nothing of those: bytes are passed on there as they come
  double round_bytes = 0;     ///< most that pieces are cut from: what all buffers hold at once; 0: no such limit
  int two = -1;               ///< share of its rate that a ring of two GPUs reaches
  std::vector<Limit> limits;  ///< the narrowest counts; none: nothing is moved between GPUs
  bool limits_add = false;    ///< one after the other: all of them count
};

/// What `way` takes with these constants.
Nanoseconds time_of(const LibraryWay& way, const topology::LibraryConstants& constants);
/// Numbers of the constants that decide it: of the limits only the narrowest.
std::vector<int> constants_of(const LibraryWay& way, const topology::LibraryConstants& constants);

/// Movable, thread-safe for reading.
class LibraryModel {
 public:
  /// Ranks on GPUs, equally many a node. Fails with a sentence for what the library cannot do there (NVLS on A100, an unknown algorithm,
  /// another maker's GPUs).
  static Result<LibraryModel> make(const topology::Cluster& cluster, std::vector<int> device_of_rank, LibraryOptions options,
                                   topology::LibraryConstants constants);
  static Result<LibraryModel> make(const topology::Cluster& cluster, std::vector<int> device_of_rank, LibraryOptions options);
  LibraryModel(LibraryModel&&) noexcept;
  LibraryModel& operator=(LibraryModel&&) noexcept;
  ~LibraryModel();

  /// Not of `peal`.
  Result<LibraryWay> way(const LibraryCall& call) const;
  Result<LibraryAnswer> predict(const LibraryCall& call) const;
  /// What the prediction is worth: "±12 %, from 14 cases inside a node; none with net.share.iwarp".
  std::string evidence(const LibraryCall& call, const LibraryAnswer& answer) const;
  int ranks() const;
  const topology::LibraryConstants& constants() const;

 private:
  struct State;
  explicit LibraryModel(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace peal::sim
