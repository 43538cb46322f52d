#include <sys/mman.h>

#include <algorithm>
#include <base/clock.hpp>
#include <base/log.hpp>
#include <base/partial_sums.hpp>
#include <base/settings.hpp>
#include <comm/core.hpp>
#include <comm/host_environment.hpp>
#include <map>
#include <net/descriptor_passing.hpp>
#include <reduce/combine.hpp>
#include <thread>
#include <transport/shm.hpp>
#include <transport/tcp.hpp>

namespace peal::comm {

namespace {

static_assert(transport::kInlineBytes == schedule::kBesideFlagBytes, "the cost model knows what lies in a slot by this length");
static_assert(reduce::kLeastInLanes == schedule::kLeastInLanesBytes, "the cost model knows what is read in lanes by this length");
static_assert(transport::kFlagLineBytes == schedule::kFlagLineBytes, "the cost model knows what takes a second line by this length");
constexpr int kChannels = 4;  // there and back (2, 3) inside a node and between nodes: what schedules may name
constexpr std::int64_t kMemoryTimeout = 30 * kNanosecondsOfSecond;
constexpr std::uint64_t kWorldId = 1;
constexpr std::uint64_t kNoOffer = 1;  // words are odd
constexpr std::uint64_t kMostShared = std::uint64_t{1} << 46;

/// The most that a message of so many ranks carries: the same on every rank, whatever the number of ranks on its host.
std::uint64_t message_bytes_of(const tuning::Environment& environment) {
  constexpr int kFewRanks = 8;
  constexpr std::uint64_t kCrowdedMessageBytes = 64 * 1024;  // of more ranks that take turns on their cores: longer ones leave the caches
  if (environment.is_by_sockets_alone()) return environment.most_by_sockets();
  const std::uint64_t slot = transport::ShmLayout::of(environment.ranks, kChannels).slot_bytes;
  return environment.shares_cores() && environment.ranks > kFewRanks ? std::min(slot, kCrowdedMessageBytes) : slot;
}

}  // namespace

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t h = a * 0x9e3779b97f4a7c15ull ^ (b + 0x7f4a7c15u) * 0xbf58476d1ce4e5b9ull;
  h ^= h >> 31;
  return h * 0x94d049bb133111ebull | 1;
}

Scratch::~Scratch() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Status Scratch::grow(std::size_t bytes) {
  if (bytes <= bytes_) return {};
  const std::size_t rounded = (bytes + (std::size_t{1} << 21) - 1) >> 21 << 21;
  void* memory = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return fail(ErrorCode::system, "no memory for {} bytes of scratch: {}", bytes, errno_text(errno));
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = static_cast<std::byte*>(memory);
  bytes_ = rounded;
  return {};
}

static Result<transport::Lending> lending_setting() {
  const std::string text = setting("PEAL_LEND_PAGES");
  if (text == "auto") return transport::Lending::where_copies_are_slow;
  if (text == "1") return transport::Lending::always;
  if (text == "0") return transport::Lending::never;
  return fail(ErrorCode::invalid_argument, "PEAL_LEND_PAGES is \"{}\"; set it to auto, 1 or 0", text.substr(0, 64));
}

Result<CoreOptions> complete(CoreOptions options) {
  if (options.timeout_ns <= 0) {
    PEAL_ASSIGN(const std::int64_t seconds, integer_setting("PEAL_TIMEOUT", 1, 10'000'000));
    options.timeout_ns = seconds * kNanosecondsOfSecond;
  }
  PEAL_ASSIGN(const bool deterministic, flag_setting("PEAL_DETERMINISTIC"));
  options.wishes.deterministic = options.wishes.deterministic || deterministic;
  PEAL_ASSIGN(const bool direct_read, flag_setting("PEAL_DIRECT_READ"));
  options.direct_read = options.direct_read && direct_read;
  if (options.lending == transport::Lending::where_copies_are_slow) {
    PEAL_ASSIGN(options.lending, lending_setting());
  }
  PEAL_ASSIGN(const bool huge_pages, flag_setting("PEAL_HUGE_PAGES"));
  options.huge_pages = options.huge_pages && huge_pages && HugePages::are_wanted();
  PEAL_ASSIGN(const bool is_wide, parse_partial_sums(setting("PEAL_PARTIAL_SUMS")));
  options.wishes.f32_partial_sums = options.wishes.f32_partial_sums || is_wide;
  if (options.wishes.algorithm.empty()) options.wishes.algorithm = setting("PEAL_ALGORITHM");
  if (options.wishes.protocol.empty()) options.wishes.protocol = setting("PEAL_PROTOCOL");
  return options;
}

