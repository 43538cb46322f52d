#include <base/text.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <training/cost.hpp>

namespace peal::training {

namespace {

/// 1234567.8 -> "1,234,568"; below a hundred with two digits after the point.
std::string grouped(double value) {
  return std::abs(value) < 100 ? fmt::format("{:.2f}", value) : with_commas(fmt::format("{:.0f}", value));
}

std::string money(const CostFigure& figure, const Prices& prices) {
  return figure.value ? fmt::format("{} {}", prices.currency, grouped(*figure.value)) : "unknown: " + figure.missing;
}

std::string line(std::string_view name, const std::string& value) { return fmt::format("{:<22}{}\n", name, value); }

std::string line_with_share(std::string_view name, const CostFigure& figure, double hours, const Prices& prices) {
  std::string value = money(figure, prices);
  if (figure.value && hours > 0) value += fmt::format(" ({} an hour)", grouped(*figure.value / hours));
  return line(name, value);
}

std::string duration(double hours) {
  if (hours < 48) return fmt::format("{:.3g} hours", hours);
  if (hours < 3 * kHoursAMonth) return fmt::format("{} hours, {:.3g} days", grouped(hours), hours / 24);
  return fmt::format("{} hours, {:.3g} months", grouped(hours), hours / kHoursAMonth);
}

std::string who(const Job& job) {
  const std::string machine = job.machine.empty() ? "machine" : job.machine;
  return fmt::format("{} x {}, {} GPUs ({})", job.nodes, machine, job.gpus, job.gpu);
}

std::string break_even(const JobCost& cost) {
  const CostFigure& even = cost.break_even_hours;
  if (!even.value) return "never or unknown: " + even.missing;
  return fmt::format("after {} of use buying is cheaper than renting: {:.3g} such jobs", duration(*even.value),
                     *even.value / cost.job.hours);
}

std::string price_line(const Price& price, Day as_of) {
  const bool is_old = price.day < as_of.two_years_before();
  const std::string what = price.of.empty() ? std::string(name_of(price.what)) : fmt::format("{} {}", name_of(price.what), price.of);
  return fmt::format("  {:<26} {:>10}  {}  {}{}; {}\n", what, fmt::format("{:.10g}", price.value), to_text(price.day), name_of(price.basis),
                     is_old ? ", older than two years" : "", price.source);
}

using OrderedJson = nlohmann::ordered_json;

OrderedJson figure_json(const CostFigure& figure) {
  return figure.value ? OrderedJson{{"value", *figure.value}} : OrderedJson{{"value", nullptr}, {"missing", figure.missing}};
}

OrderedJson job_json(const JobCost& cost) {
  return {{"machine", cost.job.machine},
          {"gpu", cost.job.gpu},
          {"nodes", cost.job.nodes},
          {"gpus", cost.job.gpus},
          {"hours", cost.job.hours},
          {"gpu_hours", cost.job.hours * cost.job.gpus},
          {"energy_kWh", figure_json(cost.energy_kWh)},
          {"electricity", figure_json(cost.electricity)},
          {"rent", figure_json(cost.rent)},
          {"machines", figure_json(cost.machines)},
          {"network", figure_json(cost.network)},
          {"owned", figure_json(cost.owned)},
          {"break_even_hours", figure_json(cost.break_even_hours)}};
}

OrderedJson price_json(const Price& price, Day as_of) {
  return {{"what", name_of(price.what)},
          {"of", price.of},
          {"value", price.value},
          {"date", to_text(price.day)},
          {"basis", name_of(price.basis)},
          {"source", price.source},
          {"is_old", price.day < as_of.two_years_before()}};
}

}  // namespace

std::string cost_text(const JobCost& cost, const Prices& prices, Day as_of) {
  const Job& job = cost.job;
  std::string out = who(job) + "\n\n";
  out += line("time", duration(job.hours));
  out += line("GPU-hours", grouped(job.hours * job.gpus));
  out += line("energy", cost.energy_kWh.value ? fmt::format("{} kWh{}{}", grouped(*cost.energy_kWh.value),
                                                            cost.power_remark.empty() ? "" : ", ", cost.power_remark)
                                              : "unknown: " + cost.energy_kWh.missing);
  out += line_with_share("electricity", cost.electricity, job.hours, prices);
  out += line_with_share("rented", cost.rent, job.hours, prices);
  out += line_with_share("owned", cost.owned, job.hours, prices);
  out += line("to buy: machines", money(cost.machines, prices));
  out += line("to buy: network", money(cost.network, prices));
  out += line("break-even", break_even(cost));
  out += fmt::format("\nPrices in {} of {}\n", prices.currency, prices.file);
  for (const Price& price : cost.used) out += price_line(price, as_of);
  return out;
}

std::string network_text(const NetworkComparison& c, const Prices& prices) {
  std::string out = fmt::format("\nAgainst {}\n\n", who(c.slow.job));
  out += line("time", c.saved_hours > 0 ? fmt::format("{}; the faster one saves {} ({:.3g} %)", duration(c.slow.job.hours),
                                                      duration(c.saved_hours), 100 * c.saved_hours / c.slow.job.hours)
                                        : duration(c.slow.job.hours) + ", no longer than the other");
  out += line("rented", money(c.slow.rent, prices));
  out += line("owned", money(c.slow.owned, prices));
  out += line("to buy: machines", money(c.slow.machines, prices));
  out += line("to buy: network", money(c.slow.network, prices));
  out += line("the faster costs", money(c.extra, prices) + (c.extra.value ? " more to buy" : ""));
  out += line("its time is worth", money(c.saved, prices) + (c.saved.value ? " a job" : ""));
  out += line("break-even", c.break_even_jobs.value ? fmt::format("after {:.3g} such jobs, {}", *c.break_even_jobs.value,
                                                                  duration(*c.break_even_jobs.value * c.fast.job.hours))
                                                    : "never or unknown: " + c.break_even_jobs.missing);
  return out;
}

std::string cost_json(const JobCost& cost, const NetworkComparison* comparison, const Prices& prices, Day as_of) {
  OrderedJson out = {{"schema", "peal.cost/1"}, {"currency", prices.currency}, {"price_file", prices.file}, {"as_of", to_text(as_of)}};
  out["job"] = job_json(cost);
  if (comparison != nullptr)
    out["slower"] = {{"job", job_json(comparison->slow)},
                     {"saved_hours", comparison->saved_hours},
                     {"extra", figure_json(comparison->extra)},
                     {"saved", figure_json(comparison->saved)},
                     {"break_even_jobs", figure_json(comparison->break_even_jobs)}};
  out["prices"] = OrderedJson::array();
  for (const Price& price : cost.used) out["prices"].push_back(price_json(price, as_of));
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace peal::training
