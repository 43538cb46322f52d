#include <algorithm>
#include <discovery/findings.hpp>

#include "report.hpp"

namespace peal::discovery {

std::string Finding::sentence() const { return fmt::format("{}: {}, {}: {}", subject, what, consequence, mend); }

bool Examination::is_well() const {
  return std::none_of(findings.begin(), findings.end(), [](const Finding& f) { return f.weight == Weight::wrong; });
}

void Report::add(std::string_view id, std::string subject, std::string what, std::string source, Words words) {
  const FindingKind* const kind = find_kind(id);
  if (kind == nullptr) return;  // findings_test.cpp holds ids and rows together
  Finding finding{.kind = kind, .weight = words.weight.value_or(kind->weight), .subject = std::move(subject), .what = std::move(what)};
  finding.consequence = words.consequence.empty() ? std::string(kind->consequence) : std::move(words.consequence);
  finding.mend = words.mend.empty() ? std::string(kind->mend) : std::move(words.mend);
  finding.source = std::move(source);
  out_.findings.push_back(std::move(finding));
}

Examination Report::take() {
  std::stable_sort(out_.findings.begin(), out_.findings.end(), [](const Finding& a, const Finding& b) { return a.weight < b.weight; });
  return std::move(out_);
}

std::vector<vendor::NvmlGpu> ask_nvml(const Roots& roots) {
  const vendor::NvmlTable* table = roots.nvml;
  if (table == nullptr && roots.sys == Roots().sys) table = vendor::load_nvml();
  return table == nullptr ? std::vector<vendor::NvmlGpu>() : vendor::read_gpus(*table);
}

Examination examine(const Roots& roots, const ExamineOptions& options) {
  Report report;
  const std::vector<GpuFact> gpus = find_gpus(roots);
  const std::vector<NicFact> nics = find_nics(roots);
  const std::vector<vendor::NvmlGpu> reports = ask_nvml(roots);
  examine_pci(roots, gpus, nics, reports, report);
  examine_nvlink(gpus, reports, report);
  examine_nics(roots, nics, report);
  examine_memory(roots, options, gpus, nics, report);
  examine_processors(roots, options, report);
  return report.take();
}

}  // namespace peal::discovery
