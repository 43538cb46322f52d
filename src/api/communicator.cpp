#include "handles.hpp"

#include <base/names.hpp>
#include <base/settings.hpp>
#include <bootstrap/job.hpp>
#include <bootstrap/unique_id.hpp>
#include <cstring>

namespace peal {

namespace {

Result<comm::TransportChoice> transport_choice(std::string text) {
  if (text.empty()) text = setting("PEAL_TRANSPORT");
  if (text.empty() || text == "auto") return comm::TransportChoice::automatic;
  if (text == "shm") return comm::TransportChoice::shm;
  if (text == "tcp") return comm::TransportChoice::tcp;
  return fail(ErrorCode::invalid_argument, "there is no transport \"{}\"; type auto, shm or tcp", text);
}

Communicator join(const bootstrap::Job& job, const Options& options) {
  comm::CoreOptions core;
  core.timeout_ns = std::chrono::nanoseconds(options.timeout).count();
  core.wishes = {options.deterministic, options.algorithm, options.protocol, options.f32_partial_sums};
  core.transport = value_or_throw(transport_choice(options.transport));
  core.progress_thread = options.progress_thread;
  auto impl = std::make_shared<Communicator::Impl>();
  impl->core = value_or_throw(comm::Core::world(job, std::move(core)));
  return Communicator(std::move(impl));
}

[[gnu::always_inline]] inline comm::Core& core_of(const std::shared_ptr<Communicator::Impl>& impl) {
  if (impl == nullptr) [[unlikely]]
    throw Error(ErrorCode::invalid_argument,
                "this communicator is empty: it was moved from, never made, or split off with a negative color");
  return *impl->core;
}

comm::Call collective(Collective kind, const void* send, void* receive, std::size_t count, DataType type) {
  comm::Call call;
  call.collective = kind;
  call.send = send;
  call.receive = receive;
  call.count = count;
  call.type = type;
  return call;
}

comm::Call reduction(Collective kind, const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, double premul,
                     int root = -1) {
  comm::Call call = collective(kind, send, receive, count, type);
  call.op = op;
  call.premul = premul;
  call.root = root;
  return call;
}

comm::Call rooted(Collective kind, const void* send, void* receive, std::size_t count, DataType type, int root) {
  comm::Call call = collective(kind, send, receive, count, type);
  call.root = root;
  return call;
}

comm::Call gathered_v(const void* send, void* receive, std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displacements,
                      DataType type) {
  comm::Call call = collective(Collective::all_gather_v, send, receive, 0, type);
  call.receive_counts = counts;
  call.receive_displs = displacements;
  return call;
}

std::vector<std::uint64_t> one_behind_the_other(std::span<const std::uint64_t> counts) {
  std::vector<std::uint64_t> displacements(counts.size());
  for (std::size_t i = 1; i < counts.size(); ++i) displacements[i] = displacements[i - 1] + counts[i - 1];
  return displacements;
}

comm::Call reduced_v(const void* send, void* receive, std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displacements,
                     DataType type, ReduceOp op, double premul) {
  comm::Call call = reduction(Collective::reduce_scatter_v, send, receive, 0, type, op, premul);
  call.send_counts = counts;
  call.send_displs = displacements;
  return call;
}

comm::Call exchanged_v(const void* send, std::span<const std::uint64_t> send_counts, std::span<const std::uint64_t> send_displacements,
                       void* receive, std::span<const std::uint64_t> receive_counts, std::span<const std::uint64_t> receive_displacements,
                       DataType type) {
  comm::Call call = collective(Collective::all_to_all_v, send, receive, 0, type);
  call.send_counts = send_counts;
  call.send_displs = send_displacements;
  call.receive_counts = receive_counts;
  call.receive_displs = receive_displacements;
  return call;
}

// What ranks other than the root give as counts of all is not looked at.
comm::Call to_root_v(const comm::Core& core, const void* send, std::size_t send_count, void* receive,
                     std::span<const std::uint64_t> receive_counts, std::span<const std::uint64_t> receive_displacements, DataType type,
                     int root) {
  comm::Call call = rooted(Collective::gather_v, send, receive, send_count, type, root);
  if (core.rank() != root) return call;
  call.receive_counts = receive_counts;
  call.receive_displs = receive_displacements;
  return call;
}

comm::Call from_root_v(const comm::Core& core, const void* send, std::span<const std::uint64_t> send_counts,
                       std::span<const std::uint64_t> send_displacements, void* receive, std::size_t receive_count, DataType type,
                       int root) {
  comm::Call call = rooted(Collective::scatter_v, send, receive, receive_count, type, root);
  if (core.rank() != root) return call;
  call.send_counts = send_counts;
  call.send_displs = send_displacements;
  return call;
}

}  // namespace

UniqueId make_unique_id() {
  const bootstrap::UniqueId made = bootstrap::make_unique_id();
  UniqueId id;
  static_assert(sizeof id.bytes == sizeof made.bytes);
  std::memcpy(id.bytes, made.bytes.data(), sizeof id.bytes);
  return id;
}

Communicator init(const Options& options) { return join(value_or_throw(bootstrap::job_from_environment()), options); }

Communicator init(const UniqueId& id, int rank, int ranks, const Options& options) {
  bootstrap::UniqueId bytes;
  std::memcpy(bytes.bytes.data(), id.bytes, sizeof id.bytes);
  return join(value_or_throw(bootstrap::job_from_unique_id(bytes, rank, ranks)), options);
}

Communicator::Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;
Communicator::Communicator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::operator bool() const { return impl_ != nullptr; }

int Communicator::rank() const { return core_of(impl_).rank(); }
int Communicator::size() const { return core_of(impl_).size(); }
int Communicator::local_size() const { return static_cast<int>(core_of(impl_).locals().size()); }
int Communicator::local_rank() const { return core_of(impl_).local_rank(); }

std::vector<RankInfo> Communicator::ranks() const {
  const comm::Core& core = core_of(impl_);
  std::vector<RankInfo> all;
  for (int r = 0; r < core.size(); ++r) all.push_back({r, core.contact(r).pid, core.contact(r).host_name});
  return all;
}

void Communicator::all_reduce(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, double premul) {
  require(core_of(impl_).run(reduction(Collective::all_reduce, send, receive, count, type, op, premul)));
}
void Communicator::reduce_scatter(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, double premul) {
  require(core_of(impl_).run(reduction(Collective::reduce_scatter, send, receive, count, type, op, premul)));
}
void Communicator::all_gather(const void* send, void* receive, std::size_t count, DataType type) {
  require(core_of(impl_).run(collective(Collective::all_gather, send, receive, count, type)));
}
void Communicator::broadcast(const void* send, void* receive, std::size_t count, DataType type, int root) {
  require(core_of(impl_).run(rooted(Collective::broadcast, send, receive, count, type, root)));
}
void Communicator::reduce(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, int root, double premul) {
  require(core_of(impl_).run(reduction(Collective::reduce, send, receive, count, type, op, premul, root)));
}
void Communicator::gather(const void* send, void* receive, std::size_t count, DataType type, int root) {
  require(core_of(impl_).run(rooted(Collective::gather, send, receive, count, type, root)));
}
void Communicator::scatter(const void* send, void* receive, std::size_t count, DataType type, int root) {
  require(core_of(impl_).run(rooted(Collective::scatter, send, receive, count, type, root)));
}
void Communicator::all_to_all(const void* send, void* receive, std::size_t count, DataType type) {
  require(core_of(impl_).run(collective(Collective::all_to_all, send, receive, count, type)));
}
void Communicator::barrier() { require(core_of(impl_).barrier()); }

void Communicator::all_gather_v(const void* send, void* receive, std::span<const std::uint64_t> counts,
                                std::span<const std::uint64_t> displacements, DataType type) {
  require(core_of(impl_).run(gathered_v(send, receive, counts, displacements, type)));
}

void Communicator::reduce_scatter_v(const void* send, void* receive, std::span<const std::uint64_t> counts, DataType type, ReduceOp op,
                                    double premul) {
  const std::vector<std::uint64_t> displacements = one_behind_the_other(counts);
  require(core_of(impl_).run(reduced_v(send, receive, counts, displacements, type, op, premul)));
}

void Communicator::all_to_all_v(const void* send, std::span<const std::uint64_t> send_counts,
                                std::span<const std::uint64_t> send_displacements, void* receive,
                                std::span<const std::uint64_t> receive_counts, std::span<const std::uint64_t> receive_displacements,
                                DataType type) {
  require(core_of(impl_).run(exchanged_v(send, send_counts, send_displacements, receive, receive_counts, receive_displacements, type)));
}

void Communicator::gather_v(const void* send, std::size_t send_count, void* receive, std::span<const std::uint64_t> receive_counts,
                            std::span<const std::uint64_t> receive_displacements, DataType type, int root) {
  comm::Core& core = core_of(impl_);
  require(core.run(to_root_v(core, send, send_count, receive, receive_counts, receive_displacements, type, root)));
}

void Communicator::scatter_v(const void* send, std::span<const std::uint64_t> send_counts,
                             std::span<const std::uint64_t> send_displacements, void* receive, std::size_t receive_count, DataType type,
                             int root) {
  comm::Core& core = core_of(impl_);
  require(core.run(from_root_v(core, send, send_counts, send_displacements, receive, receive_count, type, root)));
}

void Communicator::send(const void* data, std::size_t count, DataType type, int to) {
  comm::PairTransfer transfer{data, nullptr, true, count, type, to};
  comm::Core& core = core_of(impl_);
  if (impl_->group_depth > 0)
    impl_->group.push_back(transfer);
  else
    require(core.run_group({&transfer, 1}));
}

void Communicator::receive(void* data, std::size_t count, DataType type, int from) {
  comm::PairTransfer transfer{nullptr, data, false, count, type, from};
  comm::Core& core = core_of(impl_);
  if (impl_->group_depth > 0)
    impl_->group.push_back(transfer);
  else
    require(core.run_group({&transfer, 1}));
}

void Communicator::group_start() {
  core_of(impl_);
  ++impl_->group_depth;
}

namespace {
// The transfers of the outermost group, which stand in the handle until this ends, so that the next group has their room; none at an inner
// end. Groups nest as NCCL's do: the outermost end starts everything.
class ClosedGroup {
 public:
  explicit ClosedGroup(Communicator::Impl& impl) : impl_(impl) {
    if (impl.group_depth == 0) throw Error(ErrorCode::invalid_argument, "group_end without group_start");
    --impl.group_depth;
  }
  ClosedGroup(const ClosedGroup&) = delete;
  ClosedGroup& operator=(const ClosedGroup&) = delete;
  ~ClosedGroup() {
    if (impl_.group_depth == 0) impl_.group.clear();
  }
  std::span<const comm::PairTransfer> transfers() const {
    return impl_.group_depth == 0 ? std::span<const comm::PairTransfer>(impl_.group) : std::span<const comm::PairTransfer>();
  }

