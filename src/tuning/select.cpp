#include <algorithm>
#include <map>
#include <mutex>
#include <schedule/verify.hpp>
#include <tuning/message_cost.hpp>
#include <tuning/select.hpp>
#include <tuple>

namespace peal::tuning {

using schedule::Protocol;

namespace {

std::string names_of(const Environment& environment) {
  std::string names;
  for (const Offer& o : environment.offers) names += fmt::format("{}{}", names.empty() ? "" : ", ", schedule::name_of(o.protocol));
  return names;
}

constexpr std::string_view kPat = "pat";

/// Where ranks are processes on cores these are taken only when asked for by name, or where `peal tune` measured them: there the cost model
/// does not charge what their many strands and copies cost, and untuned they have won no measurement (bench/RESULTS.md).
constexpr std::string_view kOnlyByNameOnHosts[] = {"bidirectional_ring", "binary_tree", "bruck", "double_binary_tree", "multi_ring", kPat};

bool is_only_by_name(const Environment& environment, const schedule::Algorithm& algorithm) {
  if (!environment.is_host) return false;
  if (algorithm.name == kPat && algorithm.collective == Collective::all_gather && environment.is_pair_by_sockets()) return false;
  return std::find(std::begin(kOnlyByNameOnHosts), std::end(kOnlyByNameOnHosts), algorithm.name) != std::end(kOnlyByNameOnHosts);
}

constexpr std::string_view kStar = "star";

/// Beyond this the centre of an all_gather takes longer to send everything to everybody than all take to send their own: 64 ranks on two
/// cores 0.4 times as long as straight with 64 KiB, 2.2 with 512.
constexpr Bytes kMostThroughCentre = {64 * 1024};

/// Where each has a core, or is a GPU, the others wait for the centre's, and between hosts its bytes cross once for every rank: taken there
/// only when asked for by name.
Status check_star(const Environment& environment, const Call& call) {
  if (!environment.is_host || !environment.shares_cores() || environment.is_used(1))
    return fail(ErrorCode::unsupported,
                "its messages all pass one rank: it is for ranks of one host that share cores, else taken only when asked for by name");
  if (call.collective == Collective::all_gather && call.bytes > kMostThroughCentre)
    return fail(ErrorCode::unsupported, "all_gathers of more than {} bytes go straight", kMostThroughCentre.value);
  return {};
}

bool is_measured(const Environment& environment, const std::vector<DistanceShare>& distances, const schedule::Algorithm& algorithm,
                 Protocol protocol) {
  return std::any_of(distances.begin(), distances.end(), [&](const DistanceShare& at) {
    return environment.measured_way(algorithm.collective, algorithm.name, protocol, at.cores) != nullptr;
  });
}

bool is_measured(const Environment& environment, const std::vector<DistanceShare>& distances, const schedule::Algorithm& algorithm) {
  return std::any_of(environment.offers.begin(), environment.offers.end(),
                     [&](const Offer& offer) { return is_measured(environment, distances, algorithm, offer.protocol); });
}

/// Why an algorithm cannot serve the call under any protocol; ok when it can.
Status check_algorithm(const Environment& environment, const std::vector<DistanceShare>& distances, const Question& question,
                       const schedule::Algorithm& algorithm, const schedule::Request& request) {
  for (int l = 0; request.ranks > 1 && l < kLevels; ++l) {
    const bool takes_switches = (algorithm.switches & (l == 0 ? schedule::kSwitchesInside : schedule::kSwitchesBetween)) != 0;
    if (takes_switches && environment.is_used(l) && !environment.switches[l].computes)
      return fail(ErrorCode::unsupported, "{}", environment.switches[l].why_not);
  }
  if (request.ranks > 1) PEAL_TRY(algorithm.supports(request));
  if (question.is_deterministic && request.ranks > 1 && !algorithm.is_canonical(request))
    return fail(ErrorCode::unsupported, "it does not sum in the canonical order, and results must be deterministic");
  if (question.is_deterministic && request.ranks > 2 && has_reduction(request.collective) && is_narrow(question.call.type) &&
      !algorithm.sums_at_once && !request.wide_partials)
    return fail(ErrorCode::unsupported,
                "it rounds sums of {} at every hop, and deterministic results are rounded once, at their owner; "
                "with f32 partial sums (PEAL_PARTIAL_SUMS=f32) it may serve",
                name_of(question.call.type));
  if (question.algorithm.empty() && is_only_by_name(environment, algorithm) && !is_measured(environment, distances, algorithm))
    return fail(ErrorCode::unsupported, "on a host it is taken only when asked for by name");
  if (question.algorithm.empty() && algorithm.name == kStar) return check_star(environment, question.call);
  return {};
}

/// What the verifier says of a schedule under a protocol; asked once a process for each request. Thread-safe.
std::string proof_of(const schedule::Schedule& schedule, Protocol protocol) {
  const schedule::Request& r = schedule.request;
  std::string key = fmt::format("{}/{}/{}/{}/{}/{}/{}/{}", static_cast<int>(r.collective), schedule.name, static_cast<int>(protocol),
                                r.ranks, r.root, r.peer, r.in_place, r.wide_partials);
  std::vector<const std::vector<std::int32_t>*> lists{&r.placement.ring, &r.placement.group, &r.placement.shares};
  for (const auto& ring : r.placement.rings) lists.push_back(&ring);
  for (const auto* list : lists) {
    key += '/';
    for (std::int32_t x : *list) key += fmt::format("{},", x);
  }
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  const schedule::Verdict verdict = schedule::verify(schedule, {.protocol = protocol});
  std::string why = verdict.ok ? "" : verdict.why;
  const std::lock_guard lock(mutex);
  return known.emplace(std::move(key), std::move(why)).first->second;
}

/// Slots that hold a copy suit every schedule of the registry (a test proves it up to 64 ranks). Protocols that use the buffers
/// themselves, or have no slots, suit some: the verifier decides.
Status check_safety(const Plan& plan) {
  const schedule::ProtocolTraits& traits = schedule::traits_of(plan.protocol);
  if (plan.schedule.request.ranks == 1 || (traits.snapshots && !traits.rendezvous)) return {};
  if (plan.schedule.request.ranks > kMostProvenRanks)
    return fail(ErrorCode::unsupported, "{} is used only where it is proven, up to {} ranks", traits.name, kMostProvenRanks);
  if (const std::string why = proof_of(plan.schedule, plan.protocol); !why.empty())
    return fail(ErrorCode::unsupported, "not safe: {}", why);
  return {};
}

/// In which the longest message of an op goes, or the pieces of a plan in pieces.
double messages_of(const Plan& plan) {
  return plan.schedule.pieced ? plan.pieces.count
                              : static_cast<double>(plan.slices(plan.bytes_of(schedule::kInput, 0, 1, 0, schedule::Wire::element)));
}

Status check_protocol(const Environment& environment, const schedule::Algorithm& algorithm, const Plan& plan) {
  if (algorithm.switches != 0 && plan.protocol != Protocol::staged && plan.schedule.request.ranks > 1)
    return fail(ErrorCode::unsupported, "what switches compute takes the protocol staged alone");
  if (plan.protocol == Protocol::fused) {
    const std::string routine = fmt::format("{}/{}", name_of(algorithm.collective), algorithm.name);
    if (std::find(environment.fused.begin(), environment.fused.end(), routine) == environment.fused.end())
      return fail(ErrorCode::unsupported, "no hand-written routine equals this schedule");
  }
  if (plan.protocol == Protocol::line && messages_of(plan) > kMostLinePieces)
    return fail(ErrorCode::unsupported, "{} bytes would take more than {} messages of {} bytes", plan.call.bytes.value, kMostLinePieces,
                plan.message_bytes);
  return check_safety(plan);
}

/// What goes through slots all the same is left to staged, unless it is asked for by name; so are lines where ranks share cores, and any
/// message of several lines may wait for turns.
Status check_length(const Environment& environment, const Plan& plan) {
  if (plan.protocol == Protocol::line && environment.is_host && environment.shares_cores() && messages_of(plan) > 1)
    return fail(ErrorCode::unsupported, "ranks share cores, and messages of several lines take turns");
  if (!plan.goes_through_slots(environment)) return {};
  return fail(ErrorCode::unsupported, "its messages are shorter than {} bytes and go through slots, as those of staged do",
              environment.memory.least_read.value);
}

/// A place in the list of what is judged.
struct Judge {
  const Environment& environment;
  const Question& question;
  Selection& selection;
  std::vector<DistanceShare> distances = environment.distances();
  bool is_measured_in_place = environment.is_measured_in_place(question.call.collective, question.call.bytes.value);
  std::vector<DistanceTimes> measured = {}, measured_in_place = {};  // of the candidates

