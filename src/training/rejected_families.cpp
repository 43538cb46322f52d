#include "rejected_families.hpp"

#include <algorithm>

namespace peal::training {

namespace {

/// A part of a step's time, in words.
struct TimePart {
  std::string name;
  double seconds = 0;
};

std::vector<TimePart> time_parts_of(const StepReport& report) {
  static constexpr std::string_view kCalls[] = {"tensor-parallel calls", "context-parallel calls", "experts' calls",
                                                "gradients and parameters on the way", "messages between stages"};
  std::vector<TimePart> parts = {{"computing", report.compute}, {"bubble", report.bubble * report.time}, {"optimiser", report.optimizer}};
  for (int d = 0; d < kDimensions; ++d) parts.push_back({std::string(kCalls[d]), report.exposed[d]});
  return parts;
}

std::string seconds_text(double seconds, double whole) { return seconds < 1e-6 * whole ? "0" : fmt::format("{:.3g}", seconds); }

/// What grows most from `best` to `report`.
std::string loss_of(const StepReport& report, const StepReport& best) {
  const std::vector<TimePart> here = time_parts_of(report), there = time_parts_of(best);
  std::size_t most = 0;
  const auto growth = [&](std::size_t i) { return here[i].seconds - there[i].seconds; };
  for (std::size_t i = 1; i < here.size(); ++i)
    if (growth(i) > growth(most)) most = i;
  return fmt::format("{} {} s, not {}", here[most].name, seconds_text(here[most].seconds, best.time),
                     seconds_text(there[most].seconds, best.time));
}

/// Groups whose calls computing waits for, and that do not fit into a node.
std::string leaving(const Layout& layout, const Layout& best, const LayoutSpace& space) {
  for (const Dimension dimension : {Dimension::tp, Dimension::cp, Dimension::ep})
    if (layout.size_of(dimension) > space.gpus_per_node && best.size_of(dimension) <= space.gpus_per_node)
      return fmt::format("{} {} leaves the node of {}; ", name_of(dimension), layout.size_of(dimension), space.gpus_per_node);
  return {};
}

void say_slower(RejectedFamily& family, const StepReport& report, const StepReport& best, const LayoutSpace& space) {
  const double percent = 100 * (report.time / best.time - 1);
  family.best = report;
  if (percent < 0.05)
    family.reason = fmt::format("as fast ({:.4g} s) with {}", report.time, describe(report.layout));
  else
    family.reason = fmt::format("{:.1f} % slower ({:.4g} s: {}{}) with {}", percent, report.time,
                                leaving(report.layout, best.layout, space), loss_of(report, best), describe(report.layout));
}

/// Members of a family that are simulated for its sake.
constexpr std::size_t kAsked = 8;

struct Members {
  std::vector<Candidate*> fit;  ///< by bound
  const Candidate* smallest = nullptr;
  const Candidate* refused = nullptr;

  const StepReport* fastest() const {
    const StepReport* best = nullptr;
    for (const Candidate* c : fit)
      if (c->report && (best == nullptr || c->report->time < best->time)) best = &*c->report;
    return best;
  }
};

Members members_of(const Choice& choice, std::vector<Candidate>& all) {
  Members m;
  for (Candidate& c : all) {
    if (!choice.makes(c.layout)) continue;
    if (!c.refusal.empty()) {
      if (m.refused == nullptr) m.refused = &c;
    } else if (c.fits) {
      m.fit.push_back(&c);
    } else if (m.smallest == nullptr || c.memory < m.smallest->memory) {
      m.smallest = &c;
    }
  }
  std::stable_sort(m.fit.begin(), m.fit.end(), [](const Candidate* a, const Candidate* b) { return a->bound < b->bound; });
  return m;
}

}  // namespace

Result<std::vector<RejectedFamily>> rejected_families(std::vector<Candidate>& all, const LayoutSpace& space, double memory_limit,
                                                      const StepReport& best, const SimulateAll& simulate) {
  std::vector<RejectedFamily> families;
  for (const Choice& choice : choices_of(all)) {
    if (choice.makes(best.layout)) continue;
    const Members m = members_of(choice, all);
    RejectedFamily family;
    family.choice = choice.name;
    if (!m.fit.empty()) {
      PEAL_TRY(simulate({m.fit.begin(), m.fit.begin() + static_cast<std::ptrdiff_t>(std::min(kAsked, m.fit.size()))}));
      say_slower(family, *m.fastest(), best, space);
    } else if (m.smallest != nullptr) {
      family.why = RejectedFamily::Why::does_not_fit;
      family.reason = fmt::format("needs {:.1f} GB of {:.1f} at least, with {}", m.smallest->memory / 1e9, memory_limit / 1e9,
                                  describe(m.smallest->layout));
    } else if (m.refused != nullptr) {
      family.why = RejectedFamily::Why::does_not_divide;
      family.reason = m.refused->refusal;
    } else {
      continue;
    }
    families.push_back(std::move(family));
  }
  return families;
}

}  // namespace peal::training
