// The plans of one communicator, found by a plain key: no pointer, no exact size, no string in it.
#pragma once

#include <base/partial_sums.hpp>
#include <base/result.hpp>
#include <comm/choice_board.hpp>
#include <cstdint>
#include <executor/plan.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <peal/types.hpp>
#include <string>
#include <tuning/fit_constants.hpp>
#include <tuning/select.hpp>
#include <unordered_map>
#include <vector>

namespace peal::comm {

/// For what a plan is made: a call of the user's as chosen; Peal's own exchange (Call::is_internal); a call of the user's not as chosen,
/// but by tuning::way_by_halves.
enum class PlanUse : std::uint8_t { call, internal, by_halves };

struct PlanKey {
  Collective collective = Collective::barrier;
  DataType type = DataType::u8;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t size_class = 0;  ///< sizes in (2^(k-1), 2^k] bytes are class k; 0: up to one byte
  bool in_place = false;
  PlanUse use = PlanUse::call;
  std::int32_t root = -1;
  bool operator==(const PlanKey&) const = default;
};

/// Class of a size in bytes.
std::uint8_t size_class_of(std::uint64_t bytes);

struct CachedPlan {
  PlanKey key;
  std::shared_ptr<const executor::Plan> plan;  ///< never null; others may hold it too
  const executor::Binding* binding = nullptr;  ///< for the call at hand: one of these two
  const executor::Binding* first = nullptr;    ///< the store's; null: not looked for yet
  std::unique_ptr<executor::Binding> own;      ///< from the first other shape on
  /// Whether the plan is right when messages are read where they lie in the sender's memory; worked out when first asked for.
  std::optional<bool> may_show;
  /// Whether it asks for sums in its senders' memory, and is right when they are written there.
  std::optional<bool> may_answer;
  /// What takes its place where it is faster to sum by halves; null: nothing.
  std::optional<CachedPlan*> by_halves;
};

struct PlanWishes {
  bool deterministic = false;
  std::string algorithm;
  std::string protocol;
  bool f32_partial_sums = false;  ///< sums of narrow floats travel as f32 until they are finished
  bool operator==(const PlanWishes&) const = default;
};

struct PlanKeyHash {
  std::size_t operator()(const PlanKey& key) const;
};

/// Plans as all communicators of one rank hold them that have the same ranks in the same order and the same wishes. A hundred groups
/// choose, lower and keep each of them once. Any thread.
class PlanStore {
 public:
  /// Null: not made yet.
  std::shared_ptr<const executor::Plan> find(const PlanKey& key) const;
  /// The one that stands under `key` from now on: the first that was given.
  std::shared_ptr<const executor::Plan> put(const PlanKey& key, std::shared_ptr<const executor::Plan> plan);
  /// The plan that stands under `key`, bound to the shape that was given first; it lives as long as the store.
  const executor::Binding* first_binding(const PlanKey& key, const executor::Shape& shape);

 private:
  struct Entry {
    std::shared_ptr<const executor::Plan> plan;
    std::unique_ptr<executor::Binding> first;  // null: not bound yet; then never changed
  };
  mutable std::mutex mutex_;
  std::unordered_map<PlanKey, Entry, PlanKeyHash> plans_;
};

class Plans {
 public:
  /// `message_bytes`: what every transport of the communicator can carry in one message. `board`: what ranks of this host share of
  /// their choices; `is_over`: nobody needs to wait for another's choice any more.
  Plans(
      std::shared_ptr<const tuning::Environment> environment, int rank, std::uint64_t message_bytes, PlanWishes wishes,
      ChoiceBoard board = {}, std::function<bool()> is_over = [] { return false; });
  /// Takes part in the plans of another communicator of the same environment, rank, message size and wishes.
  void share_with(const Plans& other) { store_ = other.store_; }

  /// The plan for a key; chosen and lowered when it is first asked for. Stays where it is.
  Result<CachedPlan*> find(const PlanKey& key) {
    if (last_ != nullptr && last_->key == key) return last_;
    return look_up(key);
  }
  /// Sets plan.binding for a call of this shape. Groups that call alike share what is worked out.
  void bind(CachedPlan& plan, const executor::Shape& shape) const {
    if (plan.binding == nullptr || !plan.binding->is_bound_to(shape)) [[unlikely]]
      bind_anew(plan, shape);
  }
  /// See CachedPlan. Some milliseconds the first time for a kind of plan.
  bool may_show(CachedPlan& plan) const;
  bool may_answer(CachedPlan& plan) const;
  /// See CachedPlan::by_halves. Ranks that agree on `plan` agree on it.
  CachedPlan* by_halves(CachedPlan& plan);
  /// What a call of exactly `bytes` is predicted to take under the plan that its size class takes. `cores`: where they are at this moment,
  /// if that is known.
  Result<tuning::PredictedTime> predicted_time(Collective collective, Bytes bytes, DataType type, int root,
                                               tuning::CoreDistance cores = tuning::CoreDistance::unknown);
  const std::shared_ptr<const tuning::Environment>& environment() const { return environment_; }
  const PlanWishes& wishes() const { return wishes_; }
  std::uint64_t message_bytes() const { return message_bytes_; }
  /// Whether this call's partial sums are wanted as f32: by wish, and where its additions round.
  bool wants_wide_partials(const PlanKey& key) const {
    return wishes_.f32_partial_sums && key.use != PlanUse::internal && has_reduction(key.collective) && rounds(key.type, key.op);
  }

 private:
  Result<CachedPlan*> look_up(const PlanKey& key);
  void bind_anew(CachedPlan& plan, const executor::Shape& shape) const;
  Result<std::shared_ptr<const executor::Plan>> make(const PlanKey& key) const;
  bool is_right(const CachedPlan& plan, bool (*when)(const schedule::Algorithm&, const schedule::Request&)) const;
  std::uint64_t choice_key(const PlanKey& key) const;
  Result<Choice> choose(const PlanKey& key) const;
  static Bytes upper_end_of(const PlanKey& key);
  schedule::Request request_of(const PlanKey& key) const;
  tuning::Question question_of(const PlanKey& key, Bytes bytes) const;

  std::shared_ptr<const tuning::Environment> environment_;  // communicators of the same ranks share one
  int rank_;
  std::uint64_t message_bytes_;
  PlanWishes wishes_;
  ChoiceBoard board_;
  std::function<bool()> is_over_;
  std::shared_ptr<PlanStore> store_ = std::make_shared<PlanStore>();
  CachedPlan* last_ = nullptr;
  std::unordered_map<PlanKey, std::unique_ptr<CachedPlan>, PlanKeyHash> plans_;
};

/// The environment of some ranks of a larger one, in the order of `members`.
tuning::Environment restrict_to(const tuning::Environment& whole, const std::vector<int>& members);

}  // namespace peal::comm
