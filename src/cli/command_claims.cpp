// peal claims: what people say about machines and links, held against the catalogue.
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <memory>
#include <topology/claims.hpp>

namespace peal::cli {

void add_claims(CLI::App& app, Action& action) {
  auto json = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("claims",
                                         "Hold widespread claims about interconnects against the catalogue, as a page in Markdown.\n"
                                         "Example: peal claims > docs/claims.md");
  command->add_option("--json", *json, "Write claims, figures and verdicts as JSON to a file, or - for standard output");
  command->callback([json, &action] {
    action = [json]() -> Result<int> {
      PEAL_ASSIGN(const std::vector<topology::Claim> claims, topology::load_claims());
      if (!json->empty()) PEAL_TRY(write_output(*json, topology::claims_json(claims) + "\n"));
      if (*json != "-") PEAL_TRY(write_output("-", topology::claims_page(claims)));
      return 0;
    };
  });
}

}  // namespace peal::cli
