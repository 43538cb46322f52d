// Which works of a step wait for which on their devices, and what each device computes meanwhile. Private to this room; it knows no
// engine: whoever owns it says what time it is, begins what it is told to begin, and comes back when it said.
#pragma once

#include <deque>
#include <functional>
#include <sim/interpret.hpp>
#include <unordered_map>

namespace peal::sim {

/// False where all jobs begin by themselves and nothing is computed.
bool has_waiting(const Step& step);
/// Refuses what cannot be simulated together with jobs that wait, and works that wait for one another in a circle.
Status check_step(const Step& step, const InterpretOptions& options);

class Works {
 public:
  /// What there is to do for the owner.
  struct Owner {
    std::function<void(int job, int device)> begin;  ///< nothing that the rank waited for is left
    std::function<double(int device)> stretch;       ///< how much longer the device takes for its next computation
    /// Comes back with `computed(device, version)` at that time.
    std::function<void(double time, int device, std::uint32_t version)> come_back;
    std::function<void(int computation, int device, double began, double ended)> note;
  };

  /// What the step points at must outlive this.
  Works(const Step& step, Owner owner);

  /// Begins what waits for nothing; a device begins so late.
  void begin(const std::function<double(int device)>& lateness);
  void launched(int job, int device, double now);
  void ended(int job, int device, double now);  ///< after it was launched there
  void computed(int device, std::uint32_t version, double now);

  const std::vector<ComputationTimes>& times() const { return times_; }

 private:
  struct Device {
    double held = 0;
    int running = -1;  // computation
    std::deque<int> ready;
    double left = 0;  // nanoseconds of the running one, with all processors
    double since = 0;
    double began = 0;
    std::uint32_t version = 0;
  };

  int jobs() const { return static_cast<int>(step_.jobs.size()); }
  std::span<const int> devices_of(int work) const;
  const std::vector<int>& after(int work) const;
  static std::uint64_t place(int work, int device) { return (static_cast<std::uint64_t>(work) << 32) | static_cast<std::uint32_t>(device); }
  double rate(const Device& device) const;
  void begin_work(int work, int device, double now);
  void work_ended(int work, int device, double now);
  void compute_next(int device, double now);
  void hold(int device, double processors, double now);

  Step step_;
  Owner owner_;
  std::vector<std::vector<int>> followers_;           // by work
  std::unordered_map<std::uint64_t, int> waits_for_;  // by work and device: how many that have not ended there
  std::unordered_map<int, Device> devices_;
  std::vector<ComputationTimes> times_;
};

}  // namespace peal::sim