static std::string offer_name(const World& world, std::uint64_t id, std::uint64_t tag, int leader) {
  return fmt::format("peal-{:016x}-{:016x}-{}-{}", world.session(), id, tag, leader);
}

// Every rank says how its part went, so that one failure ends the creation everywhere with the same sentence.
static Status agree(World& world, const Status& mine) {
  PEAL_ASSIGN(const auto said, world.rendezvous().all_gather(mine ? std::string() : mine.error().message));
  if (!mine) return mine;
  for (std::size_t r = 0; r < said.size(); ++r)
    if (!said[r].empty()) return fail(ErrorCode::unreachable, "{} could not join: {}", world.describe(static_cast<int>(r)), said[r]);
  return {};
}

// The lowest rank on this rank's host.
static int leader_on_host(const World& world) {
  int rank = 0;
  while (!world.is_local(rank)) ++rank;
  return rank;
}

Result<std::shared_ptr<Core>> Core::world(const bootstrap::Job& job, CoreOptions options) {
  PEAL_ASSIGN(options, complete(std::move(options)));
  PEAL_ASSIGN(auto world, World::join(job, options.transport));
  std::vector<int> members(static_cast<std::size_t>(world->size()));
  for (int r = 0; r < world->size(); ++r) members[static_cast<std::size_t>(r)] = r;
  Origin origin;
  // The offer of the memory stands before the ranks exchange anything, so that nobody has to ask for it twice.
  if (const int leader = leader_on_host(*world); leader == world->rank() && world->ranks_on_host() > 1)
    origin.offer = net::open_offer(offer_name(*world, kWorldId, 0, leader));
  PEAL_ASSIGN(auto environment, agreed_environment(*world));
  auto made = make(world, kWorldId, std::move(members), world->rank(), std::make_shared<const tuning::Environment>(std::move(environment)),
                   options, std::move(origin));
  PEAL_TRY(agree(*world, made ? Status{} : Status(pass_on(made.error()))));
  PEAL_TRY(world->start_watch());
  return made;
}

Result<std::shared_ptr<Core>> Core::make(std::shared_ptr<World> world, std::uint64_t id, std::vector<int> members, int rank,
                                         std::shared_ptr<const tuning::Environment> environment, const CoreOptions& options,
                                         Origin origin) {
  std::shared_ptr<Core> core(new Core());
  core->world_ = std::move(world);
  core->id_ = id;
  core->members_ = std::move(members);
  core->rank_ = rank;
  core->options_ = options;
  core->most_lines_ = origin.most_lines;
  for (int r = 0; r < core->size(); ++r) {
    if (!core->world_->is_local(core->members_[static_cast<std::size_t>(r)])) continue;
    if (r == rank) core->local_rank_ = static_cast<int>(core->locals_.size());
    core->locals_.push_back(r);
  }
  core->shares_cores_ = core->world_->shares_cores();
  PEAL_TRY(core->open_memory(origin));
  PEAL_TRY(core->open_routes(environment->most_by_sockets()));
  const std::uint64_t message_bytes = message_bytes_of(*environment);
  core->plans_ = std::make_unique<Plans>(std::move(environment), rank, message_bytes, options.wishes, core->choices_,
                                         [board = core->board_] { return board.is_set(); });
  if (const Plans* known = origin.parent == nullptr ? nullptr : origin.parent->plans_.get();
      known != nullptr && known->environment() == core->plans_->environment() && known->wishes() == options.wishes)
    core->plans_->share_with(*known);
  core->most_referenced_ = core->most_referenced_in_groups();
  core->learns_to_refer_ = core->may_learn_to_refer();
  core->lends_pages_ = core->may_lend_pages();
  core->execution_ = std::make_unique<executor::Execution>(*core->routes_, rank, core->size());
  if (core->plans_->environment()->shares_cores()) core->execution_->share_core(core->ranks_on_my_core());
  const topology::MemoryTerms& memory = core->plans_->environment()->memory;
  core->execution_->keep_in_blocks(memory.least_in_blocks.value);
  core->execution_->tell_one_way(!memory.is_read_in_lanes);  // on a mesh nothing was won by shorter messages, which go round, too
  core->execution_->share_ways(core->world_->ways_found(), core->members_);
  core->wait_policy_.fit(core->shares_cores_, core->routes_->has_sockets());
  core->world_->add(core.get());
  return core;
}

