#include <fcntl.h>
#include <base/file_descriptor.hpp>
#include <base/trace.hpp>
#include <base/write_all.hpp>
#include <cerrno>
#include <cmath>

namespace peal {
namespace {

/// Length of the well-formed UTF-8 sequence at the start of `text`, or 0 (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto is_tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return is_tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0U : 0x80U;
    const unsigned high = first == 0xED ? 0x9FU : 0xBFU;
    return byte(1) >= low && byte(1) <= high && is_tail(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90U : 0x80U;
    const unsigned high = first == 0xF4 ? 0x8FU : 0xBFU;
    return byte(1) >= low && byte(1) <= high && is_tail(2) && is_tail(3) ? 4 : 0;
  }
  return 0;
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_length(text.substr(i));
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i];
    } else if (c < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    } else if (length == 0) {
      out += "\\ufffd";  // a name may come from a file; JSON has no other way for bytes that are no text
    } else {
      out += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  out += '"';
}

/// Nanosecond resolution; JSON has no NaN and no infinity.
void append_number(std::string& out, double value) {
  fmt::format_to(std::back_inserter(out), "{:.3f}", std::isfinite(value) ? value : 0.0);
}

void append_event(std::string& out, const TraceEvent& event) {
  out += R"({"ph":"X","name":)";
  append_string(out, event.name);
  out += R"(,"cat":)";
  append_string(out, event.category);
  fmt::format_to(std::back_inserter(out), R"(,"pid":{},"tid":{},"ts":)", event.process, event.thread);
  append_number(out, event.start_us);
  out += R"(,"dur":)";
  append_number(out, event.duration_us);
  out += '}';
}

}  // namespace

Status Trace::write(const std::string& path) const {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) {
    return fail(ErrorCode::system, "cannot open '{}' for the trace: {}. Name a file in a folder that you may write to.", path,
                errno_text(errno));
  }
  const std::string what = fmt::format("the trace to '{}'", path);
  constexpr std::size_t kFlushBytes = 1 << 20;
  std::string out = R"({"displayTimeUnit":"ns","traceEvents":[)";
  bool is_first = true;
  const auto separate = [&] {
    out += is_first ? "\n" : ",\n";
    is_first = false;
  };
  for (const auto& [process, name] : process_names_) {
    separate();
    fmt::format_to(std::back_inserter(out), R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":)", process);
    append_string(out, name);
    out += "}}";
  }
  for (const TraceEvent& event : events_) {
    separate();
    append_event(out, event);
    if (out.size() >= kFlushBytes) {
      PEAL_TRY(write_all(file.get(), out.data(), out.size(), what));
      out.clear();
    }
  }
  out += "\n]}\n";
  return write_all(file.get(), out.data(), out.size(), what);
}

}  // namespace peal
