#include <unistd.h>

#include <base/settings.hpp>
#include <bootstrap/job.hpp>
#include <net/interfaces.hpp>

namespace peal::bootstrap {
namespace {

constexpr int kMaxRanks = 32768;

struct Names {
  std::string_view rank, size, local_rank, local_size;
};
constexpr Names kPealNames{"PEAL_RANK", "PEAL_SIZE", "PEAL_LOCAL_RANK", ""};
constexpr Names kTorchNames{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpiNames{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};

bool is_present(const Names& names) { return has_setting(names.rank) || has_setting(names.size); }

Result<int> optional_number(std::string_view name, int low) {
  if (name.empty() || !has_setting(name)) return -1;
  PEAL_ASSIGN(const std::int64_t value, integer_setting(name, low, kMaxRanks));
  return static_cast<int>(value);
}

Status read_numbers(const Names& names, Job& job) {
  if (!has_setting(names.size))
    return fail(ErrorCode::invalid_argument, "{} is set but {} is not: set both, or neither for a single rank", names.rank, names.size);
  if (!has_setting(names.rank))
    return fail(ErrorCode::invalid_argument, "{} is set but {} is not: set both, or neither for a single rank", names.size, names.rank);
  PEAL_ASSIGN(const std::int64_t size, integer_setting(names.size, 1, kMaxRanks));
  PEAL_ASSIGN(const std::int64_t rank, integer_setting(names.rank, 0, kMaxRanks));
  if (rank >= size)
    return fail(ErrorCode::invalid_argument, "{}={} is not below {}={}: ranks go from 0 to {}", names.rank, rank, names.size, size,
                size - 1);
  job.rank = static_cast<int>(rank);
  job.size = static_cast<int>(size);
  PEAL_ASSIGN(job.local_rank, optional_number(names.local_rank, 0));
  PEAL_ASSIGN(job.local_size, optional_number(names.local_size, 1));
  if (job.local_size > job.size)
    return fail(ErrorCode::invalid_argument, "{}={} is more than {}={}: a host cannot have more ranks than the job", names.local_size,
                job.local_size, names.size, job.size);
  if (job.local_size >= 0 && job.local_rank >= job.local_size)
    return fail(ErrorCode::invalid_argument, "{}={} is not below {}={}", names.local_rank, job.local_rank, names.local_size,
                job.local_size);
  return {};
}

/// "host" and "[v6]" get PEAL_PORT.
Result<std::string> with_peal_port(const std::string& text) {
  if (text.starts_with("unix:")) return text;
  const bool has_port = text.starts_with('[') ? !text.ends_with(']') : text.find(':') != std::string::npos;
  if (has_port) return text;
  PEAL_ASSIGN(const std::int64_t port, integer_setting("PEAL_PORT", 1, 65535));
  return fmt::format("{}:{}", text, port);
}

Status take_root_setting(Job& job) {
  PEAL_ASSIGN(const std::string text, with_peal_port(setting("PEAL_ROOT")));
  auto root = net::Address::resolve(text);
  if (!root) return fail(root.error().code, "PEAL_ROOT: {}", root.error().message);
  job.root = *root;
  return {};
}

/// The name where ranks of one host meet. Abstract names are seen by all users, so it holds the user, and the connection checks it again.
Status meet_on_this_host(Job& job, const std::string& identity) {
  PEAL_ASSIGN(job.root, net::Address::unix_name(fmt::format("peal-{}-{:016x}", geteuid(), net::hash_text(identity))));
  return {};
}

/// Debian names the host itself 127.0.1.1 in /etc/hosts, so rank 0 may see a loopback address where others see a real one.
Status leave_loopback(Job& job, const std::string& master) {
  if (job.rank != 0 || !job.root.is_loopback()) return {};
  if (!has_setting("PEAL_INTERFACE"))
    return fail(ErrorCode::invalid_argument,
                "MASTER_ADDR={} is the loopback address {} on the host of rank 0, where other hosts cannot reach it: give the host's own "
                "address, or set "
                "PEAL_INTERFACE there",
                master, job.root.host());
  PEAL_ASSIGN(const auto choice, net::choose_interface(setting("PEAL_INTERFACE"), job.root));
  job.root = choice.interface.address.with_port(job.root.port());
  return {};
}

Status find_torch_root(Job& job) {
  const std::string master = setting("MASTER_ADDR");
  const std::string port = setting("MASTER_PORT");
  const bool is_local_name = master == "localhost" || master == "127.0.0.1" || master == "::1";
  const bool is_one_host = job.local_size == job.size || (job.local_size < 0 && is_local_name);
  if (is_one_host && port.empty() && setting("TORCHELASTIC_RUN_ID").empty())
    return fail(
        ErrorCode::invalid_argument,
        "RANK and WORLD_SIZE are set but MASTER_PORT is not, so ranks cannot tell their job from another: start them with torchrun, or set "
        "MASTER_ADDR and MASTER_PORT, or PEAL_ROOT");
  if (is_one_host)
    return meet_on_this_host(job, fmt::format("torchrun/{}/{}/{}/{}", setting("TORCHELASTIC_RUN_ID"), port,
                                              setting("TORCHELASTIC_RESTART_COUNT"), setting("PEAL_JOB")));
  if (master.empty())
    return fail(ErrorCode::invalid_argument,
                "the ranks are on several hosts and MASTER_ADDR is not set: set it, or PEAL_ROOT=HOST:PORT of rank 0");
  const bool is_bare_v6 = master.find(':') != std::string::npos && !master.starts_with('[');
  PEAL_ASSIGN(const std::string text, with_peal_port(is_bare_v6 ? "[" + master + "]" : master));
  auto root = net::Address::resolve(text);
  if (!root) return fail(root.error().code, "MASTER_ADDR: {}", root.error().message);
  job.root = *root;
  return leave_loopback(job, master);
}

Status find_open_mpi_root(Job& job) {
  if (job.local_size != job.size)
    return fail(ErrorCode::invalid_argument,
                "Open MPI started {} ranks on several hosts and tells no address: type `mpirun -x PEAL_ROOT=HOST:PORT -x "
                "PEAL_KEY_FILE=FILE ...` with an "
                "address of the host of rank 0",
                job.size);
  const std::string space = setting("PMIX_NAMESPACE");
  if (space.empty() && !has_setting("PEAL_JOB"))
    return fail(
        ErrorCode::invalid_argument,
        "Open MPI's environment has no PMIX_NAMESPACE, so ranks cannot tell their job from another: type `mpirun -x PEAL_JOB=NAME ...`");
  return meet_on_this_host(job, fmt::format("openmpi/{}/{}", space, setting("PEAL_JOB")));
}

Status find_root(Job& job) {
  if (job.size == 1) return {};
  if (has_setting("PEAL_ROOT")) return take_root_setting(job);
  if (job.launcher == "torchrun") return find_torch_root(job);
  if (job.launcher == "openmpi") return find_open_mpi_root(job);
  return fail(ErrorCode::invalid_argument,
              "PEAL_RANK and PEAL_SIZE are set but PEAL_ROOT is not: set it to unix:NAME for ranks of one host, or to HOST:PORT of rank 0; "
              "`peal run` does it");
}

/// The restart count keeps the ranks of two attempts apart even where the address stays.
std::uint64_t find_job_id(const Job& job) {
  return net::hash_text(fmt::format("{}/{}/{}/{}", setting("PEAL_JOB"), job.launcher == "torchrun" ? setting("TORCHELASTIC_RUN_ID") : "",
                                    job.launcher == "torchrun" ? setting("TORCHELASTIC_RESTART_COUNT") : "",
                                    job.launcher == "openmpi" ? setting("PMIX_NAMESPACE") : ""));
}

}  // namespace

Status check(const Job& job) {
  if (job.size < 1 || job.size > kMaxRanks)
    return fail(ErrorCode::invalid_argument, "a job of {} ranks: it must have 1 to {}", job.size, kMaxRanks);
  if (job.rank < 0 || job.rank >= job.size)
    return fail(ErrorCode::invalid_argument, "rank {} is not below the size {}: ranks go from 0 to {}", job.rank, job.size, job.size - 1);
  if (job.hub < 0 || job.hub >= job.size)
    return fail(ErrorCode::invalid_argument, "the hub {} is not below the size {}: ranks go from 0 to {}", job.hub, job.size, job.size - 1);
  if (!(job.start_timeout_s > 0))
    return fail(ErrorCode::invalid_argument, "a start timeout of {} s: it must be above 0", job.start_timeout_s);
  if (job.size == 1) return {};
  if (job.root.family() == net::Family::none)
    return fail(ErrorCode::invalid_argument, "a job of {} ranks needs a root address where they meet: set PEAL_ROOT", job.size);
  if (job.root.is_unix()) return {};
  if (job.root.port() == 0 || job.root.is_any())
    return fail(ErrorCode::invalid_argument,
                "the root {} is no address that others can connect to: give an address of the host of rank {} and a port", job.root.text(),
                job.hub);
  if (!job.key)
    return fail(ErrorCode::refused,
                "ranks that meet over TCP at {} need a key and none was given: `peal run` makes and hands out one; by hand type `(umask "
                "077; openssl rand "
                "-hex 32 > peal.key)`, copy the file to every host and set PEAL_KEY_FILE",
                job.root.text());
  return {};
}

Result<Job> job_from_environment() {
  Job job;
  PEAL_ASSIGN(const std::int64_t timeout, integer_setting("PEAL_START_TIMEOUT", 1, 86'400));
  job.start_timeout_s = static_cast<double>(timeout);
  const Names* names = is_present(kPealNames)      ? &kPealNames
                       : is_present(kTorchNames)   ? &kTorchNames
                       : is_present(kOpenMpiNames) ? &kOpenMpiNames
                                                   : nullptr;
  if (names == nullptr) {
    job.local_rank = 0;
    job.local_size = 1;
    job.launcher = "single";
    job.explanation = "no launcher's environment: a single rank";
    return job;
  }
  job.launcher = names == &kPealNames ? "peal" : names == &kTorchNames ? "torchrun" : "openmpi";
  PEAL_TRY(read_numbers(*names, job));
  if (has_setting("PEAL_LOCAL_RANK") && job.local_rank < 0) {
    PEAL_ASSIGN(job.local_rank, optional_number("PEAL_LOCAL_RANK", 0));
  }
  PEAL_TRY(find_root(job));
  if (job.size > 1 && has_setting("PEAL_KEY_FILE")) {
    PEAL_ASSIGN(job.key, net::read_key_file(setting("PEAL_KEY_FILE")));
  }
  job.job_id = find_job_id(job);
  job.explanation = fmt::format("{} says rank {} of {}; ranks meet at {}{}", job.launcher, job.rank, job.size, job.root.text(),
                                has_setting("PEAL_ROOT") ? " (PEAL_ROOT)" : "");
  PEAL_TRY(check(job));
  return job;
}

}  // namespace peal::bootstrap