 private:
  Communicator::Impl& impl_;
};
}  // namespace

void Communicator::group_end() {
  comm::Core& core = core_of(impl_);
  const ClosedGroup group(*impl_);
  if (const auto transfers = group.transfers(); !transfers.empty()) require(core.run_group(transfers));
}

Work Communicator::group_end_async() {
  comm::Core& core = core_of(impl_);
  const ClosedGroup group(*impl_);
  const auto transfers = group.transfers();
  if (transfers.empty()) return Work();
  return Work(std::make_shared<Work::Impl>(Work::Impl{impl_->core, value_or_throw(core.start_group(transfers))}));
}

namespace {
Work begin(const std::shared_ptr<Communicator::Impl>& impl, const comm::Call& call) {
  comm::Core& core = core_of(impl);
  return Work(std::make_shared<Work::Impl>(Work::Impl{impl->core, value_or_throw(core.start(call))}));
}
}  // namespace

Work Communicator::all_reduce_async(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, double premul) {
  return begin(impl_, reduction(Collective::all_reduce, send, receive, count, type, op, premul));
}
Work Communicator::reduce_scatter_async(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, double premul) {
  return begin(impl_, reduction(Collective::reduce_scatter, send, receive, count, type, op, premul));
}
Work Communicator::all_gather_async(const void* send, void* receive, std::size_t count, DataType type) {
  return begin(impl_, collective(Collective::all_gather, send, receive, count, type));
}
Work Communicator::broadcast_async(const void* send, void* receive, std::size_t count, DataType type, int root) {
  return begin(impl_, rooted(Collective::broadcast, send, receive, count, type, root));
}
Work Communicator::reduce_async(const void* send, void* receive, std::size_t count, DataType type, ReduceOp op, int root, double premul) {
  return begin(impl_, reduction(Collective::reduce, send, receive, count, type, op, premul, root));
}
Work Communicator::gather_async(const void* send, void* receive, std::size_t count, DataType type, int root) {
  return begin(impl_, rooted(Collective::gather, send, receive, count, type, root));
}
Work Communicator::scatter_async(const void* send, void* receive, std::size_t count, DataType type, int root) {
  return begin(impl_, rooted(Collective::scatter, send, receive, count, type, root));
}
Work Communicator::all_to_all_async(const void* send, void* receive, std::size_t count, DataType type) {
  return begin(impl_, collective(Collective::all_to_all, send, receive, count, type));
}
Work Communicator::barrier_async() { return begin(impl_, collective(Collective::barrier, nullptr, nullptr, 0, DataType::u8)); }
Work Communicator::all_gather_v_async(const void* send, void* receive, std::span<const std::uint64_t> counts,
                                      std::span<const std::uint64_t> displacements, DataType type) {
  return begin(impl_, gathered_v(send, receive, counts, displacements, type));
}
Work Communicator::reduce_scatter_v_async(const void* send, void* receive, std::span<const std::uint64_t> counts, DataType type,
                                          ReduceOp op, double premul) {
  const std::vector<std::uint64_t> displacements = one_behind_the_other(counts);
  return begin(impl_, reduced_v(send, receive, counts, displacements, type, op, premul));
}
Work Communicator::all_to_all_v_async(const void* send, std::span<const std::uint64_t> send_counts,
                                      std::span<const std::uint64_t> send_displacements, void* receive,
                                      std::span<const std::uint64_t> receive_counts, std::span<const std::uint64_t> receive_displacements,
                                      DataType type) {
  return begin(impl_, exchanged_v(send, send_counts, send_displacements, receive, receive_counts, receive_displacements, type));
}
Work Communicator::gather_v_async(const void* send, std::size_t send_count, void* receive, std::span<const std::uint64_t> receive_counts,
                                  std::span<const std::uint64_t> receive_displacements, DataType type, int root) {
  const comm::Core& core = core_of(impl_);
  return begin(impl_, to_root_v(core, send, send_count, receive, receive_counts, receive_displacements, type, root));
}
Work Communicator::scatter_v_async(const void* send, std::span<const std::uint64_t> send_counts,
                                   std::span<const std::uint64_t> send_displacements, void* receive, std::size_t receive_count,
                                   DataType type, int root) {
  const comm::Core& core = core_of(impl_);
  return begin(impl_, from_root_v(core, send, send_counts, send_displacements, receive, receive_count, type, root));
}

Communicator Communicator::split(int color, int key) {
  std::shared_ptr<comm::Core> part = value_or_throw(core_of(impl_).split(color, key));
  if (part == nullptr) return {};
  auto impl = std::make_shared<Impl>();
  impl->core = std::move(part);
  return Communicator(std::move(impl));
}

Window Communicator::create_window(std::size_t bytes) {
  core_of(impl_);
  return Window(std::make_unique<Window::Impl>(Window::Impl{value_or_throw(comm::SharedWindow::create(impl_->core, bytes))}));
}

void Communicator::abort(const std::string& why) { core_of(impl_).abort(why); }

}  // namespace peal
