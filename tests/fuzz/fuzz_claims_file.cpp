// Files of claims with their formulas.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <topology/claims.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto seven = [](std::string_view) -> peal::Result<double> { return 7.0; };
  const auto claims =
      peal::topology::read_claims_text(text, "fuzz.yaml", {seven, [](const std::string&) -> peal::Result<peal::topology::ClaimAnswer> {
                                                             return {{1, 2, "none"}};
                                                           }});
  if (!claims && claims.error().message.empty()) std::abort();
  if (claims) (void)peal::topology::claims_page(*claims);
  std::string computed;
  (void)peal::topology::evaluate(text, seven, computed);
  return 0;
}
