// The bytes of a Hello, and the client's side of the handshake.
#include <cstring>
#include <net/handshake.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>

#include "crypto.hpp"
#include "handshake_words.hpp"

namespace peal::net {

std::array<std::uint8_t, kHelloBytes> encode(const Hello& hello) {
  WireWriter out;
  out.raw(kHelloMagic.data(), kHelloMagic.size());
  out.u32(hello.party.wire_version).u32(static_cast<std::uint32_t>(hello.party.role)).u32(hello.party.rank).u32(hello.party.size);
  out.u64(hello.party.job).raw(hello.nonce.data(), hello.nonce.size());
  std::array<std::uint8_t, kHelloBytes> bytes{};
  static_assert(kHelloBytes == 8 + 4 * 4 + 8 + 32);
  std::memcpy(bytes.data(), out.bytes().data(), bytes.size());
  return bytes;
}

Result<Hello> parse_hello(std::span<const std::uint8_t, kHelloBytes> bytes) {
  WireReader in{std::span<const std::uint8_t>(bytes)};
  if (in.raw(kHelloMagic.size()) != kHelloMagic) return fail(ErrorCode::corrupt, "these are not Peal's bytes");
  Hello hello;
  hello.party.wire_version = in.u32();
  hello.party.role = static_cast<Role>(in.u32());
  hello.party.rank = in.u32();
  hello.party.size = in.u32();
  hello.party.job = in.u64();
  std::memcpy(hello.nonce.data(), in.raw(hello.nonce.size()).data(), hello.nonce.size());
  return hello;
}

Role counterpart(Role role) {
  switch (role) {
    case Role::root: return Role::member;
    case Role::member: return Role::root;
    case Role::data_acceptor: return Role::data_connector;
    case Role::data_connector: return Role::data_acceptor;
  }
  return Role{};
}

Mac proof_of(const Key& key, std::string_view side, const Hello& connector, const Hello& acceptor) {
  const auto first = encode(connector);
  const auto second = encode(acceptor);
  return authenticate(key, {{reinterpret_cast<const std::uint8_t*>(side.data()), side.size()}, first, second});
}

Failure versions_differ(std::string_view peer, std::uint32_t theirs, std::uint32_t mine) {
  return fail(ErrorCode::refused, "the peer at {} speaks wire version {}, this one {}: install the same Peal on every host", peer, theirs,
              mine)
      .value();
}

Failure jobs_differ(std::string_view peer, std::uint64_t theirs, std::uint64_t mine) {
  return fail(ErrorCode::refused,
              "the peer at {} belongs to job {:016x}, this one to job {:016x}: two jobs share an address; give each its own PEAL_ROOT",
              peer, theirs, mine)
      .value();
}

Failure sizes_differ(std::string_view peer, const Party& theirs, const Party& mine) {
  return fail(ErrorCode::mismatch,
              "rank {} at {} was started as one of {} ranks, rank {} as one of {}: start every rank with the same size", theirs.rank, peer,
              theirs.size, mine.rank, mine.size)
      .value();
}

Failure rank_is_wrong(std::string_view peer, const Party& theirs, const Party& mine) {
  if (theirs.rank == mine.rank)
    return fail(ErrorCode::mismatch,
                "two processes say that they are rank {} of {}, this one and the one at {}: give every process its own rank", mine.rank,
                mine.size, peer)
        .value();
  return fail(ErrorCode::mismatch, "the peer at {} says that it is rank {} of {}: ranks go from 0 to {}", peer, theirs.rank, theirs.size,
              theirs.size - 1)
      .value();
}

Failure keys_differ(std::string_view peer) {
  return fail(ErrorCode::refused, "the peer at {} has another key: give all ranks of the job the same PEAL_KEY_FILE", peer).value();
}

Failure not_peal(std::string_view peer) {
  return fail(ErrorCode::refused, "what talks at {} is not Peal: its first bytes are no handshake; is another program using this port?",
              peer)
      .value();
}

namespace {

/// The failure that the acceptor's verdict stands for, in the words of the connector.
Failure word_verdict(Verdict verdict, std::string_view peer, const Party& theirs, const Party& mine) {
  switch (verdict) {
    case Verdict::wrong_key: return keys_differ(peer);
    case Verdict::wrong_version: return versions_differ(peer, theirs.wire_version, mine.wire_version);
    case Verdict::wrong_job: return jobs_differ(peer, theirs.job, mine.job);
    case Verdict::wrong_size: return sizes_differ(peer, theirs, mine);
    case Verdict::wrong_rank: return rank_is_wrong(peer, Party{mine.role, mine.rank, theirs.size, 0, 0}, theirs);
    case Verdict::wrong_role: break;
    case Verdict::accepted:
    case Verdict::no_verdict: break;
  }
  return fail(ErrorCode::refused, "the peer at {} refuses this connection: it is not the part of the job that was meant to be there", peer)
      .value();
}

tl::unexpected<Failure> connector_failure(Failure failure, std::string_view peer) {
  if (failure.code == ErrorCode::timeout)
    return fail(ErrorCode::timeout, "the peer at {} accepted the connection but did not finish the handshake in time", peer);
  if (failure.code == ErrorCode::unreachable)
    return fail(ErrorCode::unreachable, "the peer at {} closed the connection during the handshake: it has ended or turned this one away",
                peer);
  return pass_on(std::move(failure));
}

}  // namespace

Result<Party> connector_handshake(int fd, const Key& key, const Party& mine, std::string_view peer, std::int64_t deadline_ns) {
  Hello my_hello{mine, {}};
  fill_random(my_hello.nonce);
  const auto hello_bytes = encode(my_hello);
  if (auto sent = send_all(fd, hello_bytes.data(), hello_bytes.size(), deadline_ns); !sent) return connector_failure(sent.error(), peer);

  std::array<std::uint8_t, kHelloBytes> answer{};
  // Magic and version first: another version may have a shorter Hello.
  if (auto got = recv_all(fd, answer.data(), kHelloPrefixBytes, deadline_ns); !got) return connector_failure(got.error(), peer);
  WireReader prefix{std::span<const std::uint8_t>(answer.data(), kHelloPrefixBytes)};
  if (prefix.raw(kHelloMagic.size()) != kHelloMagic) return pass_on(not_peal(peer));
  if (const std::uint32_t theirs = prefix.u32(); theirs != mine.wire_version)
    return pass_on(versions_differ(peer, theirs, mine.wire_version));
  if (auto got = recv_all(fd, answer.data() + kHelloPrefixBytes, kHelloBytes - kHelloPrefixBytes, deadline_ns); !got)
    return connector_failure(got.error(), peer);
  PEAL_ASSIGN(const Hello their_hello, parse_hello(answer));

  const Mac proof = proof_of(key, kConnectorSide, my_hello, their_hello);
  // The acceptor may have refused already and closed; then its verdict is still there to be read.
  const Status proof_sent = send_all(fd, proof.data(), proof.size(), deadline_ns);
  std::array<std::uint8_t, kVerdictBytes> verdict_bytes{};
  if (auto got = recv_all(fd, verdict_bytes.data(), verdict_bytes.size(), deadline_ns); !got)
    return connector_failure(proof_sent ? got.error() : proof_sent.error(), peer);
  WireReader verdict_reader{std::span<const std::uint8_t>(verdict_bytes)};
  const auto verdict = static_cast<Verdict>(verdict_reader.u32());
  if (verdict != Verdict::accepted) return pass_on(word_verdict(verdict, peer, their_hello.party, mine));
  const Mac expected = proof_of(key, kAcceptorSide, my_hello, their_hello);
  if (!is_equal(expected, std::span<const std::uint8_t, kVerdictBytes>(verdict_bytes).last<kMacBytes>())) return pass_on(keys_differ(peer));
  if (their_hello.party.job != mine.job) return pass_on(jobs_differ(peer, their_hello.party.job, mine.job));
  if (their_hello.party.size != mine.size) return pass_on(sizes_differ(peer, their_hello.party, mine));
  if (their_hello.party.role != counterpart(mine.role)) return pass_on(word_verdict(Verdict::wrong_role, peer, their_hello.party, mine));
  return their_hello.party;
}

}  // namespace peal::net
