#include <algorithm>
#include <cmath>
#include <training/cost.hpp>

namespace peal::training {

namespace {

constexpr double kHoursAYear = 12 * kHoursAMonth;

/// Looks prices up, and notes which were used.
class Shopper {
 public:
  Shopper(const Prices& prices, std::vector<Price>& used) : prices_(prices), used_(used) {}

  const Price* use(const Price* price) {
    if (price == nullptr) return nullptr;
    const bool is_new =
        std::none_of(used_.begin(), used_.end(), [&](const Price& p) { return p.what == price->what && p.of == price->of; });
    if (is_new) used_.push_back(*price);
    return price;
  }
  /// Of the machine, else of the GPU.
  const Price* of_machine_or_gpu(PriceKind what, const Job& job) {
    const Price* price = prices_.find_exact(what, job.machine);
    return use(price != nullptr ? price : prices_.find(what, job.gpu));
  }
  const Price* of_nothing(PriceKind what) { return use(prices_.find_exact(what, "")); }
  CostFigure missing(PriceKind what, std::string_view of = {}) const { return {{}, prices_.missing(what, of)}; }
  const Prices& prices() const { return prices_; }

 private:
  const Prices& prices_;
  std::vector<Price>& used_;
};

CostFigure known(double value) { return {value, {}}; }

/// With `a` and `b` known, what `make` says; else the first sentence.
template <class Make>
CostFigure from(const CostFigure& a, const CostFigure& b, Make&& make) {
  if (!a.value) return {{}, a.missing};
  if (!b.value) return {{}, b.missing};
  return known(make(*a.value, *b.value));
}

CostFigure energy_of(const Job& job, Shopper& shop, std::string& remark) {
  const Price* power = shop.use(shop.prices().find_exact(PriceKind::power, job.machine));
  double kilowatts = power != nullptr ? power->value * job.nodes : 0;
  if (power == nullptr) {
    power = shop.use(shop.prices().find(PriceKind::power, job.gpu));
    if (power == nullptr) return shop.missing(PriceKind::power, job.machine.empty() ? job.gpu : job.machine);
    kilowatts = power->value * job.gpus;
    remark = "power of the GPUs alone, without CPUs, NICs and fans";
  }
  const Price* pue = shop.of_nothing(PriceKind::pue);
  if (pue == nullptr) return shop.missing(PriceKind::pue);
  return known(kilowatts * pue->value * job.hours);
}

CostFigure machines_of(const Job& job, Shopper& shop) {
  if (const Price* node = shop.use(shop.prices().find_exact(PriceKind::node, job.machine))) return known(node->value * job.nodes);
  if (const Price* gpu = shop.use(shop.prices().find(PriceKind::gpu, job.gpu))) return known(gpu->value * job.gpus);
  return shop.missing(PriceKind::node, job.machine.empty() ? job.gpu : job.machine);
}

/// A tree of L levels that blocks nothing has 2 L - 1 switch ports and L cables a NIC, and reaches radix x (radix / 2)^(L - 1) of them.
int levels_for(double nics, double radix) {
  int levels = 1;
  for (double reach = radix; reach < nics && levels < 8; reach *= radix / 2) ++levels;
  return levels;
}

CostFigure network_of(const Job& job, const CostFigure& machines, Shopper& shop) {
  if (job.nodes <= 1) return known(0);
  const Price* port = shop.prices().find(PriceKind::switch_port, job.port);
  const Price* cable = shop.prices().find(PriceKind::cable, job.port);
  const Price* radix = shop.prices().find(PriceKind::radix, job.port);
  if (!job.port.empty() && port != nullptr && cable != nullptr && job.cables > 0) {
    for (const Price* price : {port, cable}) shop.use(price);
    return known(job.switch_ports * port->value + job.cables * cable->value);
  }
  if (!job.port.empty() && port != nullptr && cable != nullptr && radix != nullptr && radix->value >= 4) {
    const double nics = static_cast<double>(job.nodes) * job.network_ports;
    const int levels = levels_for(nics, radix->value);
    for (const Price* price : {port, cable, radix}) shop.use(price);
    return known(nics * ((2 * levels - 1) * port->value + levels * cable->value));
  }
  if (!machines.value) return machines;
  const Price* share = shop.of_nothing(PriceKind::network);
  return share == nullptr ? shop.missing(PriceKind::switch_port, job.port) : known(share->value * *machines.value);
}

CostFigure break_even_of(const JobCost& cost, const CostFigure& bought) {
  const double hours = cost.job.hours;
  const CostFigure running = from(cost.rent, cost.electricity, [&](double rent, double power) { return (rent - power) / hours; });
  const CostFigure even = from(bought, running, [](double price, double gain) { return gain > 0 ? price / gain : -1; });
  if (even.value && *even.value < 0) return {{}, "renting costs less an hour than the electricity of machines of one's own"};
  return even;
}

/// Of a fabric that has switches: ports that are plugged in, and cables.
void count_wires(const topology::Cluster& cluster, Job& job) {
  if (cluster.fabric() == nullptr || cluster.fabric()->name() == "ideal") return;
  const auto drawn = cluster.graph();
  if (!drawn) return;  // too large to be drawn
  const auto is_switch = [&](int device) { return drawn->device(device).kind == topology::DeviceKind::net_switch; };
  for (const topology::Link& link : drawn->links()) {
    const int ends = (is_switch(link.a) ? 1 : 0) + (is_switch(link.b) ? 1 : 0);
    job.switch_ports += ends * link.count;
    if (ends > 0) job.cables += link.count;
  }
}

}  // namespace

Job job_on(const topology::Cluster& cluster, const std::string& machine) {
  Job job;
  job.machine = machine;
  job.nodes = cluster.nodes();
  job.gpus = cluster.ranks();
  if (job.gpus > 0) job.gpu = cluster.device(cluster.device_of_rank(0)).name;
  for (const topology::Device& device : cluster.machine().devices()) {
    if (device.kind != topology::DeviceKind::nic || device.rail < 0 || !device.port) continue;
    ++job.network_ports;
    if (job.port.empty() && device.port->bandwidth.value > 0)
      job.port = fmt::format("{}-{:.0f}", name_of(device.port->kind), 8 * device.port->bandwidth.gigabytes());
  }
  count_wires(cluster, job);
  return job;
}

JobCost cost_of(const Job& job, const Prices& prices) {
  JobCost cost;
  cost.job = job;
  Shopper shop(prices, cost.used);
  cost.energy_kWh = energy_of(job, shop, cost.power_remark);
  const Price* kWh = shop.of_nothing(PriceKind::electricity);
  cost.electricity = from(cost.energy_kWh, kWh == nullptr ? shop.missing(PriceKind::electricity) : known(kWh->value),
                          [](double energy, double price) { return energy * price; });
  const Price* rent = shop.of_machine_or_gpu(PriceKind::rent, job);
  cost.rent = rent == nullptr ? shop.missing(PriceKind::rent, job.gpu) : known(rent->value * job.gpus * job.hours);
  cost.machines = machines_of(job, shop);
  cost.network = network_of(job, cost.machines, shop);
  const CostFigure bought = from(cost.machines, cost.network, [](double a, double b) { return a + b; });
  const Price* life = shop.of_nothing(PriceKind::life);
  const CostFigure share = from(bought, life == nullptr ? shop.missing(PriceKind::life) : known(life->value),
                                [&](double price, double years) { return price * job.hours / (years * kHoursAYear); });
  cost.owned = from(share, cost.electricity, [](double a, double b) { return a + b; });
  cost.break_even_hours = break_even_of(cost, bought);
  return cost;
}

NetworkComparison compare_networks(JobCost fast, JobCost slow) {
  NetworkComparison c;
  const auto bought = [](const JobCost& j) { return from(j.machines, j.network, [](double a, double b) { return a + b; }); };
  c.saved_hours = slow.job.hours - fast.job.hours;
  c.extra = from(bought(fast), bought(slow), [](double a, double b) { return a - b; });
  const CostFigure& hourly = slow.owned.value ? slow.owned : slow.rent;
  const CostFigure nothing = {{}, "the faster network saves no time here"};
  c.saved =
      c.saved_hours > 0 ? from(hourly, known(c.saved_hours / slow.job.hours), [](double a, double share) { return a * share; }) : nothing;
  c.break_even_jobs =
      c.saved_hours > 0 ? from(c.extra, c.saved, [](double extra, double saved) { return std::max(extra, 0.0) / saved; }) : nothing;
  c.fast = std::move(fast);
  c.slow = std::move(slow);
  return c;
}

}  // namespace peal::training
