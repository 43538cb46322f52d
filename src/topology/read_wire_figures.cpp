#include "read_wire_figures.hpp"

#include <topology/link_catalogue.hpp>

#include <topology/yaml_tree.hpp>

#include "most_figures.hpp"

namespace peal::topology {
namespace {

constexpr double kLeastGBps = 1e-6;

}  // namespace

Result<const LinkGeneration*> read_generation(YamlFields& fields) {
  if (!fields.has("of")) return nullptr;
  PEAL_ASSIGN(const std::string name, fields.text("of"));
  auto found = link_generation(name);
  if (!found) return fail(found.error().code, "{}: {}", fields.where(*fields.find("of")), found.error().message);
  return *found;
}

Result<WireFigures> read_wire_figures(YamlFields& fields) {
  WireFigures wire;
  PEAL_ASSIGN(const LinkGeneration* of, read_generation(fields));
  if (of != nullptr) wire = {of->bandwidth, of->usable, of->origin(), of->usable_source, of->scope};
  const bool has_line = fields.has("GBps");
  const bool has_usable = fields.has("usable_GBps");
  if (of == nullptr && !has_line && !has_usable)
    return fail(ErrorCode::corrupt, "{}: no rate: add `of:` with a generation of data/links, or GBps", fields.where());
  if (has_line) {
    PEAL_ASSIGN(const double line, fields.number("GBps", kLeastGBps, kMostGBps));
    wire.line = wire.usable = Bandwidth::gigabytes(line);
  }
  if (has_usable) {
    PEAL_ASSIGN(const double usable, fields.number("usable_GBps", kLeastGBps, kMostGBps));
    wire.usable = Bandwidth::gigabytes(usable);
    if (of == nullptr && !has_line) wire.line = wire.usable;
  }
  if (of == nullptr || fields.has("source")) {
    PEAL_ASSIGN(wire.source, fields.text("source"));
  }
  PEAL_ASSIGN(const std::string assumed, fields.text("assumed", ""));
  PEAL_ASSIGN(wire.scope, fields.text("scope", assumed.empty() ? wire.scope : std::string()));
  if (!assumed.empty()) wire.source = fmt::format("assumed: {}; {}", wire.source, assumed);
  PEAL_ASSIGN(wire.usable_source, fields.text("usable_source", wire.usable_source.empty() ? wire.source : wire.usable_source));
  return wire;
}

}  // namespace peal::topology
