// peal bench: starts the ranks, or is one of them when a launcher has started it.
#include <base/names.hpp>
#include <base/partial_sums.hpp>
#include <base/settings.hpp>
#include <bootstrap/job.hpp>
#include <cli/bench.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/launcher.hpp>
#include <memory>
#include <schedule/registry.hpp>

namespace peal::cli {

namespace {

struct BenchWords {
  std::string collective, first = "8", last = "64M", type = "f32", op = "sum", transport, algorithm, protocol, partial_sums, json;
  std::uint64_t factor = 2;
  int ranks = 2, root = 0, iterations = 0, warmup = -1, groups = 0, digest = 0;
  double timeout_s = 0;
  bool in_place = false, out_of_place = false, check = false, deterministic = false, numerics = false, zero_copy = false, rewrite = false;
  bool has_sizes = false;  // -b or -e was given
};

constexpr const char* kJudgedSize = "64K";  // of --digest and --numerics, unless sizes are given
constexpr int kJudgedIterations = 5;

// What is asked of the results: their digest, their error.
Status judge_as_asked(const BenchWords& words, BenchOptions& options) {
  if (words.digest < 0 || words.digest > 1'000'000)
    return fail(ErrorCode::invalid_argument, "--digest {} is no number of calls; give 1 to 1000000, or leave it out", words.digest);
  if (words.digest > 0 && options.collective == Collective::barrier)
    return fail(ErrorCode::invalid_argument, "barrier has no result to hash; leave --digest out");
  if (words.numerics && !has_reduction(options.collective))
    return fail(ErrorCode::invalid_argument,
                "{} sums nothing, so it has no rounding error; leave --numerics out, or ask for all_reduce, reduce, reduce_scatter or "
                "reduce_scatter_v",
                name_of(options.collective));
  options.digest_repeats = words.digest;
  options.numerics = words.numerics;
  options.zero_copy = words.zero_copy;
  options.rewrites = words.rewrite;
  if (words.digest == 0 && !words.numerics) return {};
  if (!words.has_sizes) {
    PEAL_ASSIGN(options.first, parse_bytes(kJudgedSize));
    options.last = options.first;
  }
  if (options.iterations == 0) options.iterations = kJudgedIterations;
  return {};
}

Result<BenchOptions> options_of(const BenchWords& words, int ranks) {
  BenchOptions options;
  PEAL_ASSIGN(options.collective, parse_collective(words.collective));
  PEAL_ASSIGN(options.first, parse_bytes(words.first));
  PEAL_ASSIGN(options.last, parse_bytes(words.last));
  PEAL_ASSIGN(options.type, parse_data_type(words.type));
  PEAL_ASSIGN(options.op, parse_reduce_op(words.op));
  PEAL_TRY(transport_of(words.transport));
  if (!words.algorithm.empty()) PEAL_TRY(schedule::find_algorithm(options.collective, words.algorithm));
  if (!words.protocol.empty()) PEAL_TRY(schedule::parse_protocol(words.protocol));
  if (!words.partial_sums.empty()) PEAL_TRY(parse_partial_sums(words.partial_sums));
  if (options.first.value > options.last.value)
    return fail(ErrorCode::invalid_argument, "-b {} is above -e {}; give the smaller size first", words.first, words.last);
  if (words.factor < 2) return fail(ErrorCode::invalid_argument, "-f {} does not grow; give 2 or more", words.factor);
  if (ranks < 1 || ranks > 1024) return fail(ErrorCode::invalid_argument, "-n {} is no number of ranks; give 1 to 1024", ranks);
  if (words.root < 0 || words.root >= ranks)
    return fail(ErrorCode::invalid_argument, "--root {} is not a rank of {}; give 0 to {}", words.root, ranks, ranks - 1);
  if (has_reduction(options.collective) && !is_supported(options.type, options.op))
    return fail(ErrorCode::invalid_argument,
                "{} cannot be applied to {}; integers and booleans take band, bor, bxor; booleans no avg or premul_sum",
                name_of(options.op), name_of(options.type));
  if (words.iterations < 0)
    return fail(ErrorCode::invalid_argument, "--iters {} is negative; leave it out to fit a time budget", words.iterations);
  if (words.iterations > 10'000'000)
    return fail(ErrorCode::invalid_argument, "--iters {} would take too much memory; give at most 10000000", words.iterations);
  if (words.groups < 0 || (words.groups > 0 && ranks % words.groups != 0))
    return fail(ErrorCode::invalid_argument, "{} ranks cannot be split into groups of {}; give --groups a divisor of {}", ranks,
                words.groups, ranks);
  options.factor = words.factor;
  options.root = words.root;
  options.groups = words.groups;
  options.iterations = words.iterations;
  options.warmup = words.warmup;
  options.check = words.check;
  options.out_of_place = words.out_of_place || !words.in_place;
  options.in_place = words.in_place || !words.out_of_place;
  if (words.in_place && !words.out_of_place && !has_in_place(options.collective))
    return fail(ErrorCode::unsupported, "{} has no in-place form; leave --in-place out", name_of(options.collective));
  PEAL_TRY(judge_as_asked(words, options));
  return options;
}

std::string transport_text(const comm::Core& core, const std::string& asked) {
  if (core.size() == 1) return asked.empty() || asked == "auto" ? "none" : asked;
  return core.routes().name_of(core.rank() == 0 ? core.size() - 1 : 0);
}

// One rank. Rank 0 prints.
Result<int> measure(const BenchWords& words) {
  PEAL_ASSIGN(const bootstrap::Job job, bootstrap::job_from_environment());
  PEAL_ASSIGN(BenchOptions options, options_of(words, words.groups > 0 ? words.groups : job.size));
  comm::CoreOptions core_options;
  PEAL_ASSIGN(core_options.transport, transport_of(words.transport));
  PEAL_ASSIGN(const std::shared_ptr<comm::Core> world, comm::Core::world(job, core_options));
  std::shared_ptr<comm::Core> core = world;
  if (options.groups > 0) {
    PEAL_ASSIGN(core, world->split(world->rank() / options.groups, world->rank()));
  }
  const std::shared_ptr<comm::Core> plain = core;
  PEAL_ASSIGN(const bool is_set, flag_setting("PEAL_DETERMINISTIC"));
  const bool deterministic = words.deterministic || is_set;
  const std::string partial_sums = words.partial_sums.empty() ? setting("PEAL_PARTIAL_SUMS") : words.partial_sums;
  PEAL_ASSIGN(options.f32_partial_sums, parse_partial_sums(partial_sums));
  if (words.deterministic || !words.algorithm.empty() || !words.protocol.empty() || !words.partial_sums.empty()) {
    PEAL_ASSIGN(core, plain->split(0, plain->rank(), {deterministic, words.algorithm, words.protocol, options.f32_partial_sums}));
  }
  const bool prints = world->rank() == 0;
  const std::string transport = transport_text(*core, words.transport);
  std::vector<std::string> lines;
  for (int r = 0; r < core->size(); ++r)
    lines.push_back(fmt::format("Rank {:>2} Pid {:>6} on {}", r, core->contact(r).pid, core->contact(r).host_name));
  const bool to_stdout = words.json == "-";
  if (prints && !to_stdout) PEAL_TRY(write_output("-", bench_heading(options, lines, core->size(), transport)));
  std::vector<BenchRow> rows;
  PEAL_TRY(run_bench(*core, *plain, options, [&](const BenchRow& row) {
    rows.push_back(row);
    if (prints && !to_stdout) (void)write_output("-", bench_line(options, row));
  }));
  std::int64_t wrong = 0;
  for (const BenchRow& row : rows) {
    for (const BenchHalf& half : row.half) wrong += std::max<std::int64_t>(half.wrong, 0);
    if (deterministic) wrong += row.digest.differing;
  }
  if (prints && !to_stdout) PEAL_TRY(write_output("-", bench_ending(rows)));
  if (prints && !words.json.empty()) PEAL_TRY(write_output(words.json, bench_json(options, rows, core->size(), transport)));
  // Nobody leaves before all have what they need.
  comm::Call barrier{Collective::barrier};
  PEAL_TRY(world->run(barrier));
  return wrong == 0 ? 0 : 1;
}

Result<int> run(const BenchWords& words, const std::vector<std::string>& arguments) {
  const bool is_rank = has_setting("PEAL_RANK") || has_setting("RANK") || has_setting("OMPI_COMM_WORLD_RANK");
  if (is_rank) return measure(words);
  const int ranks = words.ranks;
  if (ranks < 1 || ranks > 1024) return fail(ErrorCode::invalid_argument, "-n {} is no number of ranks; give 1 to 1024", ranks);
  if (words.timeout_s < 0) return fail(ErrorCode::invalid_argument, "--timeout {} is negative; give seconds", words.timeout_s);
  PEAL_TRY(can_write(words.json));
  PEAL_TRY(options_of(words, words.groups > 0 && words.groups <= ranks && ranks % words.groups == 0 ? words.groups : ranks));
  LaunchSpec spec = spec_of_this_tool(ranks, arguments);
  spec.timeout_s = words.timeout_s;
  PEAL_ASSIGN(const LaunchOutcome outcome, launch(spec));
  if (outcome.exit_code > 1 && !outcome.has_said_why) std::fprintf(stderr, "peal bench: %s\n", outcome.why.c_str());
  return outcome.exit_code;
}

}  // namespace

Result<comm::TransportChoice> transport_of(const std::string& asked) {
  const std::string text = asked.empty() ? setting("PEAL_TRANSPORT") : asked;
  if (text == "auto") return comm::TransportChoice::automatic;
  if (text == "shm") return comm::TransportChoice::shm;
  if (text == "tcp") return comm::TransportChoice::tcp;
  if (text == "ofi" || text == "cuda") return fail(ErrorCode::unsupported, "this build has no {} transport; type auto, shm or tcp", text);
  return fail(ErrorCode::invalid_argument, "there is no transport \"{}\"; type auto, shm or tcp", text);
}

void add_bench(CLI::App& app, Action& action) {
  auto words = std::make_shared<BenchWords>();
  CLI::App* command = app.add_subcommand("bench",
                                         "Measure a collective over real processes, in the columns of nccl-tests.\n"
                                         "Example: peal bench all_reduce -n 4 -b 8 -e 64M -f 4 --check");
  command
      ->add_option("collective", words->collective,
                   "all_reduce, reduce_scatter, all_gather, broadcast, reduce, gather, scatter, all_to_all, barrier, send_recv,\n"
                   "all_gather_v, reduce_scatter_v, all_to_all_v, gather_v or scatter_v")
      ->required();
  command->add_option("-n,--ranks", words->ranks, "Ranks to start on this host; under a launcher its ranks take part")
      ->capture_default_str();
  command->add_option("-b", words->first, "Smallest size in bytes (8, 64K, 1M); with --digest or --numerics 64K unless -b or -e is given")
      ->capture_default_str();
  command->add_option("-e", words->last, "Largest size in bytes")->capture_default_str();
  command->add_option("-f", words->factor, "Factor from one size to the next")->capture_default_str();
  command->add_option("--dtype", words->type, "f64 f32 f16 bf16 f8_e4m3fn f8_e5m2 i8 u8 i16 u16 i32 u32 i64 u64 bool")
      ->capture_default_str();
  command->add_option("--op", words->op, "sum prod min max avg premul_sum band bor bxor")->capture_default_str();
  command->add_option("--root", words->root, "Root rank")->capture_default_str();
  command->add_flag("--in-place", words->in_place, "Only in place");
  command->add_flag("--out-of-place", words->out_of_place, "Only out of place");
  command->add_flag("--zero-copy", words->zero_copy, "Buffers from peal::allocate, which the ranks of a host read where they lie");
  command->add_flag("--rewrite", words->rewrite,
                    "Each rank writes its input anew before each call of p50 and p99, as programs do; else it stays as it is, and\n"
                    "lies in the caches of the rank that read it last");
  command->add_option("--iters", words->iterations,
                      "Timed calls a row (default: what fits 0.1 s, at least 5; with --digest or --numerics 5)");
  command->add_option("--warmup", words->warmup, "Calls before the timed ones");
  command->add_flag("--check", words->check, "Check every element of every rank; exit code 1 when any is wrong");
  command->add_option("--transport", words->transport, "auto, shm or tcp (default: PEAL_TRANSPORT, or auto)");
  command->add_option("--algorithm", words->algorithm, "Force an algorithm (peal explain lists them)");
  command->add_option("--protocol", words->protocol, "Force a protocol: line, staged, ...");
  command->add_option("--partial-sums", words->partial_sums,
                      "How sums of f16, bf16 and f8 travel until they are finished: element (their own type, rounded at every hop)\n"
                      "or f32 (rounded once, more bytes; default: PEAL_PARTIAL_SUMS, or element)");
  command->add_flag(
      "--deterministic", words->deterministic,
      "Only canonical summation (as PEAL_DETERMINISTIC=1); with --digest exit code 1 when two calls of a row give different bits");
  command->add_option("--digest", words->digest,
                      "Hash the results of so many more calls a row and half (1 to 1000000), of inputs whose sums depend on the order,\n"
                      "and print one SHA-256 over all ranks");
  command->add_flag(
      "--numerics", words->numerics,
      "Print how far sums of mixed sign and magnitude are from f64: in ulps (units in the last place of --dtype) and relative");
  command->add_option("--groups", words->groups, "Split the ranks into groups of K that run at the same time");
  command->add_option("--timeout", words->timeout_s, "Stop after so many seconds (exit code 124)");
  command->add_option("--json", words->json, "Write the table as JSON to a file, or - for standard output");
  command->callback([words, command, &action] {
    words->has_sizes = command->count("-b") + command->count("-e") > 0;
    action = [words] { return run(*words, original_arguments()); };
  });
}

}  // namespace peal::cli
