#include <algorithm>
#include <cmath>
#include <parallel/gradient_check.hpp>

namespace peal::parallel {

std::vector<ParameterSpec> all_parameters_of(const training::Transformer& shape) {
  std::vector<ParameterSpec> all;
  for (const UnitName unit : units_of(shape))
    for (ParameterSpec& spec : parameters_of(shape, unit)) all.push_back(std::move(spec));
  return all;
}

Result<std::unique_ptr<GradientCheck>> GradientCheck::make(GptTrainer& trainer, std::shared_ptr<comm::Core> world) {
  std::unique_ptr<GradientCheck> check(new GradientCheck(trainer, std::move(world)));
  GradientCheck& self = *check;
  self.specs_ = all_parameters_of(trainer.job().model.transformer);
  trainer.stage().on_gradients = [&self] { return self.compare_gradients(); };
  if (self.world_ != nullptr && self.world_->rank() != 0) return check;
  PEAL_ASSIGN(self.serial_, GptTrainer::make(serial_job(trainer.job()), nullptr));
  self.serial_->stage().on_gradients = [&self]() -> Status {
    for (const ParameterSpec& spec : self.specs_) {
      PEAL_ASSIGN(self.gradients_[spec.name], collect_whole(self.serial_->stage(), Kept::gradient, spec, nullptr));
    }
    return {};
  };
  return check;
}

Status GradientCheck::begin_from(std::int64_t steps_taken) {
  for (const Kept kept : {Kept::parameter, Kept::first_moment, Kept::second_moment}) {
    for (const ParameterSpec& spec : specs_) {
      PEAL_ASSIGN(const Buffer whole, collect_whole(trainer_.stage(), kept, spec, world_));
      if (serial_ == nullptr) continue;
      serial_->stage().each_element(kept, spec.name, false,
                                    [&](std::int64_t index, float& value) { value = whole[static_cast<std::size_t>(index)]; });
    }
  }
  if (serial_ != nullptr) serial_->stage().set_steps_taken(steps_taken);
  return {};
}

Status GradientCheck::take_serial_step(std::int64_t number) {
  step_ = number;
  return serial_ == nullptr ? Status() : serial_->step(number);
}

Status GradientCheck::compare_gradients() {
  for (const ParameterSpec& spec : specs_) {
    PEAL_ASSIGN(const Buffer found, collect_whole(trainer_.stage(), Kept::gradient, spec, world_));
    if (serial_ == nullptr) continue;
    const Buffer& wanted = gradients_.at(spec.name);
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      largest = std::max(largest, static_cast<double>(std::abs(wanted[i])));
      const double here = std::abs(static_cast<double>(found[i]) - wanted[i]);
      difference = std::isfinite(here) ? std::max(difference, here) : HUGE_VAL;
    }
    const double relative = difference == 0 ? 0 : difference / largest;
    result_.compared += static_cast<std::int64_t>(wanted.size());
    if (relative > result_.gradient || result_.parameter.empty()) {
      result_.gradient = relative;
      result_.parameter = spec.name;
      result_.step = step_;
    }
  }
  return {};
}

void GradientCheck::compare_loss(double loss) {
  if (serial_ == nullptr) return;
  const double wanted = serial_->stage().loss(), relative = std::abs(loss - wanted) / std::abs(wanted);
  result_.loss = std::isfinite(relative) ? std::max(result_.loss, relative) : HUGE_VAL;
}

}  // namespace peal::parallel
