#include "verify_clocks.hpp"

#include <algorithm>

namespace peal::schedule {

void StrandClock::learn(const Stamp& stamp) {
  // Who knows a strand at a time knows all that it knew then.
  if (of(stamp.strand) >= stamp.time) return;
  if (!known_) {
    known_ = stamp.known ? std::make_shared<std::vector<std::uint32_t>>(*stamp.known)
                         : std::make_shared<std::vector<std::uint32_t>>(strands_, 0U);
  } else {
    if (known_.use_count() > 1) known_ = std::make_shared<std::vector<std::uint32_t>>(*known_);
    if (stamp.known)
      for (std::size_t s = 0; s < strands_; ++s) (*known_)[s] = std::max((*known_)[s], (*stamp.known)[s]);
  }
  (*known_)[stamp.strand] = std::max((*known_)[stamp.strand], stamp.time);
}

AccessLog::Access AccessLog::read(StrandId strand, const StrandClock& clock) {
  const auto same = std::find_if(reads_.begin(), reads_.end(), [&](const Access& a) { return a.strand == strand; });
  if (same != reads_.end())
    same->time = clock.time();
  else
    reads_.push_back({strand, clock.time()});
  if (write_.strand != kNoStrand && clock.of(write_.strand) < write_.time) return write_;
  return {};
}

AccessLog::Access AccessLog::write(StrandId strand, const StrandClock& clock) {
  Access conflict;
  if (write_.strand != kNoStrand && clock.of(write_.strand) < write_.time) conflict = write_;
  for (const Access& a : reads_)
    if (conflict.strand == kNoStrand && clock.of(a.strand) < a.time) conflict = a;
  reads_.clear();
  write_ = {strand, clock.time()};
  return conflict;
}

}  // namespace peal::schedule
