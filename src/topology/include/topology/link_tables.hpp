// The generations of data/links for a person (`peal machines --links`), with the arithmetic from the lane to the device's total. Pure
// functions of a catalogue; text ends with a newline.
#pragma once

#include <string>
#include <topology/link_catalogue.hpp>

namespace peal::topology {

/// PCIe, NVLink, NVSwitch, xGMI, HCCS, between sockets, memory, networks, their comparison, outlook. Figures carry numbers of notes; the
/// notes, which name the sources, follow where `with_sources`.
std::string link_tables(const LinkCatalogue& catalogue, bool with_sources);
/// The same as JSON: {"links":[..],"switches":[..],"memories":[..],"frames":[..],"facts":[..]}, every record with its source.
std::string link_tables_json(const LinkCatalogue& catalogue);

}  // namespace peal::topology
