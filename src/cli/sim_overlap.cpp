// peal sim --compute: calls beside computing.
#include <cli/commands.hpp>
#include <cli/sim_words.hpp>
#include <sim/fault_words.hpp>
#include <sim/library.hpp>
#include <sim/pictures.hpp>
#include <topology/library_constants.hpp>

namespace peal::cli {

namespace {

Status refuse_beside_computing(const SimWords& words) {
  const bool looks_into_one = words.critical_path || words.utilisation || !words.messages.empty() || words.is_unfolded;
  if (looks_into_one || !words.faults.beside.empty() || !words.faults.failure.empty() || words.faults.runs > 0 ||
      words.faults.hash_seeds != 0)
    return fail(ErrorCode::invalid_argument,
                "--compute shows many calls and what is computed; leave --critical-path, --utilisation, --message, --unfolded, --beside, "
                "--fail-rank, --runs and --hash-seeds to calls alone");
  // Its rows would not say that they are approximate.
  sim::InterpretOptions any;
  PEAL_TRY(set_effort(words, any));
  if (any.most_exact_rates == 0)
    return fail(ErrorCode::invalid_argument, "--compute works all rates out; leave --rates kept to calls alone");
  if (words.question.whose != "peal")
    return fail(ErrorCode::invalid_argument, "--library {} has a formula and no schedule that could run beside computing; leave it out",
                words.question.whose);
  return {};
}

/// Channels that the library of the GPU's maker would take: each is a thread block.
Result<double> channels_of(const sim::Scene& scene, const tuning::Call& call) {
  const topology::Cluster& cluster = scene.resources->cluster();
  sim::LibraryOptions options;
  options.whose = sim::library_of(cluster, scene.device_of_rank.front());
  const auto predict = [&]() -> Result<sim::LibraryAnswer> {
    PEAL_ASSIGN(const sim::LibraryModel model, sim::LibraryModel::make(cluster, scene.device_of_rank, options));
    return model.predict({call.collective, tuning::size_of_call(call, scene.environment.ranks), call.type});
  };
  const auto answer = predict();
  if (answer) return static_cast<double>(answer->channels);
  return fail(ErrorCode::unsupported, "how many thread blocks a call takes here is not known ({}); give --ctas N, 0 where none is taken",
              answer.error().message);
}

}  // namespace

Result<sim::Overlapping> overlapping_of(const SimWords& words, const sim::Scene& scene, const tuning::Call& call) {
  PEAL_ASSIGN(const sim::ComputeWords compute, sim::parse_compute(words.compute));
  sim::Overlapping asked{compute.compute, compute.parts};
  if (words.ctas == 0 || scene.environment.is_host) return asked;
  if (words.ctas > 0)
    asked.held = words.ctas;
  else {
    PEAL_ASSIGN(asked.held, channels_of(scene, call));
  }
  const auto processors = topology::processors_of(scene.resources->cluster().device(scene.device_of_rank.front()).name);
  if (!processors) return fail(ErrorCode::unsupported, "{}; give --ctas 0 for calls that take none", processors.error().message);
  asked.processors = *processors;
  if (asked.held > asked.processors)
    return fail(ErrorCode::invalid_argument, "--ctas {} are more than the {} processors of the GPU; give at most {}", asked.held,
                asked.processors, asked.processors);
  return asked;
}

namespace {

Status draw_overlap(const SimWords& words, const sim::Scene& scene, const sim::OverlapStudy& last) {
  if (!words.trace.empty()) PEAL_TRY(last.outcome.trace.write(words.trace));
  if (words.svg.empty()) return {};
  const std::string lines[] = {fmt::format("{} ranks, {}, simulated: {:.1f} us of computing and {:.1f} us of calls together in {:.1f} us",
                                           scene.environment.ranks, scene.resources->cluster().machine().title, last.row.compute_us,
                                           last.row.calls_us, last.row.together_us)};
  const std::string title = fmt::format("{} of {} after each of {} parts of computing: {}, {}", words.question.collective,
                                        to_text(Bytes{last.row.bytes}), last.row.parts, last.row.algorithm, last.row.protocol);
  const auto ranks = static_cast<int>(scene.groups() * scene.device_of_rank.size());
  return write_output(words.svg, sim::timeline_svg(title, lines, last.outcome.trace.events(), ranks));
}

}  // namespace

Result<OverlapCase> overlap_case(const SimWords& words, Bytes largest) {
  PEAL_TRY(refuse_beside_computing(words));
  OverlapCase made;
  PEAL_ASSIGN(made.scene, scene_of(words.question));
  PEAL_ASSIGN(made.question, question_of(words.question, made.scene.environment.ranks));
  PEAL_ASSIGN(made.options, interpret_options(words.faults, made.scene));
  PEAL_TRY(set_network(words.question, made.scene, made.options));
  made.options.progress = progress_on_stderr();
  made.question.call.bytes = largest;
  PEAL_ASSIGN(made.asked, overlapping_of(words, made.scene, made.question.call));
  made.table = sim::table_of(made.scene, made.question.call.collective);
  return made;
}

Result<sim::OverlapStudy> OverlapCase::study(Bytes size, bool keeps_trace) {
  question.call.bytes = size;
  options.keeps_trace = keeps_trace;
  return sim::overlap(scene, question, options, asked);
}

Result<int> simulate_overlap(const SimWords& words) {
  PEAL_ASSIGN(const std::vector<Bytes> sizes, sizes_of(words));
  PEAL_ASSIGN(OverlapCase all, overlap_case(words, sizes.back()));
  const bool is_told = words.json != "-";
  std::vector<sim::OverlapRow> rows;
  for (const Bytes& size : sizes) {
    const bool is_drawn = &size == &sizes.back() && (!words.trace.empty() || !words.svg.empty());
    PEAL_ASSIGN(const sim::OverlapStudy study, all.study(size, is_drawn));
    if (is_told && rows.empty()) PEAL_TRY(write_output("-", sim::overlap_header(all.table, all.asked)));
    rows.push_back(study.row);
    if (is_told) PEAL_TRY(write_output("-", sim::overlap_text(study.row)));
    if (is_drawn) PEAL_TRY(draw_overlap(words, all.scene, study));
  }
  if (is_told) PEAL_TRY(write_output("-", sim::overlap_footer(all.asked)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, sim::overlap_json(all.table, all.asked, rows)));
  return 0;
}

}  // namespace peal::cli
