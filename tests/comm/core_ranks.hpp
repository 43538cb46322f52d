// Ranks as threads over comm::Core.
#pragma once

#include <gtest/gtest.h>

#include <bootstrap/unique_id.hpp>
#include <comm/core.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace peal::comm {

/// Runs body(core) on `ranks` threads; a rank that cannot join or whose body returns a failure is a failure of the test.
inline void on_cores(int ranks, const CoreOptions& options, const std::function<Status(Core&)>& body) {
  const bootstrap::UniqueId id = bootstrap::make_unique_id();
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      const auto run = [&]() -> Status {
        PEAL_ASSIGN(const bootstrap::Job job, bootstrap::job_from_unique_id(id, r, ranks));
        PEAL_ASSIGN(const auto core, Core::world(job, options));
        return body(*core);
      };
      if (Status status = run(); !status) errors[static_cast<std::size_t>(r)] = status.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(errors[static_cast<std::size_t>(r)], "") << "rank " << r << " of " << ranks;
}

inline CoreOptions core_options(TransportChoice transport = TransportChoice::automatic) {
  CoreOptions options;
  options.timeout_ns = 60'000'000'000;
  options.transport = transport;
  return options;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// Elements that calls are tried with: `all`, or `few` under a sanitizer, where an element takes twenty times as long and more.
using Counts = std::vector<std::uint64_t>;
inline Counts unless_sanitized(const Counts& all, const Counts& few) { return kIsSanitized ? few : all; }

}  // namespace peal::comm
