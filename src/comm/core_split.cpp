// Groups: who is in which, and where their memory comes from.
#include <algorithm>
#include <bit>
#include <comm/core.hpp>
#include <map>

namespace peal::comm {

namespace {

/// What a rank tells the others in a split.
struct Wish {
  std::int32_t color, key;
  AreaClaim claim;
};

// What everybody has to know of everybody's wishes, in few bytes: the areas and their batch, and then for each rank of the parent the
// number of its group and its rank there.
constexpr std::size_t kHeadWords = 2;
constexpr std::uint32_t kNoSeat = ~std::uint32_t{0};
constexpr int kPlaceBits = 16;  // there are at most 65536 ranks

// The more groups there are, the fewer lines have the rings of further ones: rings are most of what one more group of many ranks holds.
// Those of two ranks lie in a page that is there anyway.
int lines_in(std::uint32_t batch, int ranks) {
  const int halvings = static_cast<int>(std::min<std::uint32_t>(batch, 8)) - 1;
  return ranks <= 2 ? transport::kFewLines : std::max(transport::kFewestLines, transport::kFewLines >> halvings);
}

std::vector<std::uint32_t> seats_of(const std::vector<Wish>& wishes) {
  std::vector<AreaClaim> claims;
  std::map<std::int32_t, std::vector<std::uint32_t>> groups;
  for (std::uint32_t r = 0; r < wishes.size(); ++r) {
    claims.push_back(wishes[r].claim);
    if (wishes[r].color >= 0) groups[wishes[r].color].push_back(r);
  }
  const auto several = std::count_if(groups.begin(), groups.end(), [](const auto& group) { return group.second.size() > 1; });
  const AreaBatches::Choice choice = AreaBatches::choose(claims, static_cast<int>(several));
  std::vector<std::uint32_t> seats(kHeadWords + wishes.size(), kNoSeat);
  seats[0] = choice.areas;
  seats[1] = choice.batch;
  std::uint32_t group = 0;
  for (auto& [color, ranks] : groups) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](std::uint32_t a, std::uint32_t b) { return wishes[a].key < wishes[b].key; });
    for (std::uint32_t place = 0; place < ranks.size(); ++place) seats[kHeadWords + ranks[place]] = group << kPlaceBits | place;
    ++group;
  }
  return seats;
}

// A group as its parent's ranks on one host see it.
struct Seated {
  int ranks = 0;
  int locals = 0;  // on this host
  int area = -1;   // none
};

std::vector<Seated> groups_of(const std::vector<std::uint32_t>& seats, const std::vector<int>& locals) {
  std::vector<Seated> groups;
  const auto group_at = [&](std::size_t rank) -> Seated* {
    const std::uint32_t seat = seats[kHeadWords + rank];
    if (seat == kNoSeat) return nullptr;
    if (groups.size() <= seat >> kPlaceBits) groups.resize((seat >> kPlaceBits) + 1);
    return &groups[seat >> kPlaceBits];
  };
  for (std::size_t r = 0; r + kHeadWords < seats.size(); ++r)
    if (Seated* const group = group_at(r); group != nullptr) ++group->ranks;
  for (const int r : locals)
    if (Seated* const group = group_at(static_cast<std::size_t>(r)); group != nullptr) ++group->locals;
  std::uint32_t areas = seats[0];
  for (Seated& group : groups) {
    if (group.ranks < 2 || areas == 0) continue;
    group.area = std::countr_zero(areas);
    areas &= areas - 1;
  }
  return groups;
}

// The parent's ranks of one rank's group in the order of the group; empty where it is in none.
std::vector<int> ranks_beside(const std::vector<std::uint32_t>& seats, int rank) {
  const std::uint32_t own = seats[kHeadWords + static_cast<std::size_t>(rank)];
  std::vector<std::pair<std::uint32_t, int>> found;
  for (std::size_t r = 0; own != kNoSeat && r + kHeadWords < seats.size(); ++r) {
    const std::uint32_t seat = seats[kHeadWords + r];
    if (seat != kNoSeat && seat >> kPlaceBits == own >> kPlaceBits) found.emplace_back(seat, static_cast<int>(r));
  }
  std::sort(found.begin(), found.end());
  std::vector<int> order;
  for (const auto& [seat, r] : found) order.push_back(r);
  return order;
}

}  // namespace

