// Every environment variable that Peal reads, in one table: name, default, unit, what it does.
// The reference in docs/ is generated from it; `peal` rooms read settings only through here.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace peal {

struct Setting {
  std::string_view name;           ///< "PEAL_TIMEOUT"
  std::string_view default_value;  ///< text, empty for unset
  std::string_view unit;           ///< "s", "bytes", "" ...
  std::string_view what;           ///< one sentence
};

/// The whole table, in alphabetical order.
std::span<const Setting> all_settings();

/// Value of a setting of the table (environment, else default); `name` must be in the table (checked in debug builds).
std::string setting(std::string_view name);
bool has_setting(std::string_view name);  ///< true when the environment sets it to something not empty
/// Integer value; a text that is no integer in [low, high] is an error that names the variable.
Result<std::int64_t> integer_setting(std::string_view name, std::int64_t low, std::int64_t high);
/// Size with the suffixes of parse_bytes.
Result<std::uint64_t> bytes_setting(std::string_view name);
/// 1/0, true/false, yes/no, on/off.
Result<bool> flag_setting(std::string_view name);

}  // namespace peal