  void exclude(std::string_view algorithm, std::optional<Protocol> protocol, const Failure& why) {
    selection.excluded.push_back({std::string(algorithm), protocol, why.message});
  }

  static std::optional<double> time_of(const Prediction& prediction) {
    return prediction.time.value > 0 ? std::optional(prediction.time.value) : std::nullopt;
  }

  /// Nanoseconds of the call, were it of so many bytes.
  std::optional<double> predicted_at(const schedule::Algorithm& algorithm, const Offer& offer, std::uint64_t bytes) const {
    Call call = question.call;
    call.bytes = {bytes};
    const auto plan = make_plan(environment, algorithm, offer.protocol, call);
    return plan ? time_of(predict(environment, *plan)) : std::nullopt;
  }

  void consider(const schedule::Algorithm& algorithm, const std::optional<Protocol>& forced) {
    const schedule::Request request = request_of(environment, question.call);
    if (auto ok = check_algorithm(environment, distances, question, algorithm, request); !ok)
      return exclude(algorithm.name, std::nullopt, ok.error());
    for (const Offer& offer : environment.offers) {
      if (forced && *forced != offer.protocol) continue;
      auto plan = make_plan(environment, algorithm, offer.protocol, question.call);
      if (!plan) {
        exclude(algorithm.name, offer.protocol, plan.error());
        continue;
      }
      Status ok = check_protocol(environment, algorithm, *plan);
      if (ok && !forced) ok = check_length(environment, *plan);
      if (ok && !forced && !question.is_to_measure) ok = check_most_read(*plan);
      if (!ok) {
        exclude(algorithm.name, offer.protocol, ok.error());
        continue;
      }
      Candidate candidate;
      candidate.algorithm = &algorithm;
      candidate.protocol = offer.protocol;
      candidate.is_canonical = request.ranks == 1 || algorithm.is_canonical(request);
      candidate.pieces = plan->pieces.count;
      candidate.message_bytes = plan->message_bytes;
      candidate.slots = plan->slots;
      candidate.prediction = predict(environment, *plan);
      measured.emplace_back();
      measured_in_place.emplace_back();
      if (!request.wide_partials) take_measured_times(candidate, offer);
      selection.candidates.push_back(std::move(candidate));
    }
  }

