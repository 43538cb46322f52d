#include <algorithm>
#include <charconv>
#include <sim/case_words.hpp>
#include <utility>

#include "phrases.hpp"

namespace peal::sim {
namespace {

constexpr std::size_t kLongestWord = 64;

struct Technology {
  std::string_view word;
  std::string_view name;
  double gbps = 0;  // where the word says it
};

constexpr Technology kTechnologies[] = {
    {"roce", "roce"},
    {"rocev2", "roce"},
    {"infiniband", "infiniband"},
    {"ib", "infiniband"},
    {"edr", "infiniband", 100},
    {"hdr100", "infiniband", 100},
    {"hdr", "infiniband", 200},
    {"ndr200", "infiniband", 200},
    {"ndr", "infiniband", 400},
    {"xdr", "infiniband", 800},
    {"efa", "efa"},
    {"slingshot", "slingshot"},
    {"slingshot-11", "slingshot", 200},
    {"slingshot-10", "slingshot", 100},
    {"iwarp", "iwarp"},
    {"tcp", "ethernet"},
    {"tcp/ip", "ethernet"},
    {"socket", "ethernet"},
    {"sockets", "ethernet"},
    {"net/socket", "ethernet"},
    {"ena", "ethernet"},
    {"ethernet", "ethernet"},
    {"gpudirect-tcpx", "tcpx"},
    {"tcpx", "tcpx"},
    {"gpudirect-tcpxo", "tcpxo"},
    {"tcpxo", "tcpxo"},
    {"fastrak", "tcpxo"},
};

constexpr std::string_view kNicWords[] = {"nic",   "nics",       "hca",        "hcas", "port",  "ports",   "card",
                                          "cards", "adapter",    "adapters",   "rail", "rails", "network", "net",
                                          "srd",   "connectx-6", "connectx-7", "cx6",  "cx7"};

constexpr std::string_view kRateUnits[] = {"g", "gb", "gb/s", "gbit", "gbit/s", "gbps", "gbe", "gige"};

template <std::size_t N>
bool is_among(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// "400g", "400gb/s" in lower case; GB/s (bytes) is told from Gb/s by its capital in `as_written`.
std::optional<double> rate_of(std::string_view word, std::string_view as_written) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, std::chars_format::fixed);
  const std::string_view unit(end, static_cast<std::size_t>(word.data() + word.size() - end));
  if (error != std::errc() || !is_among(unit, kRateUnits) || value <= 0 || value > 1e5) return std::nullopt;
  return as_written.find("GB/s") == std::string_view::npos ? value : 8 * value;
}

/// Reads one phrase word by word.
class Reading {
 public:
  bool take(std::string_view as_written) {
    if (as_written.size() > kLongestWord) return false;
    const std::string word = lower_case(as_written);
    if (pending_ && is_among(word, kRateUnits)) return take_rate(*std::exchange(pending_, std::nullopt), as_written);
    if (const auto count = count_of(word)) {
      pending_ = count;
      return true;
    }
    if (const auto rate = rate_of(word, as_written)) return set_rate(*rate);
    if (const std::size_t x = word.find('x'); x != std::string::npos && x > 0 && count_of(word.substr(0, x))) {
      // "8x" and "1x400G"
      words_.nics = *count_of(word.substr(0, x));
      return x + 1 == word.size() || take(as_written.substr(x + 1));
    }
    if (word == "x" && pending_) return settle();
    if (take_technology(word)) return settle();
    if (is_among(word, kNicWords)) {
      has_nic_word_ = true;
      return settle();
    }
    return is_filler(word);
  }

  /// A number that stands at the end, or none of a network's words: this was no network.
  std::optional<NetworkWords> finish() const {
    const bool is_network = !words_.technology.empty() || words_.gbps > 0 || (has_nic_word_ && words_.nics > 0);
    if (pending_ || !is_network) return std::nullopt;
    return words_;
  }

  void forget_number() { pending_.reset(); }

 private:
  bool settle() {
    if (pending_) words_.nics = *std::exchange(pending_, std::nullopt);
    return true;
  }
  bool set_rate(double gbps) {
    words_.gbps = gbps;
    return settle();
  }
  bool take_rate(int value, std::string_view unit) {
    words_.gbps = unit.find("GB/s") == std::string_view::npos ? value : 8.0 * value;
    return value > 0;
  }
  bool take_technology(std::string_view word) {
    for (const Technology& t : kTechnologies) {
      if (t.word != word) continue;
      // "TCP sockets over Ethernet", "HDR InfiniBand": the first word is the one that tells.
      if (words_.technology.empty()) words_.technology = t.name;
      if (t.gbps > 0 && words_.gbps == 0) words_.gbps = t.gbps;
      return true;
    }
    return false;
  }

  NetworkWords words_;
  std::optional<int> pending_;
  bool has_nic_word_ = false;
};

}  // namespace

std::optional<NetworkWords> read_network_words(std::string_view phrase, bool is_strict) {
  Reading reading;
  for (const std::string_view word : words_of(phrase)) {
    if (reading.take(word)) continue;
    if (is_strict) return std::nullopt;
    reading.forget_number();
  }
  if (!is_strict) reading.forget_number();
  return reading.finish();
}

}  // namespace peal::sim
