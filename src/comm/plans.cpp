#include <algorithm>
#include <bit>
#include <comm/plans.hpp>
#include <map>
#include <schedule/registry.hpp>
#include <schedule/verify.hpp>
#include <tuning/placement.hpp>
#include <tuning/select.hpp>

namespace peal::comm {

std::uint8_t size_class_of(std::uint64_t bytes) { return static_cast<std::uint8_t>(bytes <= 1 ? 0 : std::bit_width(bytes - 1)); }

std::size_t PlanKeyHash::operator()(const PlanKey& key) const {
  // By halves goes where the root's first bit is, which such calls do not have.
  std::uint64_t h = static_cast<std::uint64_t>(key.collective) | static_cast<std::uint64_t>(key.type) << 8 |
                    static_cast<std::uint64_t>(key.op) << 16 | static_cast<std::uint64_t>(key.size_class) << 24 |
                    static_cast<std::uint64_t>(key.in_place) << 30 | static_cast<std::uint64_t>(key.use) << 31 |
                    static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.root)) << 32;
  h *= 0x9e3779b97f4a7c15ull;
  return static_cast<std::size_t>(h ^ h >> 29);
}

std::shared_ptr<const executor::Plan> PlanStore::find(const PlanKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second.plan;
}

std::shared_ptr<const executor::Plan> PlanStore::put(const PlanKey& key, std::shared_ptr<const executor::Plan> plan) {
  const std::lock_guard lock(mutex_);
  return plans_.emplace(key, Entry{std::move(plan), nullptr}).first->second.plan;
}

const executor::Binding* PlanStore::first_binding(const PlanKey& key, const executor::Shape& shape) {
  const std::lock_guard lock(mutex_);
  Entry& entry = plans_.at(key);
  if (entry.first == nullptr) {
    entry.first = std::make_unique<executor::Binding>();
    entry.first->bind(*entry.plan, shape);
  }
  return entry.first.get();
}

Plans::Plans(std::shared_ptr<const tuning::Environment> environment, int rank, std::uint64_t message_bytes, PlanWishes wishes,
             ChoiceBoard board, std::function<bool()> is_over)
    : environment_(std::move(environment)),
      rank_(rank),
      message_bytes_(message_bytes),
      wishes_(std::move(wishes)),
      board_(board),
      is_over_(std::move(is_over)) {}

Result<CachedPlan*> Plans::look_up(const PlanKey& key) {
  const auto found = plans_.find(key);
  if (found != plans_.end()) return last_ = found->second.get();
  auto made = std::make_unique<CachedPlan>();
  made->key = key;
  made->plan = store_->find(key);
  if (made->plan == nullptr) {
    PEAL_ASSIGN(auto plan, make(key));
    made->plan = store_->put(key, std::move(plan));
  }
  last_ = made.get();
  plans_.emplace(key, std::move(made));
  return last_;
}

tuning::Question Plans::question_of(const PlanKey& key, Bytes bytes) const {
  tuning::Question question;
  question.call.collective = key.collective;
  question.call.bytes = bytes;
  question.call.type = key.type;
  question.call.root = std::max(0, key.root);
  question.call.wide_partials = wants_wide_partials(key);
  if (key.use == PlanUse::internal) return question;
  question.is_deterministic = wishes_.deterministic;
  question.algorithm = wishes_.algorithm;
  question.protocol = wishes_.protocol;
  return question;
}

void Plans::bind_anew(CachedPlan& plan, const executor::Shape& shape) const {
  if (plan.first == nullptr) plan.first = store_->first_binding(plan.key, shape);
  if (plan.first->is_bound_to(shape)) {
    plan.binding = plan.first;
    return;
  }
  if (plan.own == nullptr) plan.own = std::make_unique<executor::Binding>();
  plan.own->bind(*plan.plan, shape);
  plan.binding = plan.own.get();
}

