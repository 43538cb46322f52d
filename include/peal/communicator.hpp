// The communicator: ranks that call collectives together. Names and arguments follow MPI and NCCL.
//
//   peal::Communicator world = peal::init();                   // under `peal run`, torchrun or mpirun; alone: one rank
//   world.all_reduce(gradient, gradient, count, peal::DataType::f32, peal::ReduceOp::avg);
//
// All functions throw peal::Error. Counts are elements. Buffers belong to the caller; a blocking call is done with them when it
// returns, an asynchronous one when its Work is done. `send == receive` (or NCCL's in-place offsets) selects the in-place form.
// One communicator is used by one thread at a time; different communicators may be used by different threads at the same time.
// After a fault every rank gets the same error from this call or the next, and the communicator can only be destroyed. The buffers of the
// call that failed hold anything; if a rank was stopped, it may still write to them when it goes on, so keep them until then.
#pragma once

#include <peal/error.hpp>
#include <peal/export.hpp>
#include <peal/types.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace peal {

class Communicator;

/// Names one job of ranks that are not started by a launcher: threads of one process, or processes that got the bytes some other way.
/// Holds a secret; do not print it.
struct UniqueId {
  std::uint8_t bytes[128];
};

/// A fresh id, made by one rank and handed to the others of the same host.
PEAL_API UniqueId make_unique_id();

struct Options {
  /// Longest time that a rank may wait in one call for others that have not called. Zero: the setting PEAL_TIMEOUT (30 minutes).
  std::chrono::milliseconds timeout{0};
  /// Results bitwise equal whatever the protocol, transport, chunking and placement (canonical order of summation).
  bool deterministic = false;
  /// Sums of f16, bf16 and f8 travel and are held as f32 until they are finished, and are rounded once, whatever the algorithm: more
  /// bytes while they are partial, two or four times as many. All ranks alike. The setting PEAL_PARTIAL_SUMS=f32 does the same.
  bool f32_partial_sums = false;
  /// "auto", "shm" or "tcp"; empty: the setting PEAL_TRANSPORT.
  std::string transport;
  /// Forces an algorithm or protocol by name; one that cannot serve a call is an error, never replaced silently.
  /// Empty: the settings PEAL_ALGORITHM and PEAL_PROTOCOL, or free choice.
  std::string algorithm;
  std::string protocol;
  /// A thread of Peal's own makes progress on asynchronous work. Without it progress happens in test() and wait(), of the work of the
  /// communicator that they are called on only: two ranks that wait on different communicators in different orders then wait for ever.
  bool progress_thread = true;
};

/// Joins the job that the environment describes.
PEAL_API Communicator init(const Options& options = {});
/// Joins as `rank` of `ranks` the job that `id` names.
PEAL_API Communicator init(const UniqueId& id, int rank, int ranks, const Options& options = {});

/// Asynchronous work in flight. Destroying an unfinished Work waits for it.
class PEAL_API Work {
 public:
  Work();
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();
  /// Blocks until done; throws what went wrong.
  void wait();
  /// True once done (throws what went wrong); makes progress when there is no progress thread.
  bool test();
  /// Waits at most `limit`; false when it is still going on (which is no fault).
  bool wait_for(std::chrono::nanoseconds limit);

