// Which protocols may carry an algorithm: asked of the verifier, on few ranks, once.
#include <schedule/registry.hpp>
#include <schedule/verify.hpp>

#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

namespace peal::schedule {

namespace {

constexpr std::int32_t kFewRanks = 8;

bool is_right(const Algorithm& algorithm, const Request& request, const VerifyOptions& options) {
  const Result<Schedule> schedule = make_schedule(algorithm, request);
  return schedule && verify(*schedule, options).ok;
}

// The same kind of request on few ranks. Groups, where there are any, are pairs: the smallest hierarchy with every phase. Rings, where
// there are any, are two, there and back.
bool is_right_on_few(const Algorithm& algorithm, const Request& request, const VerifyOptions& options) {
  bool was_asked = false;
  for (const std::int32_t ranks : {kFewRanks, kFewRanks - 1}) {
    for (const std::int32_t root : {0, ranks - 1}) {
      Request few = request;
      few.ranks = ranks;
      few.root = root;
      few.peer = (root + 1) % ranks;
      few.placement = {};
      few.placement.switches = request.placement.switches;
      for (std::int32_t r = 0; r < ranks && !request.placement.group.empty(); ++r) few.placement.group.push_back(r / 2);
      if (!request.placement.rings.empty()) {
        std::vector<std::int32_t> there(static_cast<std::size_t>(ranks));
        std::iota(there.begin(), there.end(), 0);
        few.placement.rings = {there, {there.rbegin(), there.rend()}};
        if (!request.placement.shares.empty()) few.placement.shares = {1, 2};
      }
      if (!algorithm.supports(few)) continue;
      was_asked = true;
      if (!is_right(algorithm, few, options)) return false;
    }
  }
  return was_asked;
}

bool is_right_remembered(const Algorithm& algorithm, const Request& request, const VerifyOptions& options) {
  if (request.ranks <= kFewRanks) return is_right(algorithm, request, options);
  static std::mutex mutex;
  static std::map<std::tuple<const Algorithm*, bool, std::int32_t, bool, bool, bool, bool, Protocol, bool, bool>, bool> known;
  const auto key =
      std::make_tuple(&algorithm, request.in_place, request.radix, !request.placement.group.empty(), !request.placement.rings.empty(),
                      !request.placement.shares.empty(), request.wide_partials, options.protocol, options.shows, options.answers);
  const std::lock_guard lock(mutex);
  const auto at = known.find(key);
  if (at != known.end()) return at->second;
  return known[key] = is_right_on_few(algorithm, request, options);
}

}  // namespace

bool is_right_under(const Algorithm& algorithm, const Request& request, Protocol protocol) {
  VerifyOptions options;
  options.protocol = protocol;
  return is_right_remembered(algorithm, request, options);
}

bool is_right_when_shown(const Algorithm& algorithm, const Request& request) {
  VerifyOptions options;
  options.shows = true;
  return is_right_remembered(algorithm, request, options);
}

bool is_right_when_answered(const Algorithm& algorithm, const Request& request) {
  VerifyOptions options;
  options.shows = options.answers = true;
  return is_right_remembered(algorithm, request, options);
}

}  // namespace peal::schedule
