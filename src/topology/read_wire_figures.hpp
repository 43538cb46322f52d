// The rates of a wire as the files of data/import write them.
#pragma once

#include "wire_figures.hpp"

namespace peal::topology {

class YamlFields;
struct LinkGeneration;

/// The generation that `of:` names, or null where there is no such key.
Result<const LinkGeneration*> read_generation(YamlFields& fields);

/// `of: nvlink-4` takes the figures of that generation of data/links; GBps, usable_GBps, source, usable_source and scope stand instead of
/// what it says, or alone: then one rate is enough. With `assumed: WHY` the sources say so, and no constants of a generation belong to it.
Result<WireFigures> read_wire_figures(YamlFields& fields);

}  // namespace peal::topology
