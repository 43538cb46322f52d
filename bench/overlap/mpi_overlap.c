/* The same for an MPI library's MPI_Iallreduce: none (no test in between) or poll (MPI_Test between slices). See overlap.py. */
#include <mpi.h>
#include <string.h>

#include "overlap_common.h"

static double longest(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 5) {
    fprintf(stderr, "mpi_overlap: type mpirun -np 2 mpi_overlap none|poll REPEATS SLICES BYTES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int polls = strcmp(argv[1], "poll") == 0, repeats = atoi(argv[2]);
  const long slices = atol(argv[3]);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double* times = malloc(3 * (size_t)repeats * sizeof *times);
  for (int a = 4; a < argc; ++a) {
    const size_t bytes = strtoull(argv[a], NULL, 10);
    const int count = (int)(bytes / sizeof(float)) > 0 ? (int)(bytes / sizeof(float)) : 1;
    float* in = malloc((size_t)count * sizeof *in);
    float* out = malloc((size_t)count * sizeof *out);
    for (int i = 0; i < count; ++i) in[i] = 1, out[i] = 0;
    long rounds = 0;
    for (int i = -3; i < repeats; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      double begin = now_us();
      MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      const double alone = longest(now_us() - begin);
      if (i < 0) {
        rounds = rounds_for(alone);
        continue;
      }
      volatile double sink = 0;
      MPI_Barrier(MPI_COMM_WORLD);
      begin = now_us();
      for (long s = 0; s < slices; ++s) sink = sink + compute(rounds / slices);
      const double computing = longest(now_us() - begin);
      MPI_Barrier(MPI_COMM_WORLD);
      begin = now_us();
      MPI_Request request;
      MPI_Iallreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
      for (long s = 0; s < slices; ++s) {
        sink = sink + compute(rounds / slices);
        int done;
        if (polls) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      }
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      const double both = longest(now_us() - begin);
      times[i] = alone, times[repeats + i] = computing, times[2 * repeats + i] = both;
    }
    if (rank == 0) say(argv[1], bytes, median(times, repeats), median(times + repeats, repeats), median(times + 2 * repeats, repeats));
    free(in);
    free(out);
  }
  free(times);
  MPI_Finalize();
  return 0;
}