// Among many ranks rank 0 works out what the others need to know: less to send back than all that was said.
Result<std::vector<std::uint32_t>> Core::agree_on_seats(int color, int key) {
  const bool is_leader = rank_ == locals_.front();
  const Wish mine{color, key, batches_.claim(is_leader ? head_of_area(static_cast<int>(locals_.size())) : 0)};
  std::vector<Wish> wishes(static_cast<std::size_t>(size()));
  if (size() <= kFewRanks) {
    PEAL_TRY(exchange(&mine, wishes.data(), sizeof mine));
    return seats_of(wishes);
  }
  PEAL_TRY(run_own({Collective::gather, &mine, wishes.data(), sizeof mine, DataType::u8, ReduceOp::sum, 0}));
  std::vector<std::uint32_t> seats(kHeadWords + wishes.size());
  if (rank_ == 0) seats = seats_of(wishes);
  PEAL_TRY(run_own({Collective::broadcast, seats.data(), seats.data(), seats.size(), DataType::u32, ReduceOp::sum, 0}));
  return seats;
}

Result<std::shared_ptr<Core>> Core::split(int color, int key, const PlanWishes& wanted) {
  PEAL_ASSIGN(const std::vector<std::uint32_t> seats, agree_on_seats(color, key));
  const std::uint32_t number = ++splits_;
  const std::uint32_t batch = seats[1];
  const bool is_new_batch = batch != 0 && batch != batches_.number();
  if (is_new_batch) PEAL_TRY(begin_batch(batch));
  const std::vector<Seated> groups = groups_of(seats, locals_);
  for (const Seated& group : groups)
    if (group.area >= 0 && group.locals > 0) batches_.newest()->take(group.area);
  if (color < 0) return std::shared_ptr<Core>();
  Origin origin{this, ranks_beside(seats, rank_)};
  origin.most_lines = transport::kFewLines;  // there may be many groups
  const std::vector<int>& order = origin.parent_ranks;
  const bool has_all = static_cast<int>(order.size()) == size();
  if (has_all && batch != 0) origin.most_lines = lines_in(batch, size());
  if (const Seated& own = groups[seats[kHeadWords + static_cast<std::size_t>(rank_)] >> kPlaceBits]; own.area >= 0) {
    origin.area = std::make_shared<Area>(batches_.newest(), own.area, own.locals);
    // Of older batches the host's leader has prepared it.
    if (is_new_batch) PEAL_TRY(origin.area->segment().allocate(origin.area->offset(), head_of_area(own.locals)));
  }
  std::vector<int> members;
  for (const int r : order) members.push_back(members_[static_cast<std::size_t>(r)]);
  const int rank = static_cast<int>(std::find(order.begin(), order.end(), rank_) - order.begin());
  const std::uint64_t id = mixed(mixed(id_, number), static_cast<std::uint64_t>(color));
  CoreOptions options = options_;
  options.wishes = wanted;
  const bool is_same = has_all && std::is_sorted(order.begin(), order.end());
  auto environment =
      is_same ? plans_->environment() : std::make_shared<const tuning::Environment>(restrict_to(*plans_->environment(), order));
  auto made = make(world_, id, std::move(members), rank, std::move(environment), options, std::move(origin));
  rest();  // from now on there is somebody to lend to
  return made;
}

std::size_t Core::head_of_area(int locals) const { return layout_of(locals, transport::kFewLines).head_bytes(); }

// Fewer ranks have larger slots.
std::size_t Core::bytes_of_area(int most_locals) const {
  std::size_t most = 0;
  for (int locals = 1; locals <= most_locals; ++locals) most = std::max(most, layout_of(locals, transport::kFewLines).total_bytes());
  return most;
}

Status Core::begin_batch(std::uint32_t number) {
  const std::size_t area_bytes = bytes_of_area(static_cast<int>(locals_.size()));
  const int areas = AreaBatches::areas_of(number, bytes_of_area(size()));  // as many on all hosts, whatever the number of ranks there
  const Share share{AreaBatch::bytes_for(areas, area_bytes), AreaBatch::kHeadBytes, kBatchTag | number, "peal-communicators"};
  PEAL_ASSIGN(auto segment, share_on_host(share, {this, locals_.front()}, {}));
  batches_.begin(number, std::make_shared<AreaBatch>(std::move(segment), areas, area_bytes));
  return {};
}

void Core::rest() {
  if (!is_queued_) return routes_->rest();
  const std::lock_guard lock(mutex_);
  if (!front_began_) routes_->rest();
}

}  // namespace peal::comm