Result<tuning::PredictedTime> Plans::predicted_time(Collective collective, Bytes bytes, DataType type, int root,
                                                    tuning::CoreDistance cores) {
  PlanKey key;
  key.collective = collective;
  key.type = type;
  key.size_class = size_class_of(bytes.value);
  key.root = root;
  PEAL_ASSIGN(const CachedPlan* plan, find(key));
  tuning::Question question = question_of(key, bytes);
  question.algorithm = plan->plan->algorithm;
  // Chosen for the upper end of the class: shorter messages may be below what is read in the sender's memory.
  PEAL_ASSIGN(const schedule::Algorithm* const algorithm, schedule::find_algorithm(collective, question.algorithm));
  PEAL_ASSIGN(const tuning::Plan exact, tuning::make_plan(*environment_, *algorithm, plan->plan->protocol, question.call));
  const bool is_staged = exact.goes_through_slots(*environment_);
  question.protocol = schedule::name_of(is_staged ? schedule::Protocol::staged : plan->plan->protocol);
  tuning::Environment environment = *environment_;
  if (cores != tuning::CoreDistance::unknown) environment.stay_at(cores);
  PEAL_ASSIGN(const tuning::Selection selection, tuning::select(environment, question));
  return tuning::predicted_time(selection);
}

// All that the choice depends on beside the environment. Wishes that differ from rank to rank keep their own choices, and are found out
// by the plans' hashes.
std::uint64_t Plans::choice_key(const PlanKey& key) const {
  std::uint64_t h = static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.root)) | static_cast<std::uint64_t>(key.collective) << 32 |
                    static_cast<std::uint64_t>(key.type) << 40 | static_cast<std::uint64_t>(key.size_class) << 48 |
                    static_cast<std::uint64_t>(key.use) << 59 | static_cast<std::uint64_t>(wishes_.deterministic) << 57 |
                    static_cast<std::uint64_t>(wants_wide_partials(key)) << 58;
  const auto wished = static_cast<std::uint64_t>(executor::plan_hash(wishes_.algorithm + '/' + wishes_.protocol, {}, 0));
  h ^= wished * 0x9e3779b97f4a7c15ull;
  return h | std::uint64_t{1} << 63;
}

// The choice must not depend on what may differ from rank to rank: it is made for the upper end of the size class and out of place;
// only this rank's program then knows that its buffers overlap.
Result<Choice> Plans::choose(const PlanKey& key) const {
  const std::uint64_t shared_key = choice_key(key);
  if (const auto known = board_.find(shared_key, is_over_); known && known->algorithm < schedule::registry().size()) return *known;
  tuning::Question question = question_of(key, upper_end_of(key));
  if (key.use == PlanUse::by_halves) question.algorithm = tuning::way_by_halves(*environment_, question, "");
  const auto selection = tuning::select(*environment_, question);
  if (!selection) {
    board_.give_up(shared_key);
    return pass_on(selection.error());
  }
  const tuning::Candidate& chosen = selection->chosen();
  const auto place = static_cast<std::uint32_t>(chosen.algorithm - schedule::registry().data());
  const Choice choice{place, chosen.protocol, chosen.is_canonical, chosen.message_bytes, chosen.prediction.time.value};
  board_.put(shared_key, choice);
  return choice;
}

Bytes Plans::upper_end_of(const PlanKey& key) {
  return Bytes{key.collective == Collective::barrier ? 0 : std::uint64_t{1} << key.size_class};
}

schedule::Request Plans::request_of(const PlanKey& key) const {
  schedule::Request request = tuning::request_of(*environment_, question_of(key, upper_end_of(key)).call);
  request.in_place = key.in_place;
  return request;
}

