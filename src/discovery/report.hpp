// How the parts of an examination say what they found.
#pragma once

#include <discovery/findings.hpp>
#include <vendor/nvml.hpp>

#include "kernel.hpp"
#include "nics.hpp"
#include "pci.hpp"

namespace peal::discovery {

/// What differs from the row of the kind; what is empty is as it says.
struct Words {
  std::string consequence = {};
  std::string mend = {};
  std::optional<Weight> weight = {};
};

class Report {
 public:
  /// `id` is one of finding_kinds().
  void add(std::string_view id, std::string subject, std::string what, std::string source, Words words = {});
  void seen(std::string sentence) { out_.seen.push_back(std::move(sentence)); }
  void unknown(std::string sentence) { out_.unknown.push_back(std::move(sentence)); }
  Examination take();

 private:
  Examination out_;
};

/// The GPUs that the library of their maker sees; none for a recorded tree that no test has given a table to.
std::vector<vendor::NvmlGpu> ask_nvml(const Roots& roots);

void examine_pci(const Roots& roots, const std::vector<GpuFact>& gpus, const std::vector<NicFact>& nics,
                 const std::vector<vendor::NvmlGpu>& reports, Report& report);
void examine_nvlink(const std::vector<GpuFact>& gpus, const std::vector<vendor::NvmlGpu>& reports, Report& report);
void examine_nics(const Roots& roots, const std::vector<NicFact>& nics, Report& report);
void examine_memory(const Roots& roots, const ExamineOptions& options, const std::vector<GpuFact>& gpus, const std::vector<NicFact>& nics,
                    Report& report);
void examine_processors(const Roots& roots, const ExamineOptions& options, Report& report);

}  // namespace peal::discovery