  struct Impl;
  explicit Work(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

/// Memory of every rank that all ranks of the communicator can read and write (ranks of one host): the primitives put, get, signal
/// and wait that collectives are made of.
/// put, get: copies; visible to the owner once a signal that was sent after them has been waited for.
class PEAL_API Window {
 public:
  Window();
  Window(Window&&) noexcept;
  Window& operator=(Window&&) noexcept;
  ~Window();
  /// This rank's own part.
  std::byte* data();
  std::size_t bytes() const;
  /// Direct pointer to the part of `rank`: loads and stores are allowed, ordered by signals.
  std::byte* data(int rank);
  void put(int rank, std::size_t offset, const void* source, std::size_t bytes);
  void get(int rank, std::size_t offset, void* destination, std::size_t bytes);
  /// Adds one to signal number `index` (0 to 63) that `rank` holds for this rank. Everything put before is visible to who waited.
  void signal(int rank, int index = 0);
  /// Blocks until `from` has signalled `index` `count` more times than earlier waits took; throws on fault or timeout.
  void wait(int from, int index = 0, std::uint64_t count = 1);

  struct Impl;
  explicit Window(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

/// Memory that collectives move without copying it first: the ranks of this host map it, so they read messages from it where they lie, and
/// may write results into a receive buffer in it. What is in neither buffer of a call is not touched.
/// Use it like any other memory, as send buffer or receive buffer or both, whole or in part, on any communicator: one whose ranks on this
/// host did not all take part in its allocation copies as ever. Who sends from it ends a call of 4 KiB and more only when its peers have
/// read what they need; point to point beyond what slots hold (1 MiB up to 8 ranks, then less).
/// Owned by this object, and returned to the system when it is destroyed: by any thread, in any order on the ranks, also after its
/// communicator, but not during a call that uses it.
class PEAL_API Memory {
 public:
  /// Empty: no data, 0 bytes.
  Memory();
  Memory(Memory&&) noexcept;
  Memory& operator=(Memory&&) noexcept;
  ~Memory();
  /// Begins at a page; zeroed at first. Null when empty.
  std::byte* data() const;
  std::size_t bytes() const;

  struct Impl;
  explicit Memory(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

/// Collective over `communicator`, and one of its calls: ordered with the others and made by its thread. `bytes` of Memory for this rank;
/// other ranks may ask for more or less, or 0. Throws Error(system) on every rank when one of them cannot have what it asks for,
/// Error(invalid_argument) on every rank for sizes beyond 64 TiB, and what a collective throws.
///   peal::Memory gradient = peal::allocate(world, count * sizeof(float));
PEAL_API Memory allocate(Communicator& communicator, std::size_t bytes);

/// Copies `bytes` within this process, past the caches where that pays (large blocks). The areas must not overlap.
PEAL_API void copy(void* destination, const void* source, std::size_t bytes);

/// Who a rank is.
struct RankInfo {
  int rank = 0;
  int pid = 0;
  std::string host;
};

class PEAL_API Communicator {
 public:
  Communicator();
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  /// Leaves: waits for own asynchronous work, never for other ranks.
  ~Communicator();

  int rank() const;
  int size() const;
  /// Ranks on this rank's host, and this rank's position among them.
  int local_size() const;
  int local_rank() const;
  std::vector<RankInfo> ranks() const;

  // Collectives. `count` is the number of elements of: all_reduce, broadcast, reduce: the whole buffer; all_gather, gather: what each
  // rank contributes; reduce_scatter, scatter: what each rank gets; all_to_all: what goes to each rank.
  // `premul` is this rank's factor for ReduceOp::premul_sum.
  void all_reduce(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op = ReduceOp::sum, double premul = 1.0);
  void reduce_scatter(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op = ReduceOp::sum, double premul = 1.0);
  void all_gather(const void* send, void* receive, std::size_t count, DataType type);
  void broadcast(const void* send, void* receive, std::size_t count, DataType type, int root);
  void reduce(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, int root, double premul = 1.0);
  void gather(const void* send, void* receive, std::size_t count, DataType type, int root);
  void scatter(const void* send, void* receive, std::size_t count, DataType type, int root);
  void all_to_all(const void* send, void* receive, std::size_t count, DataType type);
  void barrier();

  // Varying counts. One entry a rank, in elements; displacements from the start of the buffer.
  // all_gather_v and reduce_scatter_v take the same counts on all ranks; rank r contributes or gets counts[r].
  void all_gather_v(const void* send, void* receive, std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displacements,
                    DataType type);
  void reduce_scatter_v(const void* send, void* receive, std::span<const std::uint64_t> counts, DataType type, ReduceOp op = ReduceOp::sum,
                        double premul = 1.0);
  void all_to_all_v(const void* send, std::span<const std::uint64_t> send_counts, std::span<const std::uint64_t> send_displacements,
                    void* receive, std::span<const std::uint64_t> receive_counts, std::span<const std::uint64_t> receive_displacements,
                    DataType type);
  // As in MPI, counts and displacements of all ranks matter at the root only (elsewhere they may be empty); every rank gives its own
  // count, the root too: the one that it has in the list (else Error(invalid_argument)). The root works in place where its own part lies at
  // its displacement already. A rank whose count is not what the root says of it: Error(mismatch) on every rank.
  void gather_v(const void* send, std::size_t send_count, void* receive, std::span<const std::uint64_t> receive_counts,
                std::span<const std::uint64_t> receive_displacements, DataType type, int root);
  void scatter_v(const void* send, std::span<const std::uint64_t> send_counts, std::span<const std::uint64_t> send_displacements,
                 void* receive, std::size_t receive_count, DataType type, int root);

  // Point to point. Messages between two ranks go in order. A send may return before its receiver has called, if the message fits what lies
  // between them (shared memory: up to 1 MiB; a socket's buffers), else when it has been received: do not count on either. Inside
  // group_start() .. group_end() sends and receives are gathered and go at the same time, so that exchanges cannot deadlock.
  void send(const void* data, std::size_t count, DataType type, int to);
  void receive(void* data, std::size_t count, DataType type, int from);
  void group_start();
  void group_end();

  // Asynchronous forms; they start in the order of the calls.
  Work all_reduce_async(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op = ReduceOp::sum,
                        double premul = 1.0);
  Work reduce_scatter_async(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op = ReduceOp::sum,
                            double premul = 1.0);
  Work all_gather_async(const void* send, void* receive, std::size_t count, DataType type);
  Work broadcast_async(const void* send, void* receive, std::size_t count, DataType type, int root);
  Work reduce_async(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, int root, double premul = 1.0);
  Work gather_async(const void* send, void* receive, std::size_t count, DataType type, int root);
  Work scatter_async(const void* send, void* receive, std::size_t count, DataType type, int root);
  Work all_to_all_async(const void* send, void* receive, std::size_t count, DataType type);
  Work barrier_async();
  // Counts and displacements are copied: their arrays need not outlive the call.
  Work all_gather_v_async(const void* send, void* receive, std::span<const std::uint64_t> counts,
                          std::span<const std::uint64_t> displacements, DataType type);
  Work reduce_scatter_v_async(const void* send, void* receive, std::span<const std::uint64_t> counts, DataType type,
                              ReduceOp op = ReduceOp::sum, double premul = 1.0);
  Work all_to_all_v_async(const void* send, std::span<const std::uint64_t> send_counts, std::span<const std::uint64_t> send_displacements,
                          void* receive, std::span<const std::uint64_t> receive_counts,
                          std::span<const std::uint64_t> receive_displacements, DataType type);
  Work gather_v_async(const void* send, std::size_t send_count, void* receive, std::span<const std::uint64_t> receive_counts,
                      std::span<const std::uint64_t> receive_displacements, DataType type, int root);
  Work scatter_v_async(const void* send, std::span<const std::uint64_t> send_counts, std::span<const std::uint64_t> send_displacements,
                       void* receive, std::size_t receive_count, DataType type, int root);
  /// The group gathered since group_start(), asynchronously.
  Work group_end_async();

  /// New communicators of the ranks that give the same color, ordered by key, then rank. Color < 0: none (an empty communicator).
  /// Collective over this communicator.
  Communicator split(int color, int key = 0);
  /// Memory of `bytes` a rank that all ranks can reach. Collective. Ranks on several hosts: Error(unsupported).
  Window create_window(std::size_t bytes);

  /// Ends every call of every rank on this communicator with ErrorCode::aborted. Never blocks; any thread may call it.
  void abort(const std::string& why = {});

  /// True unless default constructed, moved from, or split off with a negative color.
  explicit operator bool() const;

  struct Impl;
  /// For Peal's own front ends.
  Impl& impl() const { return *impl_; }
  explicit Communicator(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace peal
