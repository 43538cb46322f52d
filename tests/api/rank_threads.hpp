// Ranks as threads of the test: runs a function once a rank and fails the test with what any of them threw.
#pragma once

#include <gtest/gtest.h>
#include <peal/communicator.hpp>

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace peal::test {

/// Runs body(world) on `ranks` threads that share one job. A rank that throws is a failure of the test, named by rank.
inline void on_ranks(int ranks, const Options& options, const std::function<void(Communicator&)>& body) {
  const UniqueId id = make_unique_id();
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        Communicator world = init(id, r, ranks, options);
        body(world);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(r)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(errors[static_cast<std::size_t>(r)], "") << "rank " << r << " of " << ranks;
}

inline Options with_transport(const std::string& transport) {
  Options options;
  options.transport = transport;
  options.timeout = std::chrono::seconds(60);
  return options;
}

/// What the call throws.
inline std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace peal::test