  /// What slots carry faster is left to them, unless `peal tune` has measured it. Where groups are read in place, they are whatever their
  /// length.
  Status check_most_read(const Plan& plan) const {
    const bool is_group = question.call.collective == Collective::send_recv && reads_in_place(environment);
    if (is_group || !plan.is_too_long_to_read(environment) || is_measured(environment, distances, *plan.algorithm, plan.protocol))
      return {};
    return fail(ErrorCode::unsupported, "its messages are longer than {} bytes, and those of staged are faster then",
                environment.memory.most_read.value);
  }

  /// Of the candidate at hand. What was measured carried its partial sums in their own type.
  void take_measured_times(const Candidate& candidate, const Offer& offer) {
    const std::uint64_t asked = question.call.bytes.value;
    std::map<std::uint64_t, std::optional<double>> known{{asked, time_of(candidate.prediction)}};
    const auto shape = [&](std::uint64_t bytes) {
      const auto place = known.find(bytes);
      return place != known.end() ? place->second : known[bytes] = predicted_at(*candidate.algorithm, offer, bytes);
    };
    for (const DistanceShare& at : distances) {
      const auto time = [&](bool in_place) {
        const MeasuredWay* const way =
            environment.measured_way(question.call.collective, candidate.algorithm->name, offer.protocol, at.cores, in_place);
        return way == nullptr ? 0 : way->time_us(asked, shape).value_or(0);
      };
      measured.back()[static_cast<std::size_t>(at.cores)] = time(false);
      if (is_measured_in_place) measured_in_place.back()[static_cast<std::size_t>(at.cores)] = time(true);
    }
  }

