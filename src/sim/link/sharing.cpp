// Two processors that share data: line by line over a coherent link, against a copy and against pages that migrate over another link.
//
//   writer  --- invalidate --->  reader       the reader's copy of the line goes
//   writer  <--- answer -------  reader       the line is the writer's alone: it writes
//   writer  <--- read ---------  reader       the reader misses
//   writer  --- line ---------->  reader      both have it
#include <cmath>
#include <sim/link.hpp>

namespace peal::sim {

namespace {

LinkQuestion about_lines(LinkOperation operation, const topology::SharingFigures& figures, std::uint64_t lines) {
  LinkQuestion question;
  question.operation = operation;
  question.payload = static_cast<int>(figures.line_bytes);
  question.operations = static_cast<int>(lines);
  return question;
}

std::uint64_t pieces(std::uint64_t bytes, double piece) {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(bytes) / piece));
}

}  // namespace

Result<LineSequence> share_line(const LinkModel& link, const topology::SharingFigures& figures, Trace* trace) {
  Trace reading;
  LinkHooks hooks{.trace = trace};
  PEAL_ASSIGN(const LinkOutcome taken, simulate_link(link, about_lines(LinkOperation::invalidate, figures, 1), hooks));
  hooks.trace = &reading;
  PEAL_ASSIGN(const LinkOutcome read, simulate_link(link, about_lines(LinkOperation::read, figures, 1), hooks));
  if (trace != nullptr) {
    for (TraceEvent event : reading.events()) {
      event.start_us += taken.time_ns * 1e-3;
      event.process = 1 - event.process;  // the other processor reads
      trace->add(std::move(event));
    }
  }
  return LineSequence{taken.time_ns, taken.time_ns + read.time_ns};
}

Result<SharingRow> share_bytes(const LinkModel& coherent, const LinkModel& other, const topology::SharingFigures& figures,
                               std::uint64_t bytes, std::optional<int> outstanding) {
  if (bytes < 1 || bytes > (std::uint64_t{1} << 28))
    return fail(ErrorCode::invalid_argument, "{} bytes are not shared line by line here; give 1 to 256M", bytes);
  const std::uint64_t lines = pieces(bytes, figures.line_bytes);
  LinkQuestion question = about_lines(LinkOperation::invalidate, figures, lines);
  question.outstanding = outstanding;
  PEAL_ASSIGN(const LinkOutcome taken, simulate_link(coherent, question));
  question.operation = LinkOperation::read;
  PEAL_ASSIGN(const LinkOutcome read, simulate_link(coherent, question));
  PEAL_ASSIGN(const LinkOutcome copied, simulate_link(other, {.payload = static_cast<int>(other.layers.max_payload_bytes)}));
  SharingRow row{.bytes = bytes};
  row.lines_ns = taken.time_ns + read.time_ns;
  row.copy_ns = figures.copy_us * 1e3 + static_cast<double>(bytes) / copied.goodput;
  const auto pages = static_cast<double>(pieces(bytes, figures.page_bytes));
  row.pages_ns = 1e3 * (figures.first_fault_us + (pages - 1) * figures.fault_us) + pages * figures.page_bytes / copied.goodput;
  return row;
}

}  // namespace peal::sim
