// What a training run costs: hours, energy, and the money to rent machines, to buy them, and to do it over a slower network.
#pragma once

#include <base/result.hpp>
#include <optional>
#include <string>
#include <topology/cluster.hpp>
#include <training/prices.hpp>
#include <vector>

namespace peal::training {

/// Hours for a month of use without a pause.
inline constexpr double kHoursAMonth = 730;

/// A run whose length is known.
struct Job {
  std::string machine;  ///< catalogue name, or of the file; empty: no name
  std::string gpu;      ///< "A100-SXM4"
  int nodes = 1;
  int gpus = 1;             ///< in all
  int network_ports = 0;    ///< of a node, that join nodes
  std::string port;         ///< what kind those are: kind and Gb/s, "infiniband-400"; empty: not known
  double switch_ports = 0;  ///< of the fabric's switches in all, and its cables; 0: nobody has drawn it
  double cables = 0;
  double hours = 0;
};
/// Everything but the hours.
Job job_on(const topology::Cluster& cluster, const std::string& machine);

/// A value, or the sentence that says which price is missing.
struct CostFigure {
  std::optional<double> value;
  std::string missing;
};

/// Money in the price file's currency.
struct JobCost {
  Job job;
  CostFigure energy_kWh;   ///< of machines and site
  CostFigure electricity;  ///< money for that energy
  CostFigure rent;         ///< of the GPUs for the job
  CostFigure machines;     ///< to buy
  CostFigure network;      ///< to buy: the fabric's switch ports and cables (of a tree that blocks nothing), or a share of the machines'
  CostFigure owned;        ///< the job's share of what was bought, by the years that it is used, and its electricity
  /// Use after which buying is cheaper than renting; without a value where it never is, or where a price is missing.
  CostFigure break_even_hours;
  std::vector<Price> used;   ///< that the figures above rest on, each once
  std::string power_remark;  ///< what the power leaves out, or empty
};
JobCost cost_of(const Job& job, const Prices& prices);

/// The same job on two networks (or machines).
struct NetworkComparison {
  JobCost fast;
  JobCost slow;
  double saved_hours = 0;      ///< by the faster one
  CostFigure extra;            ///< that the faster one costs to buy
  CostFigure saved;            ///< money of those hours on the slower one: rent, or the share of what was bought with electricity
  CostFigure break_even_jobs;  ///< so many such jobs pay for the faster network
};
/// `slow` takes longer than `fast`, or as long.
NetworkComparison compare_networks(JobCost fast, JobCost slow);

/// `as_of`: prices that are two years older are marked.
std::string cost_text(const JobCost& cost, const Prices& prices, Day as_of);
std::string network_text(const NetworkComparison& comparison, const Prices& prices);
/// Schema peal.cost/1; `comparison` may be null.
std::string cost_json(const JobCost& cost, const NetworkComparison* comparison, const Prices& prices, Day as_of);

}  // namespace peal::training
