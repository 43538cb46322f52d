// One stage's list of tasks. Private to this room.
#pragma once

#include "gradient_buckets.hpp"

namespace peal::training {

/// Passes of a stage in its order, and when they begin and end in an even pipeline; `arrivals`: when what a pass takes from another stage
/// was done there.
struct StageOrder {
  std::vector<PipelineWork> works;
  std::vector<int> starts, ends, arrivals;
};

class StageTasks {
 public:
  StageTasks(const Model& model, const Layout& layout, int stage);
  std::vector<Task> list(const StageOrder& order);

 private:
  using Number = std::int32_t;
  /// What comes next in the list.
  struct Event {
    int time = 0;
    bool is_computation = false;
    PipelineWork work;  ///< of a transfer: the transfer
    bool operator<(const Event& other) const;
  };
  std::vector<Event> events_of(const StageOrder& order) const;
  void find_units(const StageOrder& order);

  Number add(Task task);
  const std::vector<Bucket>& buckets(int chunk) const { return buckets_[static_cast<std::size_t>(chunk / layout_.pp)]; }
  Number& received(bool is_forward, const PipelineWork& work);
  bool is_gathered_for(const PipelineWork& work) const;
  bool is_reduced(const PipelineWork& work) const;
  void transfer(const PipelineWork& work);
  void compute(const PipelineWork& work);
  void compute_part(const PipelineWork& work, const Bucket& part, bool is_first);
  Number gather_unit(std::size_t unit);
  void add_bucket(TaskKind kind, const Bucket& bucket, int micro_batch, Number after);
  void reduce(const Bucket& bucket, int micro_batch, Number after);
  void finish();
  void optimize();

  const Model& model_;
  const Layout& layout_;
  int stage_;
  bool has_data_;        // ranks that hold the same parameters
  bool shares_ = false;  // tied embeddings with another stage
  std::int64_t message_ = 0;
  std::vector<std::vector<Bucket>> buckets_;  // by piece
  std::vector<Task> tasks_;
  std::vector<Number> received_;                   // by direction, piece and micro batch
  std::vector<const Bucket*> units_;               // with ZeRO 3: what the computations need, in their order
  std::vector<Number> unit_gathers_, unit_tasks_;  // of units_
  std::size_t unit_ = 0;                           // the next
  Number last_compute_ = -1, last_data_ = -1;
  Number hold_ = -1;              // a reduction that the next computation waits for, where nothing overlaps
  const Bucket* late_ = nullptr;  // reduced after embeddings are shared
};

}  // namespace peal::training
