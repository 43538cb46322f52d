// What one simulated call says about itself, in words and as JSON: what was used, what the last rank waited for, who stands after a
// failure. Pure functions of an outcome; texts end with a newline.
#pragma once

#include <sim/interpret.hpp>
#include <string>

namespace peal::sim {

/// What crossed every resource, busiest first, resources alike in one line, and the bottleneck in words.
std::string use_text(const Outcome& outcome, const topology::Resources& resources);
/// [{"name","bytes","GBps","share"}, ...], one entry a resource, busiest first: the names that --slow-link and --dead-link take.
std::string use_json(const Outcome& outcome);

/// Shares of the critical path, and its way in legs: ops of one kind that follow one another.
std::string path_text(const Outcome& outcome);
/// {"rank","time_us","shares_us":{..},"legs":[{"op","ranks","steps","start_us","end_us","shares_us"}]}
std::string path_json(const Outcome& outcome);

/// When the messages that were asked for began and arrived.
std::string messages_text(const Outcome& outcome, std::span<const MessageAsked> asked);
/// [{"from","to","channel","number","count","began_us","arrived_us"}]; a time is null where there is none.
std::string messages_json(const Outcome& outcome);

/// Who waits for whom after a rank has failed, from when on, and when they would know.
std::string failure_text(const Outcome& outcome, const RankFailure& failure);
/// {"rank","time_us","stuck":[{"rank","since_us","waits_for","op"}],"finished":N}
std::string failure_json(const Outcome& outcome, const RankFailure& failure);

}  // namespace peal::sim