std::vector<bool> Core::ranks_on_my_core() const {
  std::vector<bool> is_beside;
  for (const int member : members_) is_beside.push_back(world_->is_on_my_core(member));
  return is_beside;
}

// What stands before the rings: faults and what every rank calls; choices.
transport::ShmLayout Core::layout_of(int locals, int most_lines) const {
  const std::size_t control = executor::FaultBoard::bytes_for(size()) + ChoiceBoard::bytes_for(locals);
  transport::ShmLayout layout = transport::ShmLayout::of(locals, kChannels, control);
  layout.lines = std::min(layout.lines, most_lines);
  return layout;
}

transport::ShmLayout Core::layout() const {
  transport::ShmLayout layout = layout_of(static_cast<int>(locals_.size()), most_lines_);
  layout.base = area_ == nullptr ? 0 : area_->offset();
  return layout;
}

// On each host the boards and, where shared memory carries data, the rings of every pair: in a segment of their own, or where the parent
// has room. Addresses are reserved for all of the communicator's ranks on this host; memory comes with first use. The job's own
// communicator adds the slots that all of its groups borrow.
Status Core::open_memory(Origin& origin) {
  const auto locals = static_cast<int>(locals_.size());
  const transport::ShmLayout layout = this->layout();
  const bool has_slots = locals > 1 && world_->choice() != TransportChoice::tcp;
  const std::size_t pool_bytes = has_slots && origin.parent == nullptr ? transport::ShmSlotPool::bytes_for(locals) : 0;
  area_ = std::move(origin.area);
  if (area_ == nullptr) {
    const Herald herald{origin.parent, origin.parent == nullptr ? 0 : origin.parent_ranks[static_cast<std::size_t>(locals_.front())]};
    PEAL_ASSIGN(auto segment, share_on_host({layout.total_bytes() + pool_bytes, layout.head_bytes(), 0, "peal-communicator"}, herald,
                                            std::move(origin.offer)));
    area_ = std::make_shared<Area>(std::move(segment));
  }
  board_ = executor::FaultBoard(area_->data(), size());
  if (ChoiceBoard::bytes_for(locals) > 0) choices_ = ChoiceBoard(area_->data() + executor::FaultBoard::bytes_for(size()));
  if (has_slots) borrow_slots(origin.parent, origin.parent_ranks, layout.total_bytes());
  return {};
}

void Core::borrow_slots(const Core* parent, const std::vector<int>& parent_ranks, std::size_t offset) {
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    if (parent == nullptr) {
      pool_numbers_.push_back(static_cast<int>(i));
      continue;
    }
    const int there = parent_ranks[static_cast<std::size_t>(locals_[i])];
    const auto place = std::lower_bound(parent->locals_.begin(), parent->locals_.end(), there) - parent->locals_.begin();
    pool_numbers_.push_back(parent->pool_numbers_[static_cast<std::size_t>(place)]);
  }
  if (parent != nullptr) {
    pool_ = parent->pool_;
    return;
  }
  const std::shared_ptr<transport::SharedSegment> segment(area_, &area_->segment());
  pool_ = std::make_shared<transport::ShmSlotPool>(segment, offset, static_cast<int>(locals_.size()), local_rank_);
}

