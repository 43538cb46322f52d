#include <algorithm>
#include <numeric>
#include <parallel/token_exchange.hpp>

namespace peal::parallel {

namespace {

using Counts = std::vector<std::uint64_t>;

Counts scaled(const Counts& counts, std::int64_t width) {
  Counts result = counts;
  for (std::uint64_t& count : result) count *= static_cast<std::uint64_t>(width);
  return result;
}

}  // namespace

Result<TokenExchange> TokenExchange::make(Group& group, int experts, std::span<const int> chosen) {
  TokenExchange exchange;
  const auto ranks = static_cast<std::size_t>(group.size()), all = static_cast<std::size_t>(experts), own = all / ranks;
  Counts leaving(all), arriving(all);  // arriving: by rank, then by own expert
  for (const int expert : chosen) ++leaving[static_cast<std::size_t>(expert)];
  std::vector<std::int64_t> next(all, 0);
  for (std::size_t e = 1; e < all; ++e) next[e] = next[e - 1] + static_cast<std::int64_t>(leaving[e - 1]);
  for (const int expert : chosen) exchange.places_.push_back(next[static_cast<std::size_t>(expert)]++);
  PEAL_TRY(group.exchange_counts(leaving, arriving));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto sum = [&](const Counts& counts) {
      const auto from = counts.begin() + static_cast<std::ptrdiff_t>(rank * own);
      return std::accumulate(from, from + static_cast<std::ptrdiff_t>(own), std::uint64_t{0});
    };
    exchange.sends_.push_back(sum(leaving));
    exchange.receives_.push_back(sum(arriving));
  }
  exchange.runs_.resize(all);
  std::int64_t from = 0, to = 0;
  for (std::size_t i = 0; i < all; ++i) {
    exchange.runs_[i] = {from, 0, static_cast<std::int64_t>(arriving[i])};
    from += exchange.runs_[i].count;
  }
  for (std::size_t expert = 0; expert < own; ++expert) {
    exchange.first_.push_back(to);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      Run& run = exchange.runs_[rank * own + expert];
      run.to = to;
      to += run.count;
    }
  }
  exchange.first_.push_back(to);
  return exchange;
}

Status TokenExchange::to_experts(Group& group, std::int64_t width, const std::vector<float>& leaving, std::vector<float>& arrived) const {
  std::vector<float> coming(static_cast<std::size_t>(this->arrived() * width));
  arrived.resize(coming.size());
  PEAL_TRY(group.exchange(leaving.data(), scaled(sends_, width), coming.data(), scaled(receives_, width)));
  for (const Run& run : runs_) std::copy_n(coming.data() + run.from * width, run.count * width, arrived.data() + run.to * width);
  return {};
}

Status TokenExchange::to_tokens(Group& group, std::int64_t width, const std::vector<float>& arrived, std::vector<float>& leaving) const {
  std::vector<float> going(static_cast<std::size_t>(this->arrived() * width));
  leaving.resize(static_cast<std::size_t>(this->leaving() * width));
  for (const Run& run : runs_) std::copy_n(arrived.data() + run.to * width, run.count * width, going.data() + run.from * width);
  return group.exchange(going.data(), scaled(receives_, width), leaving.data(), scaled(sends_, width));
}

}  // namespace peal::parallel
