// Layout: 0 magic (8) · 8 job id (8) · 16 key (32) · 48 length of the address text (1) · 49 address text, zero padded (63) · 112 check
// (16).
#include <unistd.h>

#include <bootstrap/unique_id.hpp>
#include <cstring>
#include <net/key.hpp>
#include <net/wire.hpp>

namespace peal::bootstrap {
namespace {

constexpr std::string_view kMagic{"PEALUID1", 8};
constexpr std::size_t kLengthAt = 48;
constexpr std::size_t kTextAt = 49;
constexpr std::size_t kTextRoom = 63;
constexpr std::size_t kCheckAt = 112;
constexpr std::size_t kCheckBytes = 16;

/// Finds accidents (a cut or mixed-up copy), not attackers: whoever can change the bytes holds the key.
std::array<std::uint8_t, kCheckBytes> check_of(const UniqueId& id) {
  const std::string_view content(reinterpret_cast<const char*>(id.bytes.data()), kCheckAt);
  std::string again(content);
  again += "again";
  const std::string words = net::WireWriter().u64(net::hash_text(content)).u64(net::hash_text(again)).bytes();
  std::array<std::uint8_t, kCheckBytes> out{};
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

Result<UniqueId> assemble(const net::Address& root) {
  const std::string text = root.text();
  if (text.size() > kTextRoom) return fail(ErrorCode::invalid_argument, "the address {} is longer than {} letters", text, kTextRoom);
  UniqueId id;
  const net::Key key = net::make_key();
  std::memcpy(id.bytes.data(), kMagic.data(), kMagic.size());
  net::fill_random(std::span(id.bytes).subspan(8, 8));
  std::memcpy(id.bytes.data() + 16, key.bytes.data(), key.bytes.size());
  id.bytes[kLengthAt] = static_cast<std::uint8_t>(text.size());
  std::memcpy(id.bytes.data() + kTextAt, text.data(), text.size());
  const auto check = check_of(id);
  std::memcpy(id.bytes.data() + kCheckAt, check.data(), check.size());
  return id;
}

}  // namespace

UniqueId make_unique_id() {
  std::array<std::uint8_t, 8> word{};
  net::fill_random(word);
  net::WireReader reader{std::span<const std::uint8_t>(word)};
  const auto name = net::Address::unix_name(fmt::format("peal-{}-id-{:016x}", geteuid(), reader.u64()));
  return *assemble(*name);
}

Result<UniqueId> make_unique_id(const net::Address& root) {
  if (root.family() == net::Family::none || (root.is_ip() && (root.port() == 0 || root.is_any())))
    return fail(ErrorCode::invalid_argument, "a unique id needs an address that others can reach and a port, not {}", root.text());
  return assemble(root);
}

Result<Job> job_from_unique_id(const UniqueId& id, int rank, int size) {
  const auto check_bytes = check_of(id);
  const std::size_t length = id.bytes[kLengthAt];
  const bool is_whole = std::memcmp(id.bytes.data(), kMagic.data(), kMagic.size()) == 0 && length <= kTextRoom &&
                        std::memcmp(id.bytes.data() + kCheckAt, check_bytes.data(), check_bytes.size()) == 0;
  if (!is_whole)
    return fail(ErrorCode::corrupt,
                "these {} bytes are not a unique id: rank {} must get an unchanged copy of what make_unique_id() returned", kUniqueIdBytes,
                rank);
  Job job;
  job.rank = rank;
  job.size = size;
  PEAL_ASSIGN(job.root, net::Address::parse(std::string_view(reinterpret_cast<const char*>(id.bytes.data()) + kTextAt, length)));
  net::WireReader number{std::span<const std::uint8_t>(id.bytes).subspan(8, 8)};
  job.job_id = number.u64();
  net::Key key;
  std::memcpy(key.bytes.data(), id.bytes.data() + 16, key.bytes.size());
  job.key = key;
  job.launcher = "unique_id";
  job.explanation = fmt::format("a unique id says rank {} of {}; ranks meet at {}", rank, size, job.root.text());
  PEAL_TRY(check(job));
  return job;
}

}  // namespace peal::bootstrap