Status Core::open_routes(std::uint64_t most_by_sockets) {
  routes_ = std::make_unique<Routes>(size());
  const auto locals = static_cast<int>(locals_.size());
  const bool tcp_everywhere = world_->choice() == TransportChoice::tcp;
  if (locals > 1 && !tcp_everywhere) {
    transport::ShmBorrowing borrowing{pool_, pool_numbers_, area_};
    borrowing.has_head = true;
    PEAL_ASSIGN(auto shm, transport::ShmTransport::open(area_->segment(), layout(), local_rank_, std::move(borrowing)));
    std::vector<int> numbers;
    for (const int r : locals_) numbers.push_back(members_[static_cast<std::size_t>(r)]);
    shm->read_from(world_->user_segments(), std::move(numbers));
    if (!options_.direct_read) shm->refuse_references();
    if (shares_cores_) shm->keep_slots_few();
    routes_->share_with(shm.get());
    for (int i = 0; i < locals; ++i)
      if (i != local_rank_) routes_->route(locals_[static_cast<std::size_t>(i)], shm.get(), i);
    routes_->own(std::move(shm));
  }
  if (world_->listener() != nullptr && size() != (tcp_everywhere ? 1 : locals)) PEAL_TRY(open_tcp(*routes_, most_by_sockets));
  if (id_ == kWorldId) log_routes();
  return {};
}

// "rank 0 reaches ranks 1 through shm, ranks 2, 3 through tcp".
void Core::log_routes() const {
  if (!is_logged(LogLevel::info) || size() == 1) return;
  std::map<std::string, std::string> by_transport;
  for (int r = 0; r < size(); ++r) {
    if (r == rank_) continue;
    std::string& ranks = by_transport[routes_->name_of(r)];
    ranks += ranks.empty() ? fmt::format("ranks {}", r) : fmt::format(", {}", r);
  }
  std::string text;
  for (const auto& [name, ranks] : by_transport) text += fmt::format("{}{} through {}", text.empty() ? "" : ", ", ranks, name);
  log(LogLevel::info, "rank {} reaches {}", rank_, text);
}

// TCP to every rank that shared memory does not reach.
Status Core::open_tcp(Routes& routes, std::uint64_t message_bytes) {
  std::vector<net::Address> peers;
  for (int r = 0; r < size(); ++r) {
    PEAL_ASSIGN(net::Address address, net::Address::parse(contact(r).data_address));
    peers.push_back(std::move(address));
  }
  transport::TcpOptions options;
  options.channels = kChannels;
  options.message_bytes = message_bytes;
  options.lending = options_.lending;
  for (int r = 0; r < size(); ++r) options.is_on_machine.push_back(world_->is_on_my_machine(world_rank(r)));
  PEAL_ASSIGN(auto tcp, transport::TcpTransport::open(*world_->listener(), id_, rank_, std::move(peers), options));
  for (int r = 0; r < size(); ++r)
    if (r != rank_ && routes.is_unrouted(r)) routes.route(r, tcp.get(), r);
  routes.own(std::move(tcp));
  return {};
}

Result<transport::SharedSegment> Core::create_segment(const Share& share) const {
  PEAL_ASSIGN(auto segment, transport::SharedSegment::create(share.bytes, share.label));
  PEAL_TRY(segment.allocate(0, share.head));
  return segment;
}

Result<transport::SharedSegment> Core::share_on_host(const Share& share, Herald herald, Result<FileDescriptor> offer) {
  if (locals_.size() == 1) return create_segment(share);
  const int leader = locals_.front();
  const std::string name = offer_name(*world_, id_, share.tag, members_[static_cast<std::size_t>(leader)]);
  const std::uint64_t word = mixed(id_, share.tag);
  const std::int64_t deadline = now_ns() + kMemoryTimeout;
  if (rank_ != leader) {
    if (herald.core != nullptr) PEAL_TRY(await_offer(herald, word, deadline));
    PEAL_ASSIGN(FileDescriptor fd, net::take_descriptor(name, deadline));
    return transport::SharedSegment::map(std::move(fd), share.bytes, share.head);
  }
  auto segment = create_segment(share);
  if (herald.core != nullptr) {
    if (segment) offer = net::open_offer(name);
    herald.core->board_.announce(herald.core->rank_, segment && offer ? word : word ^ kNoOffer);
  }
  if (!segment) return segment;
  if (!offer) return pass_on(std::move(offer).error());
  PEAL_TRY(net::serve_offer(offer->get(), segment->descriptor(), static_cast<int>(locals_.size()) - 1, deadline));
  return segment;
}

