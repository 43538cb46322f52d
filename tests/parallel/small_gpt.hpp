// A GPT that is trained in no time, and ranks as threads.
#pragma once

#include <gtest/gtest.h>

#include <bootstrap/unique_id.hpp>
#include <functional>
#include <parallel/train.hpp>
#include <string>
#include <thread>
#include <vector>

namespace peal::parallel {

inline GptJob small_job(const training::Layout& layout, int layers = 4) {
  GptJob job;
  training::Transformer& t = job.model.transformer;
  t.layers = layers;
  t.hidden = 16;
  t.heads = t.kv_heads = 4;
  t.head_dim = 4;
  t.ffn = 32;
  t.vocab = 40;
  t.seq_len = t.positions = 16;
  t.has_biases = true;
  job.layout = layout;
  job.layout.precision = training::Precision::fp32;
  job.layout.bucket_bytes = 8192;
  job.arithmetic = &plain_arithmetic();
  return job;
}

/// With 4 experts, of which a token takes 2.
inline GptJob with_experts(GptJob job) {
  training::Experts& experts = job.model.transformer.experts;
  experts.count = 4;
  experts.chosen = 2;
  experts.ffn = 24;
  return job;
}

/// Runs body(rank's communicator) on threads; what fails is a failure of the test.
inline void on_ranks(int ranks, const std::function<Status(const std::shared_ptr<comm::Core>&)>& body) {
  const bootstrap::UniqueId id = bootstrap::make_unique_id();
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto run = [&]() -> Status {
        PEAL_ASSIGN(const bootstrap::Job job, bootstrap::job_from_unique_id(id, r, ranks));
        comm::CoreOptions options;
        options.timeout_ns = 60'000'000'000;
        PEAL_ASSIGN(const auto core, comm::Core::world(job, options));
        PEAL_TRY(body(core));
        return core->run(comm::Call{Collective::barrier});
      };
      if (Status status = run(); !status) errors[static_cast<std::size_t>(r)] = status.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(errors[static_cast<std::size_t>(r)], "") << "rank " << r << " of " << ranks;
}

/// Rank 0's report.
inline TrainReport train_on_ranks(const TrainOptions& options) {
  TrainReport report;
  on_ranks(options.job.layout.gpus(), [&](const std::shared_ptr<comm::Core>& world) -> Status {
    PEAL_ASSIGN(TrainReport own, train(options, world, {}));
    if (world->rank() == 0) report = std::move(own);
    return {};
  });
  return report;
}

}  // namespace peal::parallel
