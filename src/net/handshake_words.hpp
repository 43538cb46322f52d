// What both sides of the handshake share: labels, proofs and the wording of refusals. Private to the room.
#pragma once

#include <net/handshake.hpp>
#include <string_view>

#include "crypto.hpp"

namespace peal::net {

inline constexpr std::string_view kHelloMagic{"\x89PEAL\r\n\x1a", 8};
inline constexpr std::size_t kHelloPrefixBytes = 12;  // magic and version: the same in every version
inline constexpr std::string_view kConnectorSide = "peal-connector-v1";
inline constexpr std::string_view kAcceptorSide = "peal-acceptor--v1";

Mac proof_of(const Key& key, std::string_view side, const Hello& connector, const Hello& acceptor);

Failure versions_differ(std::string_view peer, std::uint32_t theirs, std::uint32_t mine);
Failure jobs_differ(std::string_view peer, std::uint64_t theirs, std::uint64_t mine);
Failure sizes_differ(std::string_view peer, const Party& theirs, const Party& mine);
Failure rank_is_wrong(std::string_view peer, const Party& theirs, const Party& mine);
Failure keys_differ(std::string_view peer);
Failure not_peal(std::string_view peer);

}  // namespace peal::net
