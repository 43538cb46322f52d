// One rank's share of a small GPT in training: the chunks of its pipeline stage, its tensor-parallel shards of them, its part of the batch,
// its ZeRO part of what is stepped. The runner of step graphs (step_runner.hpp) asks it for work.
#pragma once

#include <functional>
#include <map>
#include <parallel/gpt_unit.hpp>
#include <parallel/step_runner.hpp>
#include <parallel/zone.hpp>
#include <string>
#include <training/layout.hpp>

namespace peal::parallel {

/// A GPT that is trained: its shape (layers, hidden, heads, ffn, vocab, seq_len, positions), and how.
struct GptJob {
  training::Model model;
  training::Layout layout;
  const Arithmetic* arithmetic = nullptr;
  std::uint64_t seed = 1;
  double learning_rate = 1e-3;
  int broken_rank =
      -1;  ///< a fault on purpose, for tests of the check: the data-parallel rank that reduces a wrong gradient; below 0: none
};

/// What `peal train` cannot do with a layout that training::check() passes.
Status check_job(const GptJob& job);

/// Bytes that a rank holds at least: parameters, gradients and moments as ZeRO divides them, and the attention of one layer.
double least_bytes(const GptJob& job);

/// Ranks that this one talks to, of a layout; all groups of one where `world` is null.
struct GptGroups {
  Group tensor, context, data;  ///< data: ranks that share parameters (dp x cp)
  Group experts;                ///< over which the experts of a layer are spread (ep)
  Group copies;                 ///< that hold the same experts (dp x cp / ep); of one where experts are not spread
  std::shared_ptr<comm::Core> pipeline;
  std::shared_ptr<comm::Core> ends;  ///< the first stage's rank and the last's, that share tied embeddings; else null
  training::Position position;

  /// Collective over `world`, whose ranks are the layout's.
  static Result<GptGroups> make(const GptJob& job, const std::shared_ptr<comm::Core>& world);
};

/// Where an element of the model's state is kept.
enum class Kept : std::uint8_t { parameter, gradient, first_moment, second_moment };

class GptStage final : public StageWork {
 public:
  /// `job`, `graph` and `groups` outlive the stage.
  GptStage(const GptJob& job, const training::StepGraph& graph, GptGroups& groups);
  ~GptStage() override;

  /// Text of step `number` (from 0), gradients to zero.
  void begin_step(std::int64_t number);
  /// This rank's share of the step's mean loss; 0 on all but one rank of a group and all but the last stage.
  double loss() const;
  /// Called when the gradients of a step are whole, before they are used.
  std::function<Status()> on_gradients;
  std::function<void()> look = [] {};

  /// What this rank knows of a parameter: calls move(index in the whole, element) for each, which may be written. `owned`: of ranks that
  /// hold the same one does so.
  void each_element(Kept kept, const std::string& parameter, bool owned, const std::function<void(std::int64_t, float&)>& move);
  /// Bytes of parameters, gradients and moments that the rank holds now.
  std::int64_t state_bytes() const;
  std::int64_t steps_taken() const { return steps_taken_; }
  void set_steps_taken(std::int64_t steps) { steps_taken_ = steps; }

  // StageWork
  std::int64_t boundary() const override { return context_.boundary(); }
  Status compute(const training::Task& task, const float* input, float* output) override;
  Result<std::vector<DataCall>> calls_of(const training::Task& task) override;
  Status end_calls(const training::Task& task) override;

 private:
  struct Member {
    UnitName name;
    int chunk = 0;
    std::unique_ptr<GptUnit> unit;
    std::map<int, std::unique_ptr<Tape>> tapes;  // by micro batch
    std::array<std::size_t, kSharings> zones;    // kNone: no parameters of that kind
  };
  static constexpr std::size_t kNone = ~std::size_t{0};
  struct NamedShard {
    const Member* member = nullptr;
    const Shard* shard = nullptr;
  };
  struct Holding {
    Zone zone;
    int wanted = 0;  // gathers that a pass has not used up yet
  };
  void make_members();
  void make_zones(const std::vector<training::Task>& tasks);
  void make_zone(const std::function<bool(const Member&)>& belongs, Sharing sharing);
  bool covers(const training::Task& task, const Member& member) const;
  std::vector<Member*> members_of(const training::Task& task);
  std::vector<std::size_t> zones_of(const training::Task& task);
  Status forward(const training::Task& task, const float* input, float* output);
  Status backward(const training::Task& task, const float* input, float* output);
  Status hold(const training::Task& task);
  Status sum_over_tokens(std::size_t zone);
  Result<comm::Call> share_words();
  Status step();

  const GptJob& job_;
  GptGroups& groups_;
  GptContext context_;
  std::vector<Member> members_;               // in the order of the forward pass
  std::map<std::string, NamedShard> shards_;  // of all members; a name stands once on a rank
  std::vector<std::unique_ptr<Holding>> zones_;
  std::vector<std::size_t> held_;  // zones of what was computed last
  std::vector<MicroBatch> batches_;
  double loss_ = 0;
  std::int64_t steps_taken_ = 0;
};

}  // namespace peal::parallel
