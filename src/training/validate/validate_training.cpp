#include <training/validate_training.hpp>

#include <algorithm>
#include <set>

#include "fit_rates.hpp"
#include "run_statistics.hpp"

namespace peal::training {

namespace {

/// A row that can be predicted, with what stays the same whatever the constants are.
struct Prepared {
  std::size_t row = 0;
  TrainingRun run;
  FitRun fit;
};

using Key = std::tuple<std::string, std::string, int, std::string>;

struct Room {
  topology::Cluster cluster;
  Communication communication;
};

/// Rows of one cluster and one layout of ranks ask one Communication.
class Rooms {
 public:
  Result<Room*> of(const TrainingRun& run) {
    const Layout& l = run.layout;
    const Key key{run.machine, run.processor.name, run.nodes, fmt::format("{} {} {} {} {}", l.tp, l.cp, l.dp, l.pp, l.ep)};
    const auto known = all_.find(key);
    if (known != all_.end()) return &known->second;
    PEAL_ASSIGN(topology::Cluster cluster, cluster_of(run));
    PEAL_ASSIGN(Communication communication, Communication::make(cluster, l, sim::Library::nccl));
    return &all_.emplace(key, Room{cluster, std::move(communication)}).first->second;
  }

 private:
  std::map<Key, Room> all_;
};

Result<Prepared> prepare(const PublishedRun& published, const topology::LibraryConstants& constants, Rooms& rooms) {
  Prepared prepared;
  PEAL_ASSIGN(prepared.run, run_of(published));
  PEAL_ASSIGN(Room * room, rooms.of(prepared.run));
  PEAL_ASSIGN(prepared.fit.open, open_run(prepared.run, constants, room->communication));
  StepOptions step;
  step.software = prepared.run.software;
  PEAL_ASSIGN(const StepStudy study, simulate_step(prepared.run.model, room->cluster, prepared.run.layout, room->communication, step));
  OpenRun& open = prepared.fit.open;
  PEAL_ASSIGN(const topology::LibraryConstants* own, training_constants());
  open.ratio = study.report.time / estimate(open, rates_of(*own, open.keys));
  prepared.fit.seconds = prepared.run.seconds;
  prepared.fit.id = published.id;
  prepared.fit.source = published.source;
  return prepared;
}

Status predict(PredictedRun& row, const Prepared& prepared, const topology::LibraryConstants& constants) {
  row.assumptions = prepared.run.assumptions;
  row.measured = prepared.run.seconds;
  row.predicted = estimate(prepared.fit.open, rates_of(constants, prepared.fit.open.keys));
  PEAL_ASSIGN(const std::vector<StageMemory> memory, memory_of(prepared.run.model, prepared.run.layout, prepared.run.software));
  row.predicted_gib = fullest(memory).total() / 1073741824.0;
  row.fits = fullest(memory).total() <= prepared.run.processor.memory_bytes;
  return {};
}

/// What a fit may see: what ran, of all sources but `left_out`.
std::vector<const FitRun*> runs_to_fit(const std::vector<Prepared>& prepared, const std::vector<PublishedRun>& runs,
                                       const std::optional<std::string>& left_out = {}) {
  std::vector<const FitRun*> some;
  for (const Prepared& p : prepared)
    if (runs[p.row].source != left_out && !runs[p.row].ran_out_of_memory) some.push_back(&p.fit);
  return some;
}

void keep_out(TrainingValidation& v, const std::vector<Prepared>& prepared, const std::vector<PublishedRun>& runs,
              const topology::LibraryConstants& constants, const TrainingValidateOptions& options) {
  std::vector<std::pair<double, double>> all;
  for (const auto& [source, errors] : v.by_source) {
    if (options.progress) options.progress(fmt::format("without {}", source));
    const topology::LibraryConstants others = fit_rates(runs_to_fit(prepared, runs, source), constants);
    std::vector<std::pair<double, double>> own;
    for (const Prepared& p : prepared)
      if (runs[p.row].source == source) own.emplace_back(estimate(p.fit.open, rates_of(others, p.fit.open.keys)), p.fit.seconds);
    v.kept_out[source] = errors_of(own);
    all.insert(all.end(), own.begin(), own.end());
  }
  v.kept_out_all = errors_of(all);
}

std::vector<topology::LibraryConstant> used_of(const std::vector<Prepared>& prepared, const topology::LibraryConstants& constants) {
  std::set<int> places;
  for (const Prepared& p : prepared)
    for (const int place : places_of(p.fit.open.keys)) places.insert(place);
  std::vector<topology::LibraryConstant> used;
  for (const int place : places)
    if (const topology::LibraryConstant& c = constants.all()[static_cast<std::size_t>(place)]; c.is_fitted()) used.push_back(c);
  return used;
}

topology::LibraryAccuracy accuracy_of(const TrainingValidation& v) {
  topology::LibraryAccuracy a;
  a.median = v.all.mean;
  a.ninth_decile = v.all.p90;
  a.kept_out = v.kept_out_all.mean;
  a.cases = v.all.rows;
  return a;
}

}  // namespace

Result<TrainingStudy> validate_training(std::string file, const std::vector<PublishedRun>& runs, const TrainingValidateOptions& options) {
  TrainingStudy study;
  TrainingValidation& v = study.validation;
  v.file = std::move(file);
  if (options.constants) {
    study.constants = *options.constants;
  } else {
    PEAL_ASSIGN(const topology::LibraryConstants* own, training_constants());
    study.constants = *own;
  }
  Rooms rooms;
  std::vector<Prepared> prepared;
  for (const PublishedRun& published : runs) {
    v.runs.push_back({published, {}, {}, 0, 0, 0, true});
    Result<Prepared> one = prepare(published, study.constants, rooms);
    if (one) {
      one->row = v.runs.size() - 1;
      prepared.push_back(*std::move(one));
    } else {
      v.runs.back().why_not = one.error().message;
    }
    if (options.progress && v.runs.size() % 200 == 0) options.progress(fmt::format("{} of {} rows read", v.runs.size(), runs.size()));
  }
  if (options.fits_anew) study.constants = fit_rates(runs_to_fit(prepared, runs), study.constants);
  for (const Prepared& p : prepared) PEAL_TRY(predict(v.runs[p.row], p, study.constants));
  summarise(v);
  if (options.keeps_out || options.fits_anew) keep_out(v, prepared, runs, study.constants, options);
  if (options.fits_anew) study.constants.set_accuracy({accuracy_of(v)});
  v.free = used_of(prepared, study.constants);
  return study;
}

}  // namespace peal::training
