#include <algorithm>
#include <base/names.hpp>
#include <sim/case_words.hpp>

#include "phrases.hpp"

namespace peal::sim {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// "NVLS off", "no NVLS", "NVLS (as labelled)": whether a feature was on, or nothing where the phrase is not about it.
std::optional<bool> is_on(std::string_view phrase, std::string_view feature) {
  for (const std::string_view no : {"no ", "without ", "not on "})
    if (phrase.starts_with(no) && phrase.substr(no.size()) == feature) return false;
  if (phrase.starts_with("with ")) phrase.remove_prefix(5);
  if (!phrase.starts_with(feature)) return std::nullopt;
  const std::string_view rest = phrase.substr(feature.size());
  if (!rest.empty() && rest[0] != ' ') return std::nullopt;
  return rest.find(" off") == std::string_view::npos && rest.find("disabled") == std::string_view::npos;
}

bool take_feature(std::string_view phrase, CaseWords& words) {
  if (const auto nvls = is_on(phrase, "nvls")) {
    words.options.is_nvls_off = !*nvls;
    return true;
  }
  if (const auto p2p = is_on(phrase, "p2p")) {
    words.options.is_p2p_off = !*p2p;
    return true;
  }
  if (const auto nvlink = is_on(phrase, "nvlink")) {
    words.has_nvlink = *nvlink;
    return true;
  }
  for (const std::string_view name : {"gdr", "gpudirect"}) {
    const auto gdr = is_on(phrase, name);
    if (gdr) {
      words.options.is_gdr_off = !*gdr;
      return true;
    }
  }
  for (const std::string_view name : {"sharp", "collnet"}) {
    const auto sharp = is_on(phrase, name);
    if (sharp && *sharp) words.unsupported = "reduction in the network's switches (SHARP) was switched on";
    if (sharp) return true;
  }
  return false;
}

bool take_processes(std::string_view phrase, CaseWords& words) {
  for (const std::string_view own :
       {"1 gpu per process", "one gpu per process", "1 gpu a process", "process per gpu", "process-per-gpu", "one process per gpu",
        "1 process per gpu", "a process each", "multi-process", "mpi", "mpirun", "-g 1"}) {
    if (phrase != own && !phrase.starts_with(fmt::format("{} ", own))) continue;
    words.options.one_process = false;
    return true;
  }
  for (const std::string_view all : {"one process", "1 process", "single process", "single-process", "-g"}) {
    if (phrase != all && !phrase.starts_with(fmt::format("{} ", all))) continue;
    words.options.one_process = true;
    return true;
  }
  return false;
}

/// "100 calls": of the row whose mean is the time.
bool take_calls(std::string_view phrase, CaseWords& words) {
  if (!phrase.ends_with(" calls")) return false;
  const auto calls = count_of(phrase.substr(0, phrase.size() - 6));
  if (!calls || *calls < 1) return false;
  words.options.calls = *calls;
  return true;
}

bool take_choice(std::string_view phrase, CaseWords& words) {
  if (phrase.size() > 7 && phrase.substr(phrase.size() - 7) == " forced") phrase.remove_suffix(7);
  if (is_one_of(phrase, {"ring", "rings"}))
    words.options.algorithm = "Ring";
  else if (is_one_of(phrase, {"tree", "trees"}))
    words.options.algorithm = "Tree";
  else if (phrase == "ll")
    words.options.protocol = "LL";
  else if (phrase == "ll128")
    words.options.protocol = "LL128";
  else if (phrase == "simple")
    words.options.protocol = "Simple";
  else if (const auto type = parse_data_type(phrase))
    words.type = *type;
  else
    return false;
  return true;
}

/// Said often, and no reason for another time: how the run was started, plug-ins that the machine has in the catalogue, and networks that
/// never limit, which is what is assumed of one.
bool is_neutral(std::string_view phrase) {
  return is_one_of(
      phrase, {"mnnvl",      "ofi plugin",     "aws-ofi-nccl", "gib plugin",     "bare metal",     "vm",           "container", "docker",
               "kubernetes", "slurm",          "rails",        "rail-optimised", "rail-optimized", "non-blocking", "fat tree",  "fat-tree",
               "same rack",  "out of the box", "default",      "defaults"});
}

/// "2 GPUs", "1 GPU a node", "4 of 8 GPUs", "16 GPUs in total".
bool take_gpus(std::string_view phrase, CaseWords& words) {
  std::vector<std::string_view> pieces = words_of(phrase);
  if (pieces.empty()) return false;
  if (pieces[0].size() > 1 && pieces[0].back() == 'x') pieces[0].remove_suffix(1);
  const auto count = count_of(pieces[0]);
  bool has_gpu = false;
  bool is_total = false;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const std::string_view word = pieces[i];
    const bool is_word = is_one_of(word, {"gpu", "gpus", "npu", "npus", "rank", "ranks", "device", "devices"});
    has_gpu |= is_word;
    is_total |= is_one_of(word, {"total", "all", "altogether"});
    if (!is_word && !is_filler(word) && !is_total && !(i == 2 && pieces[1] == "of" && count_of(word))) return false;
  }
  if (!count || *count < 1 || !has_gpu) return false;
  (is_total ? words.gpus_all : words.gpus) = *count;
  return true;
}

