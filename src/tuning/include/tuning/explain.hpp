// A selection in words and as JSON (`peal explain`).
#pragma once

#include <string>
#include <tuning/select.hpp>

namespace peal::tuning {

/// Chosen algorithm and protocol, what it beat and by how much, steps, bytes per link, summation order, rounding, sources, exclusions.
std::string explain_text(const Environment& environment, const Selection& selection);

/// {"schema":"peal.explain/1","collective","bytes","ranks","nodes","algorithm","protocol","predicted_us","preferred_for","steps","canonical",
///  "rounding","bytes_per_link":[..],"breakdown_us":{..},"candidates":[..],"excluded":[..],"constants":[..]}
std::string explain_json(const Environment& environment, const Selection& selection);

/// How often a float of 16 or 8 bits is rounded on its way: "once", "once a hop", or "not at all" (no sum of such floats).
std::string_view rounding_of(const Candidate& candidate, const Environment& environment, const Call& call);

}  // namespace peal::tuning
