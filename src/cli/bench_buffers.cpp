#include <algorithm>
#include <array>
#include <base/names.hpp>
#include <base/pages.hpp>
#include <cli/bench_buffers.hpp>
#include <cli/bench_reals.hpp>
#include <cli/bench_values.hpp>
#include <cstring>

namespace peal::cli {

namespace {

// Between the real inputs of one block of a reduce_scatter and those of the next.
constexpr std::uint64_t kBlockStride = std::uint64_t{1} << 40;

}  // namespace

Status BenchBuffers::shape(Bytes size) {
  const std::uint64_t element = size_of(options_.type);
  const std::uint64_t blocks = has_blocks(options_.collective) ? n_ : 1;
  count_ = options_.collective == Collective::barrier ? 0 : std::max<std::uint64_t>(1, size.value / element / blocks);
  bytes_ = count_ * element * blocks;
  input_ = count_ * blocks;
  // The v-collectives are measured with uneven counts around the mean, as far as there are elements.
  counts_.assign(n_, count_);
  for (std::uint64_t r = 0; varies(options_.collective) && r + 1 < n_; r += 2) {
    const std::uint64_t shift = count_ / 4;
    counts_[r] += shift;
    counts_[r + 1] -= shift;
  }
  displs_.assign(n_, 0);
  for (std::uint64_t r = 1; r < n_; ++r) displs_[r] = displs_[r - 1] + counts_[r - 1];
  back_counts_.assign(n_, counts_[static_cast<std::size_t>(rank_)]);
  back_displs_.assign(n_, 0);
  for (std::uint64_t r = 1; r < n_; ++r) back_displs_[r] = back_displs_[r - 1] + back_counts_[r - 1];
  room_ = varies(options_.collective) ? std::max(input_, back_counts_[0] * n_) : input_;
  PEAL_TRY(send_.grow((room_ + 16) * element));
  return receive_.grow((room_ + 16) * element);
}

Status BenchBuffers::reserve(Bytes largest) {
  // What shape() asks for at most: blocks of the v-collectives are a quarter longer than the mean, and each has an element at least.
  const std::uint64_t bytes = largest.value / 4 * 5 + (n_ + 16) * size_of(DataType::f64);
  PEAL_TRY(send_.reserve(bytes));
  PEAL_TRY(receive_.reserve(bytes));
  // No zeros: processors may spare the stores of these.
  for (const std::uint64_t size : {std::min<std::uint64_t>(largest.value, kHugePageBytes / 2), largest.value}) {
    PEAL_TRY(shape({size}));
    fill(false);
  }
  return {};
}

comm::Call BenchBuffers::call(bool in_place) const {
  const auto me = static_cast<std::uint64_t>(rank_);
  const std::uint64_t element = size_of(options_.type);
  comm::Call call;
  call.collective = options_.collective;
  if (call.collective == Collective::barrier) return call;  // as users call it, and this tool between calls: what is prepared serves both
  call.send = send_.data();
  call.receive = receive_.data();
  call.count = count_;
  call.type = options_.type;
  call.op = options_.op;
  call.root = options_.root;
  call.premul = premul_factor(rank_);
  switch (options_.collective) {
    case Collective::all_gather:
    case Collective::gather:
      if (in_place) call.send = receive_.data() + me * count_ * element;
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      if (in_place) call.receive = send_.data() + me * count_ * element;
      break;
    case Collective::all_gather_v:
      if (in_place) call.send = receive_.data() + displs_[me] * element;
      call.receive_counts = counts_;
      call.receive_displs = displs_;
      break;
    case Collective::reduce_scatter_v:
      if (in_place) call.receive = send_.data() + displs_[me] * element;
      call.send_counts = counts_;
      call.send_displs = displs_;
      break;
    case Collective::gather_v:
      if (in_place) call.send = receive_.data() + displs_[me] * element;
      call.count = counts_[me];
      if (rank_ != options_.root) break;
      call.receive_counts = counts_;
      call.receive_displs = displs_;
      break;
    case Collective::scatter_v:
      if (in_place) call.receive = send_.data() + displs_[me] * element;
      call.count = counts_[me];
      if (rank_ != options_.root) break;
      call.send_counts = counts_;
      call.send_displs = displs_;
      break;
    case Collective::all_to_all_v:
      call.send_counts = counts_;
      call.send_displs = displs_;
      call.receive_counts = back_counts_;
      call.receive_displs = back_displs_;
      break;
    default:
      if (in_place) call.send = receive_.data();
  }
  return call;
}

void BenchBuffers::spoil_outputs() { std::fill_n(receive_.data(), room_ * size_of(options_.type), std::byte{0x5b}); }

BenchBuffers::Own BenchBuffers::own_input() const {
  const auto me = static_cast<std::uint64_t>(rank_);
  const std::uint64_t element = size_of(options_.type);
  switch (options_.collective) {
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_v:
    case Collective::scatter:
    case Collective::scatter_v: return {};  // works inside the send buffer
    case Collective::all_gather:
    case Collective::gather: return {receive_.data() + me * count_ * element, count_};
    case Collective::all_gather_v:
    case Collective::gather_v: return {receive_.data() + displs_[me] * element, counts_[me]};
    default: return {receive_.data(), count_};
  }
}

void BenchBuffers::fill(bool in_place) {
  spoil_outputs();
  fill_contributions(send_.data(), input_, rank_, 0, options_.type, data_op());
  if (!in_place) return;
  const Own own = own_input();
  fill_contributions(own.data, own.count, rank_, 0, options_.type, data_op());
}

std::uint64_t BenchBuffers::given() const {
  switch (options_.collective) {
    case Collective::broadcast: return rank_ == options_.root ? count_ : 0;
    case Collective::scatter:
    case Collective::scatter_v: return rank_ == options_.root ? input_ : 0;
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_v:
    case Collective::all_to_all:
    case Collective::all_to_all_v: return input_;
    case Collective::all_gather_v:
    case Collective::gather_v: return counts_[static_cast<std::size_t>(rank_)];
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::all_gather:
    case Collective::gather:
    case Collective::send_recv:
    case Collective::barrier: break;
  }
  return count_;
}

void BenchBuffers::rewrite(bool in_place) const {
  const Own own = in_place ? own_input() : Own{};
  std::byte* at = own.data != nullptr ? own.data : send_.data();
  std::array<std::byte, 4096> aside;
  for (std::uint64_t left = given() * size_of(options_.type); left > 0;) {
    const std::size_t part = std::min<std::uint64_t>(left, aside.size());
    std::memcpy(aside.data(), at, part);
    asm volatile("" : : "r"(aside.data()) : "memory");  // the same bytes go back, and the compiler does not know it
    std::memcpy(at, aside.data(), part);
    at += part;
    left -= part;
  }
}

void BenchBuffers::clear_in_place() {
  std::fill_n(options_.collective == Collective::all_reduce || options_.collective == Collective::reduce ? receive_.data() : send_.data(),
              bytes_, std::byte{0});
}

Status BenchBuffers::fill_reals(bool in_place, bool is_new) {
  const std::uint64_t element = size_of(options_.type);
  const std::uint64_t uneven = counts_[static_cast<std::size_t>(rank_)];  // all_gather_v and gather_v send this many
  const std::uint64_t made = std::max(input_, uneven);
  if (is_new) {
    PEAL_TRY(made_.grow(std::max<std::uint64_t>(1, made * element)));
    if (options_.collective == Collective::reduce_scatter) {
      for (std::uint64_t block = 0; block < n_; ++block)
        cli::fill_reals(made_.data() + block * count_ * element, count_, rank_, block * kBlockStride, options_.type, data_op());
    } else {
      cli::fill_reals(made_.data(), made, rank_, 0, options_.type, data_op());
    }
  }
  spoil_outputs();
  std::memcpy(send_.data(), made_.data(), made * element);
  const Own own = in_place ? own_input() : Own{};
  if (own.count > 0) std::memcpy(own.data, made_.data(), own.count * element);
  return {};
}

BenchBuffers::Output BenchBuffers::output(bool in_place) const {
  const auto me = static_cast<std::uint64_t>(rank_);
  const std::uint64_t element = size_of(options_.type);
  const bool is_root = rank_ == options_.root;
  switch (options_.collective) {
    case Collective::reduce: return is_root ? Output{receive_.data(), count_, 0} : Output{};
    case Collective::gather: return is_root ? Output{receive_.data(), count_ * n_, 0} : Output{};
    case Collective::reduce_scatter: return {in_place ? send_.data() + me * count_ * element : receive_.data(), count_, me * kBlockStride};
    case Collective::reduce_scatter_v:
    case Collective::scatter_v: return {in_place ? send_.data() + displs_[me] * element : receive_.data(), counts_[me], displs_[me]};
    case Collective::scatter: return {in_place ? send_.data() + me * count_ * element : receive_.data(), count_, me * count_};
    case Collective::all_gather:
    case Collective::all_to_all: return {receive_.data(), count_ * n_, 0};
    case Collective::gather_v:
      if (!is_root) return {};
      [[fallthrough]];
    case Collective::all_gather_v: return {receive_.data(), displs_[n_ - 1] + counts_[n_ - 1], 0};
    case Collective::all_to_all_v: return {receive_.data(), back_counts_[0] * n_, 0};
    case Collective::barrier: return {};
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::send_recv: break;
  }
  return {receive_.data(), count_, 0};
}

std::int64_t BenchBuffers::wrong(bool in_place) const {
  const int me = rank_;
  const auto own = static_cast<std::uint64_t>(me);
  const std::uint64_t element = size_of(options_.type);
  const std::byte* out = receive_.data();
  const auto copies = [&](const std::byte* at, std::uint64_t count, std::uint64_t from, std::uint64_t index) {
    return count_wrong_copies(at, count, static_cast<int>(from), index, options_.type, data_op());
  };
  const auto sums = [&](const std::byte* at, std::uint64_t count, std::uint64_t index) {
    return count_wrong_reductions(at, count, ranks_, index, options_.type, options_.op);
  };
  std::int64_t bad = 0;
  switch (options_.collective) {
    case Collective::all_reduce: return sums(out, count_, 0);
    case Collective::reduce: return me == options_.root ? sums(out, count_, 0) : 0;
    case Collective::reduce_scatter: return sums(in_place ? send_.data() + own * count_ * element : out, count_, own * count_);
    case Collective::reduce_scatter_v: return sums(in_place ? send_.data() + displs_[own] * element : out, counts_[own], displs_[own]);
    case Collective::broadcast: return copies(out, count_, static_cast<std::uint64_t>(options_.root), 0);
    case Collective::scatter:
      return copies(in_place ? send_.data() + own * count_ * element : out, count_, static_cast<std::uint64_t>(options_.root),
                    own * count_);
    case Collective::scatter_v:
      return copies(in_place ? send_.data() + displs_[own] * element : out, counts_[own], static_cast<std::uint64_t>(options_.root),
                    displs_[own]);
    case Collective::send_recv: return copies(out, count_, (own + n_ - 1) % n_, 0);
    case Collective::gather:
      if (me != options_.root) return 0;
      [[fallthrough]];
    case Collective::all_gather:
      for (std::uint64_t r = 0; r < n_; ++r) bad += copies(out + r * count_ * element, count_, r, 0);
      return bad;
    case Collective::gather_v:
      if (me != options_.root) return 0;
      [[fallthrough]];
    case Collective::all_gather_v:
      for (std::uint64_t r = 0; r < n_; ++r) bad += copies(out + displs_[r] * element, counts_[r], r, 0);
      return bad;
    case Collective::all_to_all:
      for (std::uint64_t r = 0; r < n_; ++r) bad += copies(out + r * count_ * element, count_, r, own * count_);
      return bad;
    case Collective::all_to_all_v:
      for (std::uint64_t r = 0; r < n_; ++r) bad += copies(out + back_displs_[r] * element, back_counts_[r], r, displs_[own]);
      return bad;
    case Collective::barrier: return 0;
  }
  return bad;
}

}  // namespace peal::cli