std::optional<int> whole(std::string_view value) { return count_of(trim(value)); }

/// NCCL_ALGO and NCCL_PROTO: one name is a choice; lists and exclusions are left to the library.
bool take_forced(std::string_view value, std::optional<std::string>& into) {
  if (value.empty() || value.find_first_of(",;:^") != std::string_view::npos) return false;
  into = std::string(value);
  return true;
}

bool take_channels(std::string_view value, CaseWords& words) {
  const auto channels = whole(value);
  if (!channels || *channels < 1) return false;
  words.options.channels = *channels;
  return true;
}

/// Settings that say how and where, and change no time that is predicted here.
bool is_neutral_setting(std::string_view key) {
  static constexpr std::string_view kStarts[] = {"NCCL_DEBUG",    "NCCL_SOCKET_IFNAME",
                                                 "NCCL_TOPO",     "NCCL_NET_PLUGIN",
                                                 "NCCL_TUNER",    "NCCL_IB_HCA",
                                                 "NCCL_HOSTID",   "NCCL_MNNVL",
                                                 "NCCL_GRAPH",    "NCCL_IB_GID",
                                                 "FI_",           "OMPI_",
                                                 "LD_",           "UCX_",
                                                 "CUDA_VISIBLE",  "NCCL_IB_TIMEOUT",
                                                 "NCCL_IB_RETRY", "NCCL_IGNORE",
                                                 "HIP_VISIBLE",   "NCCL_CUMEM",
                                                 "NCCL_ASYNC",    "TORCH_"};
  return std::any_of(std::begin(kStarts), std::end(kStarts), [&](std::string_view start) { return key.starts_with(start); });
}

bool take_setting(std::string_view phrase, CaseWords& words) {
  const std::size_t equals = phrase.find('=');
  const std::string_view key = phrase.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : phrase.substr(equals + 1);
  if (key == "NCCL_ALGO") return take_forced(value, words.options.algorithm);
  if (key == "NCCL_PROTO") return take_forced(value, words.options.protocol);
  if (is_one_of(key, {"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"})) return take_channels(value, words);
  if (key == "NCCL_NVLS_ENABLE") return take_feature(value == "0" ? "nvls off" : "nvls", words);
  if (key == "NCCL_P2P_DISABLE") return take_feature(value == "1" ? "p2p off" : "p2p", words);
  if (key == "NCCL_P2P_LEVEL") return value == "LOC" && take_feature("p2p off", words);
  if (key == "NCCL_NET_GDR_LEVEL" && (value == "0" || value == "LOC")) return take_feature("gdr off", words);
  // It sums in switches only where a plugin for them is loaded, which InfiniBand alone has.
  if (key == "NCCL_COLLNET_ENABLE") {
    words.may_sum_in_network = value == "1";
    return true;
  }
  // Until 2.5 the size from which trees were left; 0 is to have none.
  if (key == "NCCL_TREE_THRESHOLD" && value == "0") return take_forced("Ring", words.options.algorithm);
  if ((key == "NCCL_IB_DISABLE" && value == "1") || (key == "NCCL_NET" && lower_case(value) == "socket")) {
    words.network.technology = "ethernet";
    return true;
  }
  return is_neutral_setting(key);
}

bool take_phrase(const std::string& phrase, CaseWords& words) {
  const std::string low = lower_case(phrase);
  if (take_feature(low, words) || take_processes(low, words) || take_calls(low, words) || take_choice(low, words) ||
      take_gpus(low, words) || is_neutral(low))
    return true;
  if (is_one_of(low, {"pcie", "pcie only", "over pcie"})) {
    words.has_nvlink = false;
    return true;
  }
  if (take_setting(phrase, words)) return true;
  const auto network = read_network_words(phrase, true);
  if (!network) return false;
  if (!network->technology.empty()) words.network.technology = network->technology;
  if (network->nics > 0) words.network.nics = network->nics;
  if (network->gbps > 0) words.network.gbps = network->gbps;
  return true;
}

