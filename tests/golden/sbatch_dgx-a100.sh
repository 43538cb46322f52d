#!/bin/bash
# 24 ranks on 3 machines, 8 GPUs each: NVIDIA DGX A100 (8x A100-SXM4, 6 NVSwitches, 8x HDR InfiniBand)
# Written by peal.
#SBATCH --job-name=peal-24
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1    # one launcher a machine, which starts its 8 ranks
#SBATCH --gpus-per-node=8
#SBATCH --exclusive            # the launcher shares out all cores of the machine
#SBATCH --mem=0
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.out

# Give the program behind the script:   sbatch job.sh ./train --epochs 3       (started by peal run)
#                                       LAUNCHER=torchrun sbatch job.sh train.py (started by torchrun)
set -euo pipefail
if [ $# -eq 0 ]; then echo "name the program: sbatch $0 PROGRAM ARGUMENTS" >&2; exit 2; fi

RANKS=24
RANKS_PER_NODE=8
export HOSTS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd,)
export HEAD=${HOSTS%%,*}
export PORT=$((20000 + SLURM_JOB_ID % 5000))        # jobs that share a machine do not meet on one port
export PEAL_PORT=$((25000 + SLURM_JOB_ID % 5000))   # Peal's own, as torchrun keeps the other one
export PEAL_KEY_FILE=$PWD/peal-$SLURM_JOB_ID.key      # the job's secret, in a folder that every machine sees
(umask 077; head -c 32 /dev/urandom > "$PEAL_KEY_FILE")
trap 'rm -f "$PEAL_KEY_FILE"' EXIT

# Each task gets all cores of its machine, and the launcher binds the ranks: srun by itself would give it one core, and all ranks that one.
step=(srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task="$SLURM_CPUS_ON_NODE" --cpu-bind=none --kill-on-bad-exit=1)

case "${LAUNCHER:-peal}" in
peal)
  export RANKS
  "${step[@]}" bash -c 'exec peal run -n "$RANKS" --hosts "$HOSTS" --host-index "$SLURM_NODEID" --root "$HEAD:$PEAL_PORT" \
    --key-file "$PEAL_KEY_FILE" -- "$@"' peal "$@"
  ;;
torchrun)
  # DistributedDataParallel synchronises in every backward pass: with gradient accumulation, run all but the last one under no_sync().
  "${step[@]}" torchrun --nnodes=3 --nproc-per-node="$RANKS_PER_NODE" --rdzv-id="$SLURM_JOB_ID" \
    --rdzv-backend=c10d --rdzv-endpoint="$HEAD:$PORT" "$@"
  ;;
*)
  echo "LAUNCHER is \"$LAUNCHER\": give peal or torchrun" >&2
  exit 2
  ;;
esac