// Until the leader says that it offers the memory: then to ask for it is one try.
Status Core::await_offer(Herald herald, std::uint64_t word, std::int64_t deadline_ns) const {
  Core& through = *herald.core;
  const auto who = [&] { return through.world_->describe(through.members_[static_cast<std::size_t>(herald.leader)]); };
  executor::Backoff backoff(through.wait_policy_);
  for (;;) {
    const std::uint64_t said = through.board_.announced(herald.leader);
    if (said == word) return {};
    if (said == (word ^ kNoOffer)) return fail(ErrorCode::system, "{} could not make the shared memory of a communicator", who());
    const auto next = backoff.pause();
    if (next == executor::Backoff::Next::polled) continue;
    PEAL_TRY(through.fault());
    if (now_ns() > deadline_ns) return fail(ErrorCode::timeout, "{} did not offer the shared memory of a communicator in time", who());
    if (next == executor::Backoff::Next::sleep) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// A few bytes of everybody for everybody. Among many ranks by way of rank 0: two trees of messages instead of a mesh of them, for which
// each pair would need its ring and, where ranks share cores, each rank many turns.
Status Core::exchange(const void* mine, void* all, std::size_t bytes) {
  const std::size_t whole = bytes * static_cast<std::size_t>(size());
  if (size() <= kFewRanks) return run_own({Collective::all_gather, mine, all, bytes, DataType::u8});
  PEAL_TRY(run_own({Collective::gather, mine, all, bytes, DataType::u8, ReduceOp::sum, 0}));
  return run_own({Collective::broadcast, all, all, whole, DataType::u8, ReduceOp::sum, 0});
}

// A call of Peal's own.
Status Core::run_own(Call call) {
  call.is_internal = true;
  return run(call);
}

Result<transport::SharedSegment> Core::share_segment(std::size_t head, std::size_t part, const char* label) {
  if (static_cast<int>(locals_.size()) != size())
    return fail(ErrorCode::unsupported,
                "a window needs ranks of one host, but this communicator has {} of its {} ranks elsewhere; split it by host first",
                size() - static_cast<int>(locals_.size()), size());
  const std::size_t parts = transport::whole_pages(head);
  const std::size_t stride = transport::whole_pages(part);
  return share_everywhere({parts + static_cast<std::size_t>(size()) * stride, parts, ++segments_, label},
                          parts + static_cast<std::size_t>(rank_) * stride, stride);
}

Result<Core::Parts> Core::share_parts(std::size_t head, std::size_t bytes, const char* label) {
  const std::uint64_t wanted = bytes;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size()));
  PEAL_TRY(exchange(&wanted, all.data(), sizeof wanted));
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] > kMostShared)
      return fail(ErrorCode::invalid_argument, "rank {} asks for {} bytes of memory, more than can be mapped", r, all[r]);
  std::size_t total = transport::whole_pages(head), own = 0;
  for (const int r : locals_) {
    if (r == rank_) own = total;
    total += transport::whole_pages(all[static_cast<std::size_t>(r)]);
  }
  Parts parts;
  PEAL_ASSIGN(parts.segment, share_everywhere({total, head, ++segments_, label}, own, bytes));
  parts.own = parts.segment.data() + own;
  parts.id = mixed(id_, segments_);
  return parts;
}

// Every rank has made sure of its range, or none gets the segment.
Result<transport::SharedSegment> Core::share_everywhere(const Share& share, std::size_t offset, std::size_t bytes) {
  auto segment = share_on_host(share, {this, locals_.front()}, {});
  if (segment) {
    if (Status allocated = segment->allocate(offset, bytes); !allocated) segment = pass_on(allocated.error());
  }
  const std::uint8_t mine = segment ? 0 : 1;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(size()));
  PEAL_TRY(exchange(&mine, all.data(), sizeof mine));
  if (!segment) return segment;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != 0) return fail(ErrorCode::system, "rank {} could not map {} bytes of shared memory", r, share.bytes);
  return segment;
}

const bootstrap::Contact& Core::contact(int rank) const {
  return world_->contacts()[static_cast<std::size_t>(members_[static_cast<std::size_t>(rank)])];
}

Core::~Core() {
  if (progress_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    progress_.join();
  }
  if (world_ == nullptr) return;
  world_->remove(this);
  if (area_ != nullptr) board_.depart(rank_);
}

}  // namespace peal::comm