/// "dgx-h100:2" before the parenthesis.
Status take_head(std::string_view head, CaseWords& words) {
  head = trim(head);
  const std::size_t colon = head.rfind(':');
  words.machine = trim(head.substr(0, colon));
  if (words.machine.empty() || words.machine.find_first_of(" \t") != std::string::npos)
    return fail(ErrorCode::invalid_argument,
                "machine '{}' is no name of the catalogue: write NAME:NODES (what narrows it), as in dgx-h100:2 (1 GPU a node)",
                head.substr(0, 64));
  if (colon == std::string_view::npos) return {};
  const auto copies = whole(head.substr(colon + 1));
  if (!copies || *copies < 1)
    return fail(ErrorCode::invalid_argument, "machine '{}': a number of nodes belongs behind the colon", head.substr(0, 64));
  words.copies = *copies;
  return {};
}

Status take_machine(std::string_view machine, CaseWords& words) {
  const std::size_t open = std::min(machine.find('('), machine.size());
  PEAL_TRY(take_head(machine.substr(0, open), words));
  std::string narrowed(machine.substr(open));
  // "(a) (b)" says what "(a, b)" does; a last parenthesis may be missing.
  std::replace(narrowed.begin(), narrowed.end(), '(', ';');
  std::replace(narrowed.begin(), narrowed.end(), ')', ';');
  for (const std::string& phrase : phrases_of(narrowed)) {
    if (take_phrase(phrase, words)) continue;
    return fail(
        ErrorCode::unsupported,
        "'{}' in the machine column is not understood: say GPUs (2 GPUs a node), the network (1x400G RoCE, EFA, TCP, 2 NICs) or what is "
        "forced (NVLS off, PCIe only, P2P off, NCCL_ALGO=Ring)",
        phrase.substr(0, 64));
  }
  return {};
}

/// The newest NCCL in the middle of a year that is told in place of a version (tags of github.com/NVIDIA/nccl); empty: no such year.
std::string version_of_year(std::string_view software) {
  constexpr std::pair<std::string_view, std::string_view> kNewest[] = {{"2019", "2.4"},  {"2020", "2.7"},  {"2021", "2.9"},
                                                                       {"2022", "2.12"}, {"2023", "2.18"}, {"2024", "2.22"},
                                                                       {"2025", "2.27"}, {"2026", "2.30"}};
  for (const auto& [year, version] : kNewest)
    if (software.find(year) != std::string_view::npos) return std::string(version);
  return {};
}

std::string version_in(std::string_view software) {
  const std::vector<std::string_view> pieces = words_of(software);
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    const std::string_view next = pieces[i + 1];
    if (!is_one_of(lower_case(pieces[i]), {"nccl", "rccl", "hccl"}) || std::isdigit(static_cast<unsigned char>(next[0])) == 0) continue;
    return std::string(next.substr(0, next.find_first_not_of("0123456789.")));
  }
  return version_of_year(software);
}

/// The network as inter_link has it counts where the machine column speaks of one and leaves something open.
void complete_network(std::string link, NetworkWords& network) {
  std::replace(link.begin(), link.end(), '(', ' ');
  std::replace(link.begin(), link.end(), ')', ' ');
  std::replace(link.begin(), link.end(), ';', ' ');
  std::replace(link.begin(), link.end(), ',', ' ');
  const auto said = read_network_words(link, false);
  if (!said) return;
  const bool is_whole = said->nics > 0 && said->gbps > 0;
  const bool is_sockets = said->technology == "ethernet";
  if (!network.is_said() && !is_whole && !is_sockets) return;
  if (network.technology.empty()) network.technology = said->technology;
  if (network.nics == 0) network.nics = said->nics;
  if (network.gbps == 0) network.gbps = said->gbps;
}

}  // namespace

Result<CaseWords> read_case_words(const PublishedCase& published) {
  CaseWords words;
  PEAL_TRY(take_machine(published.machine, words));
  for (const std::string& phrase : phrases_of(published.environment))
    if (!take_phrase(phrase, words)) words.remarks.push_back(fmt::format("'{}' of notable_env is passed over", phrase.substr(0, 64)));
  // Notes are prose: only whole phrases that force something are taken.
  for (const std::string& phrase : phrases_of(published.notes)) {
    const std::string low = lower_case(phrase);
    if (!take_feature(low, words) && !take_processes(low, words) && !take_calls(low, words)) take_choice(low, words);
  }
  for (const std::string& phrase : phrases_of(published.more_notes))
    if (!take_phrase(phrase, words))
      return fail(ErrorCode::invalid_argument, "'{}' of the notes of {} is not understood: write as in the machine column, or one process",
                  phrase.substr(0, 64), published.id);
  words.options.version = version_in(published.software);
  words.options.was_published = true;
  complete_network(published.inter_link, words.network);
  return words;
}

}  // namespace peal::sim
