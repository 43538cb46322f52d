#include <base/names.hpp>
#include <comm/call.hpp>
#include <numeric>

namespace peal::comm {

namespace {

constexpr std::uint64_t kMostCallBytes = std::uint64_t{1} << 62;

Status check_counts(std::string_view name, std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displs, int ranks,
                    std::size_t element) {
  if (counts.size() != static_cast<std::size_t>(ranks) || displs.size() != counts.size())
    return fail(ErrorCode::invalid_argument, "{} has {} counts and {} displacements for {} ranks; give one of each a rank", name,
                counts.size(), displs.size(), ranks);
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > kMostCallBytes / element || displs[i] > kMostCallBytes / element - counts[i])
      return fail(ErrorCode::invalid_argument, "{} of rank {} ({} elements at {}) goes beyond the address space", name, i, counts[i],
                  displs[i]);
  return {};
}

std::uint64_t blocks_of(Collective c, int ranks) { return has_blocks(c) && !varies(c) ? static_cast<std::uint64_t>(ranks) : 1; }

// Which of its buffers this rank really uses.
bool uses_send(const Call& call, int rank) {
  return !(call.collective == Collective::broadcast || call.collective == Collective::scatter ||
           call.collective == Collective::scatter_v) ||
         rank == call.root;
}
bool uses_receive(const Call& call, int rank) {
  return !(call.collective == Collective::reduce || call.collective == Collective::gather || call.collective == Collective::gather_v) ||
         rank == call.root;
}

std::uint64_t total(std::span<const std::uint64_t> counts) { return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); }

// gather_v and scatter_v: the root has the counts of all, everybody its own.
Status check_rooted_varied(const Call& call, int rank, int ranks, std::size_t element) {
  const std::string_view name = name_of(call.collective);
  const bool gathers = call.collective == Collective::gather_v;
  if (call.count > kMostCallBytes / element)
    return fail(ErrorCode::invalid_argument, "{}: {} elements of {} go beyond the address space", name, call.count, name_of(call.type));
  std::uint64_t all = 0;
  if (rank == call.root) {
    const std::span<const std::uint64_t> counts = gathers ? call.receive_counts : call.send_counts;
    PEAL_TRY(check_counts(gathers ? "the receive side" : "the send side", counts, gathers ? call.receive_displs : call.send_displs, ranks,
                          element));
    if (counts[static_cast<std::size_t>(rank)] != call.count)
      return fail(ErrorCode::invalid_argument, "{}: the root's own count is {}, but its list of counts says {} for it; give the same twice",
                  name, call.count, counts[static_cast<std::size_t>(rank)]);
    all = total(counts);
  }
  const std::uint64_t sent = gathers ? call.count : all;
  const std::uint64_t received = gathers ? all : call.count;
  if (call.send == nullptr && sent > 0)
    return fail(ErrorCode::invalid_argument, "{}: the send buffer is null but {} elements are asked for", name, sent);
  if (call.receive == nullptr && received > 0)
    return fail(ErrorCode::invalid_argument, "{}: the receive buffer is null but {} elements are asked for", name, received);
  return {};
}

Status check_varied(const Call& call, int rank, int ranks, std::size_t element) {
  if (has_root(call.collective)) return check_rooted_varied(call, rank, ranks, element);
  if (call.collective != Collective::all_gather_v)
    PEAL_TRY(check_counts("the send side", call.send_counts, call.send_displs, ranks, element));
  if (call.collective != Collective::reduce_scatter_v)
    PEAL_TRY(check_counts("the receive side", call.receive_counts, call.receive_displs, ranks, element));
  return {};
}

}  // namespace

Status check(const Call& call, int rank, int ranks) {
  const std::string_view name = name_of(call.collective);
  const std::size_t element = size_of(call.type);
  if (element == 0) return fail(ErrorCode::invalid_argument, "{}: {} is no data type", name, static_cast<int>(call.type));
  if (has_reduction(call.collective) && (static_cast<int>(call.op) >= kReduceOpCount || !is_supported(call.type, call.op)))
    return fail(ErrorCode::unsupported, "{}: {} cannot be applied to {}; the table in the guide says which pairs can", name,
                name_of(call.op), name_of(call.type));
  if (has_root(call.collective) && (call.root < 0 || call.root >= ranks))
    return fail(ErrorCode::invalid_argument, "{}: root {} is not a rank of a communicator of {}; give 0 to {}", name, call.root, ranks,
                ranks - 1);
  if (varies(call.collective)) return check_varied(call, rank, ranks, element);
  const std::uint64_t blocks = blocks_of(call.collective, ranks);
  if (call.count > kMostCallBytes / element / blocks)
    return fail(ErrorCode::invalid_argument, "{}: {} elements of {} go beyond the address space", name, call.count, name_of(call.type));
  if (call.count == 0 || call.collective == Collective::barrier) return {};
  if (call.send == nullptr && uses_send(call, rank))
    return fail(ErrorCode::invalid_argument, "{}: the send buffer is null but {} elements are asked for", name, call.count);
  if (call.receive == nullptr && uses_receive(call, rank))
    return fail(ErrorCode::invalid_argument, "{}: the receive buffer is null but {} elements are asked for", name, call.count);
  if (call.collective == Collective::all_to_all && call.send == call.receive && ranks > 1)
    return fail(ErrorCode::unsupported, "all_to_all cannot be done in place; give two buffers");
  return {};
}

bool is_in_place(const Call& call, int rank, int ranks) {
  const auto* send = static_cast<const std::byte*>(call.send);
  const auto* receive = static_cast<const std::byte*>(call.receive);
  const std::uint64_t block = call.count * size_of(call.type) * static_cast<std::uint64_t>(rank);
  (void)ranks;
  switch (call.collective) {
    case Collective::all_reduce: return send == receive;
    case Collective::broadcast:
    case Collective::reduce: return rank == call.root && send == receive;
    case Collective::all_gather: return send == receive + block;
    case Collective::gather: return rank == call.root && send == receive + block;
    case Collective::reduce_scatter: return receive == send + block;
    case Collective::scatter: return rank == call.root && receive == send + block;
    case Collective::all_gather_v: return send == receive + call.receive_displs[static_cast<std::size_t>(rank)] * size_of(call.type);
    case Collective::reduce_scatter_v: return receive == send + call.send_displs[static_cast<std::size_t>(rank)] * size_of(call.type);
    case Collective::gather_v:
      return rank == call.root && send == receive + call.receive_displs[static_cast<std::size_t>(rank)] * size_of(call.type);
    case Collective::scatter_v:
      return rank == call.root && receive == send + call.send_displs[static_cast<std::size_t>(rank)] * size_of(call.type);
    default: return false;
  }
}

std::uint64_t size_in_bytes(const Call& call, int ranks) {
  const std::size_t element = size_of(call.type);
  if (call.collective == Collective::barrier) return 0;
  if (has_private_counts(call.collective)) return kNominalBytes;
  if (call.collective == Collective::all_gather_v) return total(call.receive_counts) * element;
  if (call.collective == Collective::reduce_scatter_v) return total(call.send_counts) * element;
  return call.count * element * blocks_of(call.collective, ranks);
}

}  // namespace peal::comm
