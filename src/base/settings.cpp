#include <algorithm>
#include <base/names.hpp>
#include <base/settings.hpp>
#include <base/units.hpp>
#include <cassert>
#include <charconv>
#include <cstdlib>
#include <vector>

namespace peal {
namespace {

// In alphabetical order (a test holds it). Names without PEAL_ belong to launchers, whose environment start-up reads.
constexpr Setting kSettings[] = {
    {"HOME", "", "", "The user's folder; `peal tune` keeps its table in .config/peal there."},
    {"LOCAL_RANK", "", "", "torchrun: number of this rank among the ranks of its host."},
    {"LOCAL_WORLD_SIZE", "", "", "torchrun: ranks on this host."},
    {"MASTER_ADDR", "", "", "torchrun: host of rank 0; Peal meets there when PEAL_ROOT is unset."},
    {"MASTER_PORT", "", "", "torchrun: port held by its agent; names the meeting place on one host, Peal never listens on it."},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "", "", "Open MPI: number of this rank among the ranks of its host."},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "", "", "Open MPI: ranks on this host."},
    {"OMPI_COMM_WORLD_RANK", "", "", "Open MPI: number of this rank."},
    {"OMPI_COMM_WORLD_SIZE", "", "", "Open MPI: ranks in the job."},
    {"PEAL_ALGORITHM", "", "", "Algorithm to use for every call, by its registry name; an error where it cannot be used."},
    {"PEAL_BIND_MEMORY", "1", "",
     "0: the tool that starts ranks binds them to cores only, and not their memory to the NUMA domains of these cores."},
    {"PEAL_DATA_DIR", "", "", "Folder with the machine catalogue; unset: the installed share/peal, or data/ of the source tree."},
    {"PEAL_DETERMINISTIC", "0", "",
     "1: only plans that sum in one fixed order, as Options::deterministic; results are bitwise equal whatever else."},
    {"PEAL_DIRECT_READ", "1", "",
     "0: ranks of a host never read or write each other's memory directly (cross-memory attach, protocol direct_read)."},
    {"PEAL_HOST_ID", "", "", "Text that stands for this host when ranks ask who is on the same one; unset: boot id and network namespace."},
    {"PEAL_HUGE_PAGES", "1", "",
     "0: memory that other ranks read where it lies, call after call, is not moved to huge pages; nor is it where the system never uses "
     "them."},
    {"PEAL_INTERFACE", "", "", "Network interface (eth0) or address (10.0.0.5, fd00::5) that Peal listens on and connects from."},
    {"PEAL_JOB", "", "", "Name of the job; ranks with different names never meet."},
    {"PEAL_KEY_FILE", "", "", "File with the job's key, readable only by its owner; needed when ranks are on several hosts."},
    {"PEAL_LEND_PAGES", "auto", "",
     "Long messages to ranks of this machine go into sockets without a copy: auto (over loopback, where copies are slow), 1 (always) or 0 "
     "(never)."},
    {"PEAL_LOCAL_RANK", "", "", "Number of this rank among the ranks of its host."},
    {"PEAL_LOG_LEVEL", "warn", "", "What Peal writes to standard error: off, error, warn, info or debug."},
    {"PEAL_PARTIAL_SUMS", "element", "",
     "How sums of f16, bf16 and f8 travel until they are finished: element (their own type) or f32, as Options::f32_partial_sums."},
    {"PEAL_PORT", "29517", "", "TCP port of rank 0's meeting place when several hosts take part and PEAL_ROOT names no port."},
    {"PEAL_PROTOCOL", "", "", "Protocol to use for every call, by name (staged, line, ...); an error where it cannot be used."},
    {"PEAL_RACK", "", "",
     "The switches above this host, the highest first, as spine1.leaf3: rings go rack by rack where every host has one; unset: Slurm's."},
    {"PEAL_RANK", "", "", "Number of this rank, from 0."},
    {"PEAL_ROOT", "", "", "Address of rank 0's meeting place: host:port, [v6]:port or unix:NAME."},
    {"PEAL_SIZE", "", "", "Ranks in the job."},
    {"PEAL_START_TIMEOUT", "60", "s", "Time until a rank that never comes is named and start-up ends."},
    {"PEAL_TIMEOUT", "1800", "s", "Time until a call that does not finish ends with an error."},
    {"PEAL_TRANSPORT", "auto", "", "Transport between ranks: auto, shm or tcp."},
    {"PEAL_TUNING", "", "",
     "Table of `peal tune` that chooses algorithms; off: none; unset: peal/tuning.json in $XDG_CONFIG_HOME or ~/.config, if there."},
    {"PMIX_NAMESPACE", "", "", "PMIx launchers: name of the job."},
    {"RANK", "", "", "torchrun: number of this rank."},
    {"SLURM_TOPOLOGY_ADDR", "", "", "Slurm (topology/tree or block): switches above the task's node, and the node."},
    {"SLURM_TOPOLOGY_ADDR_PATTERN", "", "", "Slurm: what the words of SLURM_TOPOLOGY_ADDR are."},
    {"TORCHELASTIC_RESTART_COUNT", "", "", "torchrun: which attempt this is; ranks of different attempts never meet."},
    {"TORCHELASTIC_RUN_ID", "", "", "torchrun: name of the job."},
    {"WORLD_SIZE", "", "", "torchrun: ranks in the job."},
    {"XDG_CONFIG_HOME", "", "", "The user's folder for settings, instead of .config in HOME."},
};

const Setting* find_setting(std::string_view name) {
  const Setting* found =
      std::lower_bound(std::begin(kSettings), std::end(kSettings), name, [](const Setting& s, std::string_view n) { return s.name < n; });
  return found != std::end(kSettings) && found->name == name ? found : nullptr;
}

}  // namespace

std::span<const Setting> all_settings() { return kSettings; }

bool has_setting(std::string_view name) {
  assert(find_setting(name) != nullptr && "every setting stands in the table of src/base/settings.cpp");
  const char* text = std::getenv(std::string(name).c_str());
  return text != nullptr && *text != '\0';
}

std::string setting(std::string_view name) {
  const Setting* known = find_setting(name);
  assert(known != nullptr && "every setting stands in the table of src/base/settings.cpp");
  if (known == nullptr) return {};
  const char* text = std::getenv(std::string(name).c_str());
  if (text != nullptr && *text != '\0') return text;
  return std::string(known->default_value);
}

Result<std::int64_t> integer_setting(std::string_view name, std::int64_t low, std::int64_t high) {
  const std::string text = setting(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return fail(ErrorCode::invalid_argument, "{}='{}' is not a whole number from {} to {}. Set it to one, or unset it.", name,
                text.substr(0, 64), low, high);
  }
  return value;
}

Result<std::uint64_t> bytes_setting(std::string_view name) {
  const Result<Bytes> size = parse_bytes(setting(name));
  if (!size) return fail(ErrorCode::invalid_argument, "{}: {}", name, size.error().message);
  return size->value;
}

Result<bool> flag_setting(std::string_view name) {
  const std::string text = setting(name);
  std::string word;
  for (char c : text) word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (std::string_view yes : {"1", "true", "yes", "on"}) {
    if (word == yes) return true;
  }
  for (std::string_view no : {"0", "false", "no", "off"}) {
    if (word == no) return false;
  }
  return fail(ErrorCode::invalid_argument, "{}='{}' is neither yes nor no. Type 1 or 0 (true/false, yes/no, on/off).", name,
              text.substr(0, 64));
}

}  // namespace peal