  /// When all have been considered.
  void take_means() {
    const std::vector<double> means = mean_over_distances(measured, distances);
    const std::vector<double> in_place = mean_over_distances(measured_in_place, distances);
    for (std::size_t i = 0; i < means.size(); ++i) {
      if (means[i] > 0) selection.candidates[i].measured_us = means[i];
      if (means[i] > 0 && in_place[i] > 0) selection.candidates[i].measured_in_place_us = in_place[i];
    }
  }
};

Status check_call(const Environment& environment, const Call& call) {
  const int n = environment.ranks;
  if (has_root(call.collective) && (call.root < 0 || call.root >= n))
    return fail(ErrorCode::invalid_argument, "root {} is not a rank: give 0 to {}", call.root, n - 1);
  if (call.collective == Collective::send_recv && (call.root < 0 || call.root >= n || call.peer < 0 || call.peer >= n))
    return fail(ErrorCode::invalid_argument, "send_recv from {} to {}: give ranks from 0 to {}", call.root, call.peer, n - 1);
  return {};
}

// "ring, tree with line: too long; hierarchical: needs two groups": algorithms that are excluded for one reason stand together.
std::string summary_of(const std::vector<Exclusion>& excluded) {
  struct Group {
    const Exclusion* first;
    std::string names;
  };
  std::vector<Group> groups;
  for (const Exclusion& e : excluded) {
    const auto known = std::find_if(groups.begin(), groups.end(),
                                    [&](const Group& g) { return g.first->protocol == e.protocol && g.first->why == e.why; });
    if (known == groups.end())
      groups.push_back({&e, e.algorithm});
    else
      known->names += ", " + e.algorithm;
  }
  std::string text;
  for (const Group& g : groups)
    text += fmt::format("{}{}{}{}: {}", text.empty() ? "" : "; ", g.names, g.first->protocol ? " with " : "",
                        g.first->protocol ? schedule::name_of(*g.first->protocol) : "", g.first->why);
  return text;
}

/// Between hosts what a message costs is known least: many an interface does not say its rate, and others may use it. So among ways whose
/// predicted times are near the best one's, that is taken which sends the fewest bytes out of, or into, the busiest host; and of those one
/// that sends the fewest between all. Links between containers are taken for free, and may be shaped to a hundredth of that; from 64 KiB on
/// that can cost more than all the rest (bench/RESULTS.md, "Between containers"), so that for them more ways are near.
constexpr double kNearInTime = 1.25;
constexpr double kNearBetweenContainers = 1.6;
constexpr std::uint64_t kLeastOfLinks = 64 * 1024;
constexpr double kFewer = 0.97;
/// On a host every step still waits for another process, and how long that takes is known less than what copying takes. So of ways whose
/// predicted times are as good as equal, that with the fewest steps is taken; and of those one whose sums are made at once, because they
/// are rounded once, and read where they lie if the buffers are shown.
constexpr double kAsGood = 1.05;
/// Of two ranks by sockets, whose steps begin with a system call and an acknowledgement (bench/RESULTS.md, "Loopback"), and of ranks that
/// share cores, who may wait a turn for every step ("Whole messages").
constexpr double kAsGoodWhereStepsWait = 1.1;
/// Nanoseconds that a step more costs two ranks by sockets, at most, beside what is predicted ("A mebibyte by one call").
constexpr double kStepBySockets = 30e3;
/// The answers of a star all wait until its centre has its turn, which comes later than is predicted: a way of fewer steps that seems to
/// take up to so many times as long takes as long (bench/RESULTS.md, "Many ranks on a core").
constexpr double kAsGoodAsAStar = 1.4;
/// Ranks that share cores take turns, and where the cores lie is not known beforehand. While they are near each other a tree, which few
/// messages take from core to core, takes as long for an all-reduce as everybody sending to everybody, and half of it when they are far
/// (bench/RESULTS.md, "More ranks than cores"). What is longer waits for memory more than for the other core. A star that seems faster is
/// so wherever the cores lie (64 ranks: by 1.4).
constexpr double kFewerBetweenCores = 0.6;

/// Puts in front the best of those that take up to `longest`, ns, unless times are measured or not exact. True when it takes longer than
/// what was in front.
template <class Better>
bool prefer(std::vector<Candidate>& candidates, double longest, Better&& is_better) {
  if (candidates.empty() || candidates.front().measured_us || !candidates.front().prediction.is_walked) return false;
  auto best = candidates.begin();
  for (auto other = best + 1; other != candidates.end() && other->prediction.time.value <= longest; ++other)
    if (other->prediction.is_walked && is_better(*other, *best)) best = other;
  const bool is_slower = best->prediction.time > candidates.front().prediction.time;
  std::rotate(candidates.begin(), best, best + 1);
  return is_slower;
}

/// Than so many times what the other sends between hosts, or between cores.
auto crosses_less(double share) {
  return [share](const Candidate& a, const Candidate& b) { return a.prediction.crossed < share * b.prediction.crossed; };
}

bool spares_links(const Candidate& a, const Candidate& b) {
  if (a.prediction.busiest_group < kFewer * b.prediction.busiest_group) return true;
  return a.prediction.busiest_group * kFewer <= b.prediction.busiest_group && crosses_less(kFewer)(a, b);
}

/// Several that send to one host at once meet in its switch, and a shaped or full link then drops: at 10 Gb/s a reduce_scatter of 16 MiB
/// takes 1.5 times as long straight as round a ring (bench/RESULTS.md). So of long ways that send no more, that with fewest senders. Short
/// ones fit into the switch, and every step costs them.
constexpr std::uint64_t kLeastInTurn = 2 * 1024 * 1024;
bool meets_less(const Candidate& a, const Candidate& b) {
  return a.prediction.channels_into_group < b.prediction.channels_into_group &&
         a.prediction.busiest_group * kFewer <= b.prediction.busiest_group && a.prediction.crossed * kFewer <= b.prediction.crossed;
}

/// Two ranks with a core each that exchange several pieces through memory: by these ways each is taken out before the next is sent, by
/// others as many are sent first as there are slots. Two pieces that are gathered take 0.81 to 0.94 times as long so between far cores and
/// as long between near ones, of more pieces it is the other way round; all to all it is never longer, and 0.82 to 0.87 times from 4 MiB on
/// between near cores (bench/RESULTS.md).
bool alternates(const Candidate& candidate) {
  const std::string_view name = candidate.algorithm->name;
  return name == "recursive_doubling" ? candidate.pieces == 2 : name == "pairwise" && candidate.pieces > 1;
}

/// An all_reduce of two ranks in several pieces: by these ways each is taken before the next is sent. Where calls in place go through slots
/// although others are read, that takes 0.95 to 0.98 of the time in place from 1 MiB on, by sockets 0.90 with 1 MiB, which goes in two
/// pieces; out of place it is the same (bench/RESULTS.md, "Two ranks on an Emerald Rapids", "Loopback").
bool takes_before_it_sends(const Environment& environment, const Candidate& candidate) {
  const std::string_view name = candidate.algorithm->name;
  if (candidate.pieces == 1) return false;
  if (environment.is_pair_by_sockets()) return name == "recursive_doubling";
  return candidate.protocol == Protocol::direct_read && !environment.memory.is_read_overwritten &&
         (name == "recursive_doubling" || name == "rabenseifner");
}

/// Two ranks that gather two pieces each by sockets: pat keeps its own block where it receives, so that both pieces are on their way before
/// that; direct keeps each right behind its message, and takes 1.09 to 1.16 times as long (bench/RESULTS.md, "Loopback").
bool keeps_while_it_waits(const Candidate& candidate) { return candidate.pieces == 2 && candidate.algorithm->name == kPat; }

/// Of ways that take as few bytes from core to core: one that goes whole, or one in which no rank has so much to do. The messages of a tree
/// all pass its root, and who sums there is waited for (bench/RESULTS.md, "Whole messages", "Ranks that share the cores of an Emerald
/// Rapids").
bool crosses_as_little_and_is_plainer(const Candidate& a, const Candidate& b) {
  if (a.prediction.crossed > b.prediction.crossed) return false;
  if ((a.pieces == 1) != (b.pieces == 1)) return a.pieces == 1;
  return a.prediction.bytes[0] < kFewer * b.prediction.bytes[0];
}

bool stays_within_cores(const Environment& environment, const Call& call) {
  return environment.shares_cores() && call.collective == Collective::all_reduce && call.bytes >= environment.least_within_cores &&
         call.bytes <= environment.most_within_cores;
}

/// Shorter ones, and sums for a root: a message that crosses costs more than is predicted, and every step a turn (bench/RESULTS.md, "Ranks
/// that share the cores of an Emerald Rapids").
bool is_short_within_cores(const Environment& environment, const Call& call) {
  const bool is_there = environment.shares_cores() && environment.least_plain_within_cores.value > 0;
  if (!is_there || call.bytes < environment.least_plain_within_cores) return false;
  if (call.collective == Collective::reduce) return call.bytes <= environment.least_within_cores;
  return call.collective == Collective::all_reduce && call.bytes < environment.least_within_cores;
}

/// An all-reduce of two ranks waits more for memory than for messages from here on, and whether each sums all of it or a half depends on
/// what lies in which cache: that was measured for the processor (bench/RESULTS.md, "Whole sums or halves").
constexpr std::uint64_t kLeastWhole = 128 * 1024;
constexpr std::string_view kWhole = "one_shot";
constexpr std::string_view kByHalves = "two_shot";
bool is_summed_whole(const Environment& environment, const Call& call) {
  const topology::MemoryTerms& memory = environment.memory;
  return is_pair(environment) && call.collective == Collective::all_reduce && call.bytes.value >= kLeastWhole &&
         memory.most_halved.value > 0 && (call.bytes < memory.least_halved || call.bytes > memory.most_halved);
}

void prefer_sparing(const Environment& environment, Selection& selection) {
  std::vector<Candidate>& candidates = selection.candidates;
  const double fastest = candidates.empty() ? 0 : candidates.front().prediction.time.value;
  const Call& call = selection.question.call;
  const bool is_star = !candidates.empty() && candidates.front().algorithm->name == kStar;
  if (environment.is_by_sockets(1)) {
    const bool is_unknown = environment.are_containers() && call.bytes.value >= kLeastOfLinks;
    if (prefer(candidates, fastest * (is_unknown ? kNearBetweenContainers : kNearInTime), spares_links))
      selection.preferred_for = "fewer bytes between hosts";
    if (call.bytes.value >= kLeastInTurn && prefer(candidates, fastest * kNearInTime, meets_less))
      selection.preferred_for = "fewer ranks that send to one host at once";
  } else if (stays_within_cores(environment, call)) {
    if (!is_star && prefer(candidates, fastest * kNearInTime, crosses_less(kFewerBetweenCores)))
      selection.preferred_for = "fewer bytes between cores";
    // Beside the one that is in front by now.
    if (!is_star && prefer(candidates, candidates.front().prediction.time.value * kAsGoodWhereStepsWait, crosses_as_little_and_is_plainer))
      selection.preferred_for = "as few bytes between cores, and whole messages or fewer for the busiest rank";
  } else if (is_short_within_cores(environment, call)) {
    const double few = candidates.empty() ? 0 : kFewerBetweenCores * candidates.front().prediction.crossed;
    const auto crosses_few_in_fewer_steps = [few](const Candidate& a, const Candidate& b) {
      return a.prediction.crossed < few && (b.prediction.crossed >= few || a.prediction.steps < b.prediction.steps);
    };
    if (prefer(candidates, fastest * kNearInTime, crosses_few_in_fewer_steps))
      selection.preferred_for = "fewer bytes between cores, in as few steps as that takes";
  } else if (environment.is_host) {
    const bool is_pair_by_memory = is_pair(environment);
    const bool is_pair_at_all = is_pair_by_memory || environment.is_pair_by_sockets();
    // Of two ranks: what a way does between one message and the next.
    const auto is_in_better_order = [&](const Candidate& c) {
      if (call.collective == Collective::all_reduce) return is_pair_at_all && takes_before_it_sends(environment, c);
      if (call.collective == Collective::all_gather) return is_pair_by_memory ? alternates(c) : is_pair_at_all && keeps_while_it_waits(c);
      return call.collective == Collective::all_to_all && is_pair_by_memory && alternates(c);
    };
    const auto is_plainer = [&](const Candidate& a, const Candidate& b) {
      if (a.prediction.steps != b.prediction.steps) return a.prediction.steps < b.prediction.steps;
      if (is_in_better_order(a) != is_in_better_order(b)) return is_in_better_order(a);
      return a.algorithm->sums_at_once && !b.algorithm->sums_at_once;
    };
    const bool do_steps_wait = environment.is_pair_by_sockets() || environment.shares_cores();
    const double as_good = is_star ? kAsGoodAsAStar : do_steps_wait ? kAsGoodWhereStepsWait : kAsGood;
    const double step = environment.is_pair_by_sockets() ? kStepBySockets : 0;
    if (prefer(candidates, std::max(fastest * as_good, fastest + step), is_plainer))
      selection.preferred_for = "fewer steps, or sums made at once";
    const auto is_whole = [](const Candidate& a, const Candidate& b) { return a.algorithm->name == kWhole && b.algorithm->name != kWhole; };
    if (is_summed_whole(environment, call) && prefer(candidates, fastest * kNearInTime, is_whole))
      selection.preferred_for = "whole sums at both, which were measured to be faster";
  }
}

}  // namespace

std::string_view way_by_halves(const Environment& environment, const Question& question, std::string_view chosen) {
  const bool is_free = question.algorithm.empty() && question.protocol.empty();
  return is_free && environment.is_host && is_pair(environment) && question.call.collective == Collective::all_reduce && chosen != kByHalves
             ? kByHalves
             : "";
}

Result<Selection> select(const Environment& environment, const Question& question) {
  PEAL_TRY(check_call(environment, question.call));
  Selection selection;
  selection.question = question;
  std::optional<Protocol> protocol;
  if (!question.protocol.empty()) {
    PEAL_ASSIGN(protocol, schedule::parse_protocol(question.protocol));
    if (environment.offer(*protocol) == nullptr) {
      std::string why = "it has no constants here";
      for (const Refusal& r : environment.refusals)
        if (r.protocol == *protocol) why = r.why;
      return fail(ErrorCode::unsupported, "the protocol {} cannot be used between these ranks: {}; it can be: {}", question.protocol, why,
                  names_of(environment));
    }
  }
  Judge judge{environment, question, selection};
  if (!question.algorithm.empty()) {
    PEAL_ASSIGN(const schedule::Algorithm* const algorithm, schedule::find_algorithm(question.call.collective, question.algorithm));
    judge.consider(*algorithm, protocol);
    if (!environment.is_host)
      for (const schedule::Algorithm* other : schedule::algorithms_for(question.call.collective))
        if (other->form_of == question.algorithm) judge.consider(*other, protocol);
  } else {
    for (const schedule::Algorithm* algorithm : schedule::algorithms_for(question.call.collective)) judge.consider(*algorithm, protocol);
  }
  judge.take_means();
  if (selection.candidates.empty()) {
    const std::string why = summary_of(selection.excluded);
    return fail(ErrorCode::unsupported, "no way to run {} of {} bytes on {} ranks{}{}: {}", name_of(question.call.collective),
                question.call.bytes.value, environment.ranks, question.algorithm.empty() ? "" : fmt::format(" by {}", question.algorithm),
                question.protocol.empty() ? "" : fmt::format(" with {}", question.protocol),
                why.empty() ? "the registry has no algorithm for it" : why);
  }
  // What is chosen serves calls in place, too: a rank does not know whether the others' are (Plans::choose). So where both were measured
  // the product counts, and what loses by a share in the one must win by more in the other.
  const auto rank_of = [](const Candidate& c) {
    const double time = c.measured_us ? *c.measured_us * c.measured_in_place_us.value_or(1) : c.prediction.time.value;
    return std::tuple{!c.measured_us, !c.measured_in_place_us, time};
  };
  // Stable: equal times keep the order of the registry and of the protocols, on every rank.
  std::stable_sort(selection.candidates.begin(), selection.candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return rank_of(a) < rank_of(b); });
  prefer_sparing(environment, selection);
  return selection;
}

}  // namespace peal::tuning
