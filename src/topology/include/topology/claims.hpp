// What people say about machines and links, held against the catalogue: data/claims.yaml.
//
//   claims:
//     - id: 12
//       claim: "..."                       # what is said
//       arithmetic:                        # what the catalogue makes of it; formulas are computed when the page is written
//         - {text: "NVLink 4, H100, both directions", formula: "2 * [nvlink-4 of H100]", unit: GB/s}
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

struct Claim {
  int id = 0;
  std::string claim;
  std::vector<ClaimFigure> arithmetic;
  std::vector<ClaimEvidence> measured;
  Verdict verdict = Verdict::unsupported;
  std::string because;
};

/// A formula's value. `value_of` answers the names; `computed` gets the formula with values in their places. At most 1,000 characters and
/// 64 levels.
Result<double> evaluate(std::string_view formula, const std::function<Result<double>(std::string_view)>& value_of, std::string& computed);

/// All claims of data/claims.yaml, computed from data/links and data/machines. Fails where a name is unknown or a value is not finite.
Result<std::vector<Claim>> load_claims();
/// The same from text; `name` stands for the file in messages, `value_of` answers names. Takes any bytes.
Result<std::vector<Claim>> read_claims_text(std::string_view text, const std::string& name,
                                            const std::function<Result<double>(std::string_view)>& value_of);
/// docs/claims.md.
std::string claims_page(const std::vector<Claim>& claims);
std::string claims_json(const std::vector<Claim>& claims);

}  // namespace peal::topology
