// What people say about machines, links and collectives, held against the catalogue and the simulator: data/claims.yaml.
//
//   claims:
//     - id: 12
//       claim: "..."                       # what is said
//       arithmetic:                        # what the catalogue makes of it; formulas are computed when the page is written
//         - {text: "NVLink 4, H100, both directions", formula: "2 * [nvlink-4 of H100]", unit: GB/s}
//       simulated:                         # what `peal sim` answers when the page is written: us, ms, s or GB/s (of bus bandwidth), or
//                                          # one of the answer's further figures; `cost:` in the place of `sim:` asks `peal cost`
//         - {text: "one GB over eight A100", sim: "all_reduce --machine dgx-a100 --library nccl -b 1G", unit: ms}
//         - {text: "of 8 A100", cost: "--flops 3.1e23 --mfu 0.5 --machine dgx-a100", unit: hours}
//       measured: [{text: "...", source: "..."}]
//       verdict: right                     # right, wrong, depends, unsupported
//       because: "..."
//
// Formulas know + - * / ( ), numbers, and names in brackets:
//   [pcie-5-x16]           GB/s of one link, one direction          [nvlink-3 of A100]     of all links of that device, one direction
//   [nvlink-3 lane]        Gb/s of a lane                           [nvlink-3 links A100]  how many links that device has
//   [nvlink-3 lanes]       lanes of a link, each direction          [nvswitch-3 ports], [nvswitch-3 both]   ports; GB/s of all, both ways
//   [dgx-h100 gpu0 nvlink] GB/s of the links of a kind at a device of a machine, one direction
#pragma once

#include <base/result.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace peal::topology {

enum class Verdict : std::uint8_t { right, wrong, depends, unsupported };
std::string_view name_of(Verdict verdict) noexcept;

struct ClaimFigure {
  std::string text;
  std::string formula;   ///< as written
  std::string computed;  ///< with values for names: "2 * 450"
  double value = 0;
  std::string unit;
};

struct ClaimEvidence {
  std::string text;
  std::string source;
};

/// What a simulation answers.
struct ClaimAnswer {
  double microseconds = 0;
  double busbw_GBps = 0;                                    ///< 0 where computing runs beside
  std::string evidence;                                     ///< what the prediction is worth
  double computing = 0;                                     ///< the share of the time that computing would take alone, 0 to 1
  std::vector<std::pair<std::string, double>> others = {};  ///< further figures by their unit: "% MFU", "USD to rent"
};

struct ClaimSimulation {
  std::string text;
  std::string command;  ///< the words after `peal`
  std::string unit;
  double value = 0;
  std::string evidence;
};

struct Claim {
  int id = 0;
  std::string claim;
  std::vector<ClaimFigure> arithmetic;
  std::vector<ClaimSimulation> simulated;
  std::vector<ClaimEvidence> measured;
  Verdict verdict = Verdict::unsupported;
  std::string because;
};

/// A formula's value. `value_of` answers the names; `computed` gets the formula with values in their places. At most 1,000 characters and
/// 64 levels.
Result<double> evaluate(std::string_view formula, const std::function<Result<double>(std::string_view)>& value_of, std::string& computed);

/// Who answers what claims ask.
struct ClaimSources {
  std::function<Result<double>(std::string_view name)> value_of;           ///< names in formulas
  std::function<Result<ClaimAnswer>(const std::string& sim)> simulate;     ///< the words after `peal sim`
  std::function<Result<ClaimAnswer>(const std::string& cost)> price = {};  ///< the words after `peal cost`; empty: no claim may ask
};

/// All claims of data/claims.yaml, computed from data/links and data/machines; `simulate` and `price` answer the rest (ClaimSources). Fails
/// where a name is unknown, a value is not finite, or a question is refused.
Result<std::vector<Claim>> load_claims(std::function<Result<ClaimAnswer>(const std::string& sim)> simulate,
                                       std::function<Result<ClaimAnswer>(const std::string& cost)> price);
/// The same from text; `name` stands for the file in messages. Takes any bytes.
Result<std::vector<Claim>> read_claims_text(std::string_view text, const std::string& name, const ClaimSources& sources);
/// docs/claims.md.
std::string claims_page(const std::vector<Claim>& claims);
std::string claims_json(const std::vector<Claim>& claims);

}  // namespace peal::topology
