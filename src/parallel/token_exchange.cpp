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
  exchange.comes_in_order_ = ranks == 1 || own == 1;
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
  arrived.resize(static_cast<std::size_t>(this->arrived() * width));
  float* coming = comes_in_order_ ? arrived.data() : group.scratch(this->arrived() * width);
  PEAL_TRY(group.exchange(leaving.data(), scaled(sends_, width), coming, scaled(receives_, width)));
  if (comes_in_order_) return {};
  for (const Run& run : runs_) std::copy_n(coming + run.from * width, run.count * width, arrived.data() + run.to * width);
  return {};
}

Status TokenExchange::to_tokens(Group& group, std::int64_t width, const std::vector<float>& arrived, std::vector<float>& leaving) const {
  leaving.resize(static_cast<std::size_t>(this->leaving() * width));
  const float* going = arrived.data();
  if (!comes_in_order_) {
    float* turned = group.scratch(this->arrived() * width);
    for (const Run& run : runs_) std::copy_n(arrived.data() + run.to * width, run.count * width, turned + run.from * width);
    going = turned;
  }
  return group.exchange(going, scaled(receives_, width), leaving.data(), scaled(sends_, width));
}

}  // namespace peal::parallel
