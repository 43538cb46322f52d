#include <base/names.hpp>
#include <executor/call_signature.hpp>

namespace peal::executor {

CallSignature from_tag(const transport::Tag& tag) {
  CallSignature call;
  call.count = tag.words[0];
  call.sequence = static_cast<std::uint32_t>(tag.words[1] >> 32);
  call.root = static_cast<std::int32_t>(tag.words[1] & 0xffffffffu);
  call.plan = static_cast<std::uint32_t>(tag.words[2] >> 32);
  call.collective = static_cast<Collective>((tag.words[2] >> 16 & 0xff) % kCollectiveCount);
  call.type = static_cast<DataType>((tag.words[2] >> 8 & 0xff) % kDataTypeCount);
  call.op = static_cast<ReduceOp>((tag.words[2] & 0xff) % kReduceOpCount);
  return call;
}

bool are_at_odds(const CallSignature& a, const CallSignature& b) {
  const bool are_collective = a.collective != Collective::send_recv && b.collective != Collective::send_recv;
  return are_collective && a.sequence == b.sequence && to_tag(a) != to_tag(b);
}

std::string describe(const CallSignature& call) {
  if (call.collective == Collective::barrier) return fmt::format("barrier, call {}", call.sequence);
  // The v-collectives' counts are no part of the call, but where one transfer's is known it is said.
  const bool has_no_count = varies(call.collective) && call.count == 0;
  std::string text = has_no_count ? fmt::format("{} of {}", name_of(call.collective), name_of(call.type))
                                  : fmt::format("{} of {} {}", name_of(call.collective), call.count, name_of(call.type));
  if (has_reduction(call.collective))
    text += fmt::format(" ({}{})", name_of(call.op), (call.plan & kWidePartialsHash) != 0 ? ", partial sums in f32" : "");
  if (call.root >= 0 && call.collective != Collective::send_recv) text += fmt::format(" with root {}", call.root);
  return text + fmt::format(", call {}", call.sequence);
}

namespace {

std::string how_they_differ(const CallSignature& mine, int peer, const CallSignature& theirs) {
  const std::string both = fmt::format("rank {} called {} while this rank called {}", peer, describe(theirs), describe(mine));
  if (theirs.sequence != mine.sequence && theirs.collective == mine.collective && theirs.collective != Collective::send_recv)
    return both + "; one of them left out or added a call before this one";
  CallSignature same_plan = theirs;
  same_plan.plan = mine.plan;
  if (to_tag(same_plan) == to_tag(mine))
    return both + (((theirs.plan ^ mine.plan) & kWidePartialsHash) != 0
                       ? "; give all ranks the same PEAL_PARTIAL_SUMS or Options::f32_partial_sums"
                       : "; the calls agree but the ranks chose different plans: give all ranks the same PEAL_ALGORITHM, PEAL_PROTOCOL and "
                         "PEAL_TRANSPORT");
  return both + "; all ranks must make the same calls in the same order, with the same type, operator, count and root";
}

Failure mismatch(const CallSignature& mine, int peer, std::string message) {
  return {ErrorCode::mismatch, std::move(message), peer, peer, std::string(name_of(mine.collective))};
}

}  // namespace

Failure mismatch_of_calls(const CallSignature& mine, int peer, const CallSignature& theirs) {
  return mismatch(mine, peer, how_they_differ(mine, peer, theirs));
}

Failure mismatch_of_message(const CallSignature& mine, int peer, bool is_marked, std::size_t got, std::size_t expected,
                            const transport::Tag* tag) {
  if (is_marked && tag == nullptr)
    return mismatch(mine, peer, fmt::format("rank {} is still sending for an earlier call than {}", peer, describe(mine)));
  if (is_marked && to_tag(from_tag(*tag)) != to_tag(mine)) return mismatch_of_calls(mine, peer, from_tag(*tag));
  if (!is_marked && tag != nullptr)
    return mismatch(mine, peer, fmt::format("rank {} went on to {} in the middle of {}", peer, describe(from_tag(*tag)), describe(mine)));
  return mismatch(mine, peer,
                  fmt::format("rank {} sent {} bytes where {} were expected in {}; the counts of the two ranks differ", peer, got, expected,
                              describe(mine)));
}

}  // namespace peal::executor
