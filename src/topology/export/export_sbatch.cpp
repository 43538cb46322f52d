// A batch script for Slurm. One launcher a machine starts that machine's ranks: --ntasks-per-node=8 beside eight ranks of a launcher would
// be 64 processes on eight GPUs.
#include <algorithm>
#include <topology/export.hpp>

#include "slurm_tree.hpp"
#include "slurm_words.hpp"

namespace peal::topology {
namespace {

struct Split {
  int nodes = 0;
  int per_node = 0;
};

/// The fewest machines that share the ranks evenly, as both launchers ask.
std::optional<Split> split_evenly(int ranks, int nodes, int most_per_node) {
  for (int n = (ranks + most_per_node - 1) / most_per_node; n <= nodes; ++n)
    if (ranks % n == 0) return Split{n, ranks / n};
  return std::nullopt;
}

/// Machines that one NVLink domain holds, 1 where it ends at the machine.
int nodes_per_nvlink_domain(const Graph& machine) {
  const std::vector<SlurmBlock> domains = plan_slurm_blocks(machine, {});
  return domains.empty() ? 1 : static_cast<int>(domains.front().machines.size());
}

constexpr std::string_view kBody = R"(
# Give the program behind the script:   sbatch job.sh ./train --epochs 3       (started by peal run)
#                                       LAUNCHER=torchrun sbatch job.sh train.py (started by torchrun)
set -euo pipefail
if [ $# -eq 0 ]; then echo "name the program: sbatch $0 PROGRAM ARGUMENTS" >&2; exit 2; fi

RANKS={ranks}
RANKS_PER_NODE={per_node}
export HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd,)
export HEAD=${{HOSTS%%,*}}
export PORT=$((20000 + SLURM_JOB_ID % 5000))        # jobs that share a machine do not meet on one port
export PEAL_PORT=$((25000 + SLURM_JOB_ID % 5000))   # Peal's own, as torchrun keeps the other one
{key}
# Each task gets all cores of its machine, and the launcher binds the ranks: srun by itself would give it one core, and all ranks that one.
step=(srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" --cpu-bind=none --kill-on-bad-exit=1)

case "${{LAUNCHER:-peal}}" in
peal)
{peal}  ;;
torchrun)
  # DistributedDataParallel synchronises in every backward pass: with gradient accumulation, run all but the last one under no_sync().
  "${{step[@]}}" torchrun --nnodes={nodes} --nproc-per-node="$RANKS_PER_NODE" --rdzv-id="$SLURM_JOB_ID" \
    --rdzv-backend=c10d --rdzv-endpoint="$HEAD:$PORT" "$@"
  ;;
*)
  echo "LAUNCHER is \"$LAUNCHER\": give peal or torchrun" >&2
  exit 2
  ;;
esac
)";

constexpr std::string_view kPealSeveral =
    R"(  export RANKS
  "${step[@]}" bash -c 'exec peal run -n "$RANKS" --hosts "$HOSTS" --host-index "$SLURM_NODEID" --root "$HEAD:$PEAL_PORT" \
    --key-file "$PEAL_KEY_FILE" -- "$@"' peal "$@"
)";
constexpr std::string_view kKey =
    R"(export PEAL_KEY_FILE=$PWD/peal-$SLURM_JOB_ID.key      # the job's secret, in a folder that every machine sees
(umask 077; head -c 32 /dev/urandom > "$PEAL_KEY_FILE")
trap 'rm -f "$PEAL_KEY_FILE"' EXIT
)";
constexpr std::string_view kPealOne = R"(  "${step[@]}" peal run -n "$RANKS" -- "$@"
)";

}  // namespace

Result<std::string> export_sbatch(const Cluster& cluster, int ranks) {
  const int per_node = cluster.ranks_per_node();
  const std::string title = cluster.machine().title.empty() ? "the machine" : cluster.machine().title;
  if (per_node < 1) return fail(ErrorCode::invalid_argument, "{} has no GPU, core or CPU that a rank could be placed on", title);
  if (ranks < 1) return fail(ErrorCode::invalid_argument, "a job of {} ranks: give --ranks 1 or more", ranks);
  if (ranks > cluster.ranks()) {
    return fail(ErrorCode::invalid_argument,
                "{} ranks do not fit on {} machines with {} each, {} in all: give more --nodes, or fewer --ranks", ranks, cluster.nodes(),
                per_node, cluster.ranks());
  }
  const std::optional<Split> split = split_evenly(ranks, cluster.nodes(), per_node);
  if (!split) {
    const int below = ranks / per_node * per_node;
    return fail(ErrorCode::invalid_argument,
                "{} ranks cannot be split evenly over up to {} machines with at most {} each, as launchers ask: give --ranks {}", ranks,
                cluster.nodes(), per_node,
                below + per_node <= cluster.ranks() ? fmt::format("{} or {}", below, below + per_node) : fmt::format("{}", below));
  }
  const bool has_gpus = !cluster.machine().devices_of(DeviceKind::gpu).empty();
  std::string out = fmt::format("#!/bin/bash\n# {} ranks on {} machines, {} {} each: {}\n# Written by peal.\n#SBATCH --job-name=peal-{}\n",
                                ranks, split->nodes, split->per_node, has_gpus ? "GPUs" : "cores", one_line(title), ranks);
  out += fmt::format("#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1    # one launcher a machine, which starts its {} ranks\n",
                     split->nodes, split->per_node);
  if (has_gpus) out += fmt::format("#SBATCH --gpus-per-node={}\n", split->per_node);
  const int domain = nodes_per_nvlink_domain(cluster.machine());
  if (domain > 1 && split->nodes > 1)
    out += fmt::format("#SBATCH --segment={}    # topology/block: whole pieces of NVLink domains, {} machines each\n",
                       split->nodes % domain == 0 ? domain : std::min(split->nodes, domain), domain);
  out += "#SBATCH --exclusive            # the launcher shares out all cores of the machine\n#SBATCH --mem=0\n";
  out += "#SBATCH --time=01:00:00\n#SBATCH --output=%x-%j.out\n";
  return out + fmt::format(fmt::runtime(kBody), fmt::arg("ranks", ranks), fmt::arg("per_node", split->per_node),
                           fmt::arg("nodes", split->nodes), fmt::arg("peal", split->nodes > 1 ? kPealSeveral : kPealOne),
                           fmt::arg("key", split->nodes > 1 ? kKey : std::string_view()));
}

}  // namespace peal::topology
