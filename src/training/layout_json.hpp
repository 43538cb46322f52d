// A layout as JSON, with its words and the options that give it. Private to this room.
#pragma once

#include <nlohmann/json.hpp>
#include <training/layout.hpp>

namespace peal::training {

nlohmann::ordered_json layout_json(const Layout& layout);

}  // namespace peal::training