Result<std::shared_ptr<const executor::Plan>> Plans::make(const PlanKey& key) const {
  PEAL_ASSIGN(const Choice chosen, choose(key));
  const schedule::Algorithm& algorithm = schedule::registry()[chosen.algorithm];
  PEAL_ASSIGN(const schedule::Schedule schedule, schedule::make_schedule(algorithm, request_of(key)));
  const auto made = std::make_shared<executor::Plan>();
  executor::Plan& plan = *made;
  plan.algorithm = std::string(algorithm.name);
  plan.protocol = chosen.protocol;
  plan.layouts = schedule.layouts;
  plan.pieced = schedule.pieced;
  plan.chunks_a_message = plan.pieced ? schedule::widest_message(schedule) : 1;
  plan.wide_partials = schedule::sends_wide_partials(schedule);
  plan.is_cut_by_transfer = has_private_counts(key.collective);
  if (plan.is_cut_by_transfer && environment_->is_by_sockets_alone()) plan.uncut_by_sockets = environment_->uncut_by_sockets();
  plan.least_referenced =
      plan.is_cut_by_transfer && plan.protocol == schedule::Protocol::direct_read ? environment_->memory.least_read.value : 0;
  plan.message_bytes = plan.uncut_by_sockets > 0 ? message_bytes_
                       : plan.is_cut_by_transfer ? std::min(message_bytes_, schedule::traits_of(chosen.protocol).message_bytes)
                                                 : std::min(message_bytes_, chosen.message_bytes);
  plan.hash = executor::plan_hash(plan.algorithm, plan.protocol, plan.message_bytes, wants_wide_partials(key));
  plan.predicted_ns = chosen.predicted_ns;
  plan.canonical = chosen.is_canonical;
  plan.program = schedule::program_for(schedule, rank_);
  plan.frame = executor::unroll(plan, false);
  return made;
}

bool Plans::is_right(const CachedPlan& plan, bool (*when)(const schedule::Algorithm&, const schedule::Request&)) const {
  const auto algorithm = schedule::find_algorithm(plan.key.collective, plan.plan->algorithm);
  return algorithm && when(**algorithm, request_of(plan.key));
}

bool Plans::may_show(CachedPlan& plan) const {
  if (!plan.may_show) plan.may_show = is_right(plan, schedule::is_right_when_shown);
  return *plan.may_show;
}

bool Plans::may_answer(CachedPlan& plan) const {
  // Most plans ask for no answer: they need no second proof.
  const auto asks = [](const schedule::Op& op) { return op.kind == schedule::OpKind::send && op.dst.count > 0; };
  if (!plan.may_answer)
    plan.may_answer = std::any_of(plan.plan->program.ops.begin(), plan.plan->program.ops.end(), asks) && may_show(plan) &&
                      is_right(plan, schedule::is_right_when_answered);
  return *plan.may_answer;
}

CachedPlan* Plans::by_halves(CachedPlan& plan) {
  if (plan.by_halves) return *plan.by_halves;
  plan.by_halves = nullptr;
  if (!tuning::way_by_halves(*environment_, question_of(plan.key, upper_end_of(plan.key)), plan.plan->algorithm).empty()) {
    PlanKey key = plan.key;
    key.use = PlanUse::by_halves;
    if (const auto found = look_up(key)) plan.by_halves = *found;
  }
  return *plan.by_halves;
}

tuning::Environment restrict_to(const tuning::Environment& whole, const std::vector<int>& members) {
  tuning::Environment part = whole;
  part.ranks = static_cast<int>(members.size());
  std::vector<int> groups;
  std::map<std::int32_t, std::int32_t> cores;  // numbered anew from 0
  part.core_of.clear();
  for (const int member : members) {
    const auto m = static_cast<std::size_t>(member);
    groups.push_back(whole.placement.group.empty() ? 0 : whole.placement.group[m]);
    if (!whole.core_of.empty())
      part.core_of.push_back(cores.emplace(whole.core_of[m], static_cast<std::int32_t>(cores.size())).first->second);
  }
  part.placement = tuning::place_groups(groups);
  part.placement.rings = tuning::host_rings(part.placement, part.ranks);
  part.wiring = {};
  std::vector<int> seen = groups;
  std::sort(seen.begin(), seen.end());
  const auto distinct = static_cast<int>(std::unique(seen.begin(), seen.end()) - seen.begin());
  part.nodes = distinct;
  part.level[0].is_used = whole.level[0].is_used && distinct < part.ranks;
  part.level[1].is_used = whole.level[1].is_used && distinct > 1;
  return part;
}

}  // namespace peal::comm
