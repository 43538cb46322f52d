#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <base/settings.hpp>
#include <bootstrap/contact.hpp>
#include <charconv>
#include <cstdio>
#include <memory>
#include <net/wire.hpp>

namespace peal::bootstrap {
namespace {

std::string read_line(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  std::array<char, 1024> text{};
  if (!file || std::fgets(text.data(), static_cast<int>(text.size()), file.get()) == nullptr) return {};
  std::string line(text.data());
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

std::string boot_id() { return read_line("/proc/sys/kernel/random/boot_id"); }

void note_cores(Contact& contact) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  contact.cores = CPU_COUNT(&allowed);
  contact.core_set = 14695981039346656037U;  // as FNV-1a does, with their numbers for bytes
  for (std::uint64_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) contact.core_set = (contact.core_set ^ core) * 1099511628211U;
}

void write(net::WireWriter& out, const Contact& c) {
  out.u32(static_cast<std::uint32_t>(c.rank)).u32(static_cast<std::uint32_t>(c.pid)).u64(c.pid_start_time).u32(c.uid);
  out.u32(static_cast<std::uint32_t>(c.cores)).u64(c.core_set);
  for (const std::string* text : {&c.host_name, &c.host_identity, &c.machine, &c.data_address, &c.unix_name, &c.rack})
    out.text(std::string_view(*text).substr(0, kMaxContactText));
}

Contact read(net::WireReader& in) {
  Contact c;
  c.rank = static_cast<int>(in.u32());
  c.pid = static_cast<std::int32_t>(in.u32());
  c.pid_start_time = in.u64();
  c.uid = in.u32();
  c.cores = static_cast<std::int32_t>(in.u32());
  c.core_set = in.u64();
  for (std::string* text : {&c.host_name, &c.host_identity, &c.machine, &c.data_address, &c.unix_name, &c.rack})
    *text = in.text(kMaxContactText);
  return c;
}

}  // namespace

std::uint64_t process_start_time(std::int32_t pid) {
  const std::string line = read_line(fmt::format("/proc/{}/stat", pid));
  // The second field is the program's name in parentheses and may hold anything, so fields are counted behind its end.
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::size_t at = name_end + 1;
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = line.find(' ', at + (field > 2 ? 1 : 0));
  if (at == std::string::npos) return 0;
  std::uint64_t value = 0;
  std::from_chars(line.data() + at + 1, line.data() + line.size(), value);
  return value;
}

std::string local_host_identity() {
  if (has_setting("PEAL_HOST_ID")) return setting("PEAL_HOST_ID").substr(0, kMaxContactText);
  struct stat network {};
  const bool has_network = stat("/proc/self/ns/net", &network) == 0;
  return fmt::format("{}/{}", boot_id(), has_network ? network.st_ino : 0);
}

std::string rack_of_slurm(std::string_view address, std::string_view pattern) {
  if (!pattern.ends_with(".node")) return {};  // "node" alone: Slurm knows of no switches
  return std::string(address.substr(0, std::min(address.rfind('.'), address.size())));
}

Contact local_contact(int rank) {
  Contact out;
  out.rank = rank;
  out.pid = getpid();
  out.pid_start_time = process_start_time(out.pid);
  out.uid = geteuid();
  std::array<char, kMaxContactText + 1> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) out.host_name = name.data();
  out.host_identity = local_host_identity();
  out.machine = boot_id();
  out.rack = has_setting("PEAL_RACK") ? setting("PEAL_RACK")
                                      : rack_of_slurm(setting("SLURM_TOPOLOGY_ADDR"), setting("SLURM_TOPOLOGY_ADDR_PATTERN"));
  out.rack.resize(std::min(out.rack.size(), kMaxContactText));
  note_cores(out);
  return out;
}

std::string encode(const Contact& contact) {
  net::WireWriter out;
  write(out, contact);
  return out.bytes();
}

Result<Contact> parse_contact(std::string_view bytes) {
  net::WireReader in(bytes);
  Contact contact = read(in);
  if (!in.is_finished() || contact.rank < 0) return fail(ErrorCode::corrupt, "a contact of {} bytes does not parse", bytes.size());
  return contact;
}

std::string encode(const std::vector<Contact>& table) {
  net::WireWriter out;
  out.u32(static_cast<std::uint32_t>(table.size()));
  for (const Contact& c : table) write(out, c);
  return out.bytes();
}

Result<std::vector<Contact>> parse_contacts(std::string_view bytes, int size) {
  net::WireReader in(bytes);
  const std::uint32_t count = in.u32();
  if (size < 0 || count != static_cast<std::uint32_t>(size))
    return fail(ErrorCode::corrupt, "a table of {} contacts came, {} were expected", count, size);
  std::vector<Contact> out;
  for (int rank = 0; rank < size && in.is_good(); ++rank) {
    out.push_back(read(in));
    if (out.back().rank != rank) return fail(ErrorCode::corrupt, "contact {} of a table says rank {}", rank, out.back().rank);
  }
  if (!in.is_finished()) return fail(ErrorCode::corrupt, "a table of {} contacts in {} bytes does not parse", count, bytes.size());
  return out;
}

}  // namespace peal::bootstrap
