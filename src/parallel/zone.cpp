#include <algorithm>
#include <parallel/zone.hpp>

namespace peal::parallel {

Zone::Zone(std::int64_t elements, int zero, Group& group)
    : elements_((elements + group.size() - 1) / group.size() * group.size()), zero_(zero), group_(&group) {
  const auto whole = static_cast<std::size_t>(elements_), own = static_cast<std::size_t>(own_count());
  if (keeps_parameters())
    parameters_.assign(whole, 0);
  else
    own_parameters_.assign(own, 0);
  if (keeps_gradients())
    gradients_.assign(whole, 0);
  else
    own_gradients_.assign(own, 0);
  first_moment_.assign(own, 0);
  second_moment_.assign(own, 0);
}

float* Zone::gradients() {
  if (gradients_.empty()) gradients_.assign(static_cast<std::size_t>(elements_), 0);
  return gradients_.data();
}

float* Zone::own_gradients() { return keeps_gradients() ? gradients_.data() + own_first() : own_gradients_.data(); }

comm::Call Zone::reduce_call() {
  comm::Call call;
  call.type = DataType::f32;
  call.op = ReduceOp::sum;
  call.send = gradients();
  if (!is_cut()) {
    call.collective = Collective::all_reduce;
    call.receive = gradients_.data();
    call.count = static_cast<std::uint64_t>(elements_);
    return call;
  }
  call.collective = Collective::reduce_scatter;
  call.count = static_cast<std::uint64_t>(own_count());
  if (keeps_gradients()) {
    call.receive = gradients_.data() + own_first();
  } else {
    flying_.push_back({std::move(gradients_), Buffer(static_cast<std::size_t>(own_count()))});
    gradients_ = {};
    call.receive = flying_.back().arriving.data();
  }
  return call;
}

void Zone::end_reduce() {
  if (flying_.empty()) return;
  const Buffer& arrived = flying_.front().arriving;
  for (std::size_t i = 0; i < arrived.size(); ++i) own_gradients_[i] += arrived[i];
  flying_.pop_front();
}

comm::Call Zone::gather_call() {
  parameters_.resize(static_cast<std::size_t>(elements_));
  comm::Call call;
  call.collective = Collective::all_gather;
  call.type = DataType::f32;
  call.send = own_parameters();
  call.receive = parameters_.data();
  call.count = static_cast<std::uint64_t>(own_count());
  return call;
}

void Zone::release() {
  if (!keeps_parameters()) Buffer().swap(parameters_);
}

void Zone::clear_gradients() {
  std::fill(gradients_.begin(), gradients_.end(), 0.0F);
  std::fill(own_gradients_.begin(), own_gradients_.end(), 0.0F);
}

std::int64_t Zone::bytes() const {
  std::size_t elements = 0;
  for (const Buffer* buffer : {&parameters_, &own_parameters_, &gradients_, &own_gradients_, &first_moment_, &second_moment_})
    elements += buffer->size();
  for (const Flight& flight : flying_) elements += flight.leaving.size() + flight.arriving.size();
  return static_cast<std::int64_t>(elements * sizeof(float));
}

}  // namespace peal::parallel
