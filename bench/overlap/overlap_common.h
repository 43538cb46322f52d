/* What the overlap benchmarks of Peal and of MPI share: a computation of a wanted length that touches no memory to speak of, medians, and
 * the line that overlap.py reads. C and C++. */
#ifndef PEAL_BENCH_OVERLAP_COMMON_H
#define PEAL_BENCH_OVERLAP_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* A chain of dependent multiplications and additions; returns what must be used. */
static inline double compute(long rounds) {
  volatile double seed = 1.0000001;
  double x = seed;
  for (long i = 0; i < rounds; ++i) x = x * 0.999999 + 1e-6;
  return x;
}

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}
static inline double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare_doubles);
  return values[count / 2];
}

/* Rounds of compute() that take about `us` on a core of one's own. */
static inline long rounds_for(double us) {
  const long probe = 200000;
  double best = 1e18;
  for (int i = 0; i < 5; ++i) {
    const double begin = now_us();
    volatile double sink = compute(probe);
    (void)sink;
    const double took = now_us() - begin;
    if (took < best) best = took;
  }
  return (long)(us / best * (double)probe) + 1;
}

/* how, bytes, communication alone, computation alone, both at once: microseconds. */
static inline void say(const char* how, size_t bytes, double alone, double computing, double both) {
  printf("overlap,%s,%zu,%.3f,%.3f,%.3f\n", how, bytes, alone, computing, both);
  fflush(stdout);
}

#endif
