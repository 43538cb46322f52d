#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>
#include <training/planner.hpp>

#include "layout_candidates.hpp"
#include "rejected_families.hpp"

namespace peal::training {

namespace {

/// Simulated between two looks at what is still worth it: the same layouts whatever the number of threads.
constexpr std::size_t kBatch = 16;
constexpr int kMostRounds = 4;
/// Memory that is counted as no more.
constexpr double kSameMemory = 0.01;

/// Calls each(i) for i below `count` from several threads; the failure of the lowest i, if any.
template <class Each>
Status in_parallel(std::size_t count, int threads, Each&& each) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::pair<std::size_t, std::optional<Failure>> first{count, std::nullopt};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      const Status done = each(i);
      if (done) continue;
      const std::lock_guard hold(mutex);
      if (i < first.first) first = {i, done.error()};
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads && static_cast<std::size_t>(t) < count; ++t) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  if (first.second) return pass_on(std::move(*first.second));
  return {};
}

class Search {
 public:
  Search(const Model& model, const LayoutSpace& space, const LayoutEvaluator& evaluator, const PlanOptions& options)
      : model_(model), space_(space), evaluator_(evaluator), options_(options) {
    threads_ = options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  Result<LayoutPlan> run() {
    const auto start = std::chrono::steady_clock::now();
    all_ = candidates_of(model_, space_);
    PEAL_TRY(measure());
    PEAL_TRY(simulate_best());
    PEAL_TRY(ask_families());
    if (evaluator_.placement) {
      PEAL_ASSIGN(plan_.placement, evaluator_.placement(plan_.best.front().layout));
    }
    plan_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(plan_);
  }

 private:
  void say(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  /// Memory of all that divide, the bound of all that fit.
  Status measure() {
    std::vector<Candidate*> divide;
    for (Candidate& candidate : all_)
      if (candidate.refusal.empty()) divide.push_back(&candidate);
    plan_.looked_at = all_.size();
    plan_.divide = divide.size();
    say(fmt::format("{} layouts, {} divide", all_.size(), divide.size()));
    if (divide.empty()) return nothing_divides();
    PEAL_TRY(in_parallel(divide.size(), threads_, [&](std::size_t i) -> Status {
      PEAL_ASSIGN(divide[i]->memory, evaluator_.memory(divide[i]->layout));
      divide[i]->fits = divide[i]->memory <= evaluator_.memory_limit;
      return {};
    }));
    plan_.fit = static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), [](const Candidate& c) { return c.fits; }));
    say(fmt::format("{} fit into {:.1f} GB", plan_.fit, evaluator_.memory_limit / 1e9));
    if (plan_.fit == 0) return nothing_fits(divide);
    PEAL_TRY(add_orders());
    for (Candidate& c : all_)
      if (c.fits) fit_.push_back(&c);
    PEAL_TRY(in_parallel(fit_.size(), threads_, [&](std::size_t i) -> Status {
      PEAL_ASSIGN(fit_[i]->bound, evaluator_.bound(fit_[i]->layout));
      return {};
    }));
    std::stable_sort(fit_.begin(), fit_.end(), [](const Candidate* a, const Candidate* b) { return a->bound < b->bound; });
    return {};
  }

  /// Another candidate for each further order of ranks.
  Status add_orders() {
    if (!evaluator_.orders) return {};
    std::vector<std::vector<std::array<Dimension, 4>>> orders(all_.size());
    PEAL_TRY(in_parallel(all_.size(), threads_, [&](std::size_t i) -> Status {
      if (!all_[i].fits) return {};
      PEAL_ASSIGN(orders[i], evaluator_.orders(all_[i].layout));
      return {};
    }));
    for (std::size_t i = 0; i < orders.size(); ++i)
      for (std::size_t k = 0; k < orders[i].size(); ++k) {
        if (k > 0) all_.push_back(all_[i]);
        (k > 0 ? all_.back() : all_[i]).layout.order = orders[i][k];
      }
    return {};
  }

  Status gpus_do_not_divide() const {
    std::string given;
    int product = 1;  // or more than there are
    for (const auto& [name, value] : {std::pair{"tp", space_.tp}, {"cp", space_.cp}, {"pp", space_.pp}}) {
      if (!value) continue;
      product = *value > space_.gpus / product ? space_.gpus + 1 : product * *value;
      given += fmt::format("{}--{} {}", given.empty() ? "" : " x ", name, *value);
    }
    int below = std::min(product, space_.gpus), above = product;
    while (space_.gpus % below != 0) --below;
    while (above < space_.gpus && space_.gpus % above != 0) ++above;
    const std::string also = above <= space_.gpus ? fmt::format(" or {}", above) : std::string();
    return fail(ErrorCode::invalid_argument, "{} GPUs do not divide by {}; {}{}{} does", space_.gpus, given,
                given.find(" x ") == std::string::npos ? "" : "a product of ", below, also);
  }

  Status nothing_divides() const {
    if (all_.empty()) return gpus_do_not_divide();
    return fail(ErrorCode::invalid_argument, "no layout of {} on {} GPUs divides: {}", model_.title, space_.gpus, all_.front().refusal);
  }

  Status nothing_fits(const std::vector<Candidate*>& divide) const {
    const Candidate& least =
        **std::min_element(divide.begin(), divide.end(), [](const Candidate* a, const Candidate* b) { return a->memory < b->memory; });
    return fail(ErrorCode::unsupported, "{} does not fit on {} GPUs of {:.1f} GB: the least is {:.1f} GB ({}); {}", model_.title,
                space_.gpus, evaluator_.memory_limit / 1e9, least.memory / 1e9, describe(least.layout), nearest_that_fits());
  }

  /// What was given is freed first, then machines are added.
  std::string nearest_that_fits() const {
    LayoutSpace freed = space_;
    freed.tp = freed.cp = freed.pp = freed.ep = freed.vpp = freed.zero = freed.micro_batch = std::nullopt;
    freed.recompute = std::nullopt;
    freed.pipeline = std::nullopt;
    for (int times = 1; times <= 4096; times *= 2) {
      freed.gpus = space_.gpus * times;
      if (freed.global_batch > 0) freed.global_batch = std::max(freed.global_batch, freed.gpus);
      for (const Candidate& c : candidates_of(model_, freed)) {
        if (!c.refusal.empty()) continue;
        const auto memory = evaluator_.memory(c.layout);
        if (memory && *memory <= evaluator_.memory_limit)
          return times == 1 ? fmt::format("{} does", describe(c.layout))
                            : fmt::format("{} nodes do, with {}", freed.gpus / std::max(1, space_.gpus_per_node), describe(c.layout));
      }
    }
    return "give it GPUs with more memory";
  }

  Status simulate(const std::vector<Candidate*>& wanted) {
    std::vector<Candidate*> missing;
    for (Candidate* c : wanted)
      if (!c->report) missing.push_back(c);
    PEAL_TRY(in_parallel(missing.size(), threads_, [&](std::size_t i) -> Status {
      PEAL_ASSIGN(missing[i]->report, evaluator_.simulate(missing[i]->layout));
      return {};
    }));
    plan_.simulated += missing.size();
    return {};
  }

  Status simulate_best() {
    const auto most = static_cast<std::size_t>(std::max(options_.best, options_.most_simulated));
    for (std::size_t from = 0; from < fit_.size() && from < most; from += kBatch) {
      if (plan_.best.size() >= wanted() && fit_[from]->bound >= plan_.best.back().time) break;
      const std::size_t to = std::min({from + kBatch, fit_.size(), most});
      PEAL_TRY(simulate({fit_.begin() + static_cast<std::ptrdiff_t>(from), fit_.begin() + static_cast<std::ptrdiff_t>(to)}));
      take_best();
      say(fmt::format("{} simulated of {} that fit; the best takes {:.4g} s", plan_.simulated, plan_.fit, plan_.best.front().time));
    }
    return {};
  }

  /// A member of a family can turn out to be the best of all: the others are then held against it.
  Status ask_families() {
    for (int round = 0; round < kMostRounds; ++round) {
      const Layout best = plan_.best.front().layout;
      PEAL_ASSIGN(plan_.rejected, rejected_families(all_, space_, evaluator_.memory_limit, plan_.best.front(),
                                                    [this](const std::vector<Candidate*>& members) { return simulate(members); }));
      take_best();
      if (plan_.best.front().layout == best) break;
    }
    return {};
  }

  std::size_t wanted() const { return static_cast<std::size_t>(std::max(1, options_.best)); }

  void take_best() {
    std::vector<const Candidate*> known;
    for (const Candidate& c : all_)
      if (c.report) known.push_back(&c);
    std::stable_sort(known.begin(), known.end(), [](const Candidate* a, const Candidate* b) { return a->report->time < b->report->time; });
    std::vector<const Candidate*> taken;
    for (const Candidate* c : known) {
      if (taken.size() == wanted()) break;
      if (std::none_of(taken.begin(), taken.end(), [&](const Candidate* t) { return is_outdone(*c, *t); })) taken.push_back(c);
    }
    plan_.best.clear();
    for (const Candidate* c : taken) plan_.best.push_back(*c->report);
  }

  /// `other` is as fast, needs no more memory, and is the same but for what is chosen for time and memory alone.
  static bool is_outdone(const Candidate& c, const Candidate& other) {
    Layout same = c.layout;
    same.zero = other.layout.zero;
    same.recompute = other.layout.recompute;
    same.order = other.layout.order;
    return same == other.layout && other.report->time <= c.report->time && other.memory <= c.memory * (1 + kSameMemory);
  }

  const Model& model_;
  const LayoutSpace& space_;
  const LayoutEvaluator& evaluator_;
  const PlanOptions& options_;
  int threads_ = 1;
  std::vector<Candidate> all_;
  std::vector<Candidate*> fit_;  // by bound
  LayoutPlan plan_;
};

}  // namespace

Result<LayoutPlan> plan_layouts(const Model& model, const LayoutSpace& space, const LayoutEvaluator& evaluator,
                                const PlanOptions& options) {
  return Search(model, space, evaluator, options).run();
}

}  // namespace peal::training
