#include <algorithm>
#include <cmath>
#include <parallel/adam.hpp>
#include <parallel/gpt_stage.hpp>
#include <parallel/text_source.hpp>

namespace peal::parallel {

using training::LayerRange;
using training::Layout;
using training::Task;
using training::TaskKind;

namespace {

constexpr float kBreak = 0.01F;  // of the first gradient of a zone, where a test asks for a wrong sum

}  // namespace

GptStage::GptStage(const GptJob& job, const training::StepGraph& graph, GptGroups& groups) : job_(job), groups_(groups) {
  const Layout& layout = job.layout;
  context_.shape = job.model.transformer;
  context_.arithmetic = job.arithmetic;
  context_.tensor = &groups.tensor;
  context_.context = &groups.context;
  context_.experts = &groups.experts;
  context_.cuts_sequence = layout.has_sequence_parallel && layout.tp > 1;
  context_.recompute = layout.recompute;
  context_.samples = layout.micro_batch;
  context_.positions = layout.seq_len_of(job.model) / layout.cp;
  context_.loss_scale = 1.0 / (static_cast<double>(layout.global_batch) * static_cast<double>(layout.seq_len_of(job.model)));
  context_.look = [this] { look(); };
  make_members();
  make_zones(graph.stages[static_cast<std::size_t>(groups.position.pp)]);
  for (const auto& [name, place] : shards_)
    each_element(Kept::parameter, name, false,
                 [&, &spec = place.shard->spec](std::int64_t index, float& value) { value = first_value(spec, job.seed, index); });
}

GptStage::~GptStage() = default;

void GptStage::make_members() {
  const Layout& layout = job_.layout;
  for (int piece = 0; piece < layout.vpp; ++piece) {
    const int chunk = groups_.position.pp + piece * layout.pp;
    const LayerRange layers = layers_of(job_.model, layout, chunk);
    const auto add = [&](UnitName name) { members_.push_back({name, chunk, make_unit(context_, name), {}, {kNone, kNone}}); };
    if (chunk == 0) {
      add({UnitName::embedding, 0});
      context_.embedding = members_.back().unit.get();
    }
    for (int i = 0; i < layers.count; ++i) add({UnitName::layer, layers.first + i});
    if (chunk + 1 == layout.chunks()) add({UnitName::head, 0});
  }
  for (const Member& member : members_)
    for (const Shard& shard : member.unit->shards()) shards_.emplace(shard.spec.name, NamedShard{&member, &shard});
}

bool GptStage::covers(const Task& task, const Member& member) const {
  if (task.chunk >= 0 && task.chunk != member.chunk) return false;
  if (member.name.kind == UnitName::embedding) return task.has_embedding;
  if (member.name.kind == UnitName::head) return task.has_head;
  const int layer = member.name.layer_number;
  return layer >= task.layers.first && layer < task.layers.first + task.layers.count;
}

// A zone is what one call reduces, so the graph says which units share one; what it never reduces is one zone a chunk. Experts that are
// spread have zones of their own, which other ranks share.
void GptStage::make_zones(const std::vector<Task>& tasks) {
  for (const Sharing sharing : {Sharing::by_all, Sharing::by_copies}) {
    for (const Task& task : tasks)
      if (task.kind == TaskKind::reduce_gradients) make_zone([&](const Member& member) { return covers(task, member); }, sharing);
    for (const Member& own : members_) make_zone([&](const Member& member) { return member.chunk == own.chunk; }, sharing);
  }
}

// Of those that belong and have no zone yet.
void GptStage::make_zone(const std::function<bool(const Member&)>& belongs, Sharing sharing) {
  const auto kind = static_cast<std::size_t>(sharing);
  std::vector<Member*> members;
  std::int64_t elements = 0;
  for (Member& member : members_) {
    const std::int64_t own = member.unit->elements(sharing);
    if (own == 0 || member.zones[kind] != kNone || !belongs(member)) continue;
    member.zones[kind] = zones_.size();
    members.push_back(&member);
    elements += own;
  }
  if (members.empty()) return;
  Group& group = sharing == Sharing::by_all ? groups_.data : groups_.copies;
  zones_.push_back(std::make_unique<Holding>(Holding{Zone(elements, job_.layout.zero, group)}));
  std::int64_t taken = 0;
  for (Member* member : members) {
    member->unit->place(sharing, zones_.back()->zone, taken);
    taken += member->unit->elements(sharing);
  }
}

std::vector<GptStage::Member*> GptStage::members_of(const Task& task) {
  std::vector<Member*> found;
  for (Member& member : members_)
    if (covers(task, member)) found.push_back(&member);
  return found;
}

// Of a stage as a whole (chunk -1) all of them.
std::vector<std::size_t> GptStage::zones_of(const Task& task) {
  std::vector<std::size_t> found;
  const bool is_all = task.chunk < 0 && task.layers.count == 0;
  for (Member& member : members_) {
    if (!is_all && !covers(task, member)) continue;
    for (const std::size_t zone : member.zones)
      if (zone != kNone && std::find(found.begin(), found.end(), zone) == found.end()) found.push_back(zone);
  }
  return found;
}

void GptStage::begin_step(std::int64_t number) {
  loss_ = 0;
  const Layout& layout = job_.layout;
  const std::int64_t length = layout.seq_len_of(job_.model), own = context_.positions;
  batches_.assign(static_cast<std::size_t>(layout.micro_batches()), {});
  for (int m = 0; m < layout.micro_batches(); ++m) {
    MicroBatch& batch = batches_[static_cast<std::size_t>(m)];
    for (int s = 0; s < layout.micro_batch; ++s) {
      // Which samples a step has does not depend on the layout; who computes which does.
      const std::int64_t of_step = (static_cast<std::int64_t>(groups_.position.dp) * layout.micro_batches() + m) * layout.micro_batch + s;
      const std::vector<int> text = text_sample(job_.seed, number * layout.global_batch + of_step, length + 1);
      const auto first = text.begin() + own * groups_.position.cp;
      batch.tokens.insert(batch.tokens.end(), first, first + own);
      batch.targets.insert(batch.targets.end(), first + 1, first + own + 1);
    }
  }
  for (const auto& holding : zones_) holding->zone.clear_gradients();
}

double GptStage::loss() const { return groups_.position.tp == 0 ? loss_ : 0; }

Status GptStage::compute(const Task& task, const float* input, float* output) {
  if (task.kind != TaskKind::optimizer && task.kind != TaskKind::backward_weight) PEAL_TRY(hold(task));  // those need no parameters
  switch (task.kind) {
    case TaskKind::forward: return forward(task, input, output);
    case TaskKind::optimizer: return step();
    default: return backward(task, input, output);
  }
}

// Parameters were gathered ahead, by a task of the graph. What was computed last stays until something else is, so that a pass that turns
// around finds it still; a stage of a pipeline keeps all until the step is over, as the graph has it.
Status GptStage::hold(const Task& task) {
  std::vector<std::size_t> now = zones_of(task);
  for (const std::size_t number : now) {
    Holding& holding = *zones_[number];
    if (!holding.zone.is_whole())
      return fail(ErrorCode::internal, "the step graph computes with parameters that were not gathered: {}", name_of(task.kind));
    if (holding.wanted > 0) --holding.wanted;
  }
  for (const std::size_t number : held_) {
    const bool is_used = std::find(now.begin(), now.end(), number) != now.end() || zones_[number]->wanted > 0;
    if (!is_used && job_.layout.pp == 1) zones_[number]->zone.release();
  }
  held_.swap(now);
  return {};
}

Status GptStage::forward(const Task& task, const float* input, float* output) {
  const MicroBatch& batch = batches_[static_cast<std::size_t>(task.micro_batch)];
  const std::vector<Member*> members = members_of(task);
  Buffer between, next;
  for (Member* member : members) {
    auto& tape = member->tapes[task.micro_batch] = member->unit->new_tape();
    const bool is_last = member == members.back();
    if (!is_last) next.resize(static_cast<std::size_t>(boundary()));
    PEAL_TRY(
        member->unit->forward(*tape, batch, member == members.front() ? input : between.data(), is_last ? output : next.data(), loss_));
    between.swap(next);
  }
  return {};
}

Status GptStage::backward(const Task& task, const float* input, float* output) {
  const MicroBatch& batch = batches_[static_cast<std::size_t>(task.micro_batch)];
  std::vector<Member*> members = members_of(task);
  std::reverse(members.begin(), members.end());
  Buffer between, next;
  for (Member* member : members) {
    Tape& tape = *member->tapes.at(task.micro_batch);
    if (task.kind != TaskKind::backward_weight) {
      const bool is_last = member == members.back();
      if (!is_last) next.resize(static_cast<std::size_t>(boundary()));
      PEAL_TRY(
          member->unit->backward_input(tape, batch, member == members.front() ? input : between.data(), is_last ? output : next.data()));
      between.swap(next);
    }
    if (task.kind != TaskKind::backward_input) {
      PEAL_TRY(member->unit->backward_weight(tape, batch));
      member->tapes.erase(task.micro_batch);
    }
  }
  return {};
}

// Gradients of what stands between tensor-parallel parts are of own tokens: one sum for all of a zone.
Status GptStage::sum_over_tokens(std::size_t number) {
  if (!context_.cuts_sequence) return {};
  Zone& zone = zones_[number]->zone;
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
  for (const Member& member : members_) {
    if (member.zones[static_cast<std::size_t>(Sharing::by_all)] != number) continue;
    for (const Shard& shard : member.unit->shards())
      if (shard.spec.is_summed_over_tokens) pieces.emplace_back(shard.offset, shard.elements());
  }
  if (pieces.empty()) return {};
  Buffer packed;
  for (const auto& [offset, count] : pieces) packed.insert(packed.end(), zone.gradients() + offset, zone.gradients() + offset + count);
  PEAL_TRY(groups_.tensor.sum(packed.data(), static_cast<std::int64_t>(packed.size())));
  const float* from = packed.data();
  for (const auto& [offset, count] : pieces) {
    std::copy_n(from, count, zone.gradients() + offset);
    from += count;
  }
  return {};
}

Result<std::vector<DataCall>> GptStage::calls_of(const Task& task) {
  std::vector<DataCall> calls;
  if (task.kind == TaskKind::share_embeddings) {
    PEAL_ASSIGN(const comm::Call call, share_words());
    return std::vector<DataCall>{{call, Among::ends}};
  }
  for (const std::size_t number : zones_of(task)) {
    Holding& holding = *zones_[number];
    Zone& zone = holding.zone;
    if (zone.group().size() == 1) continue;  // experts that nobody else holds
    const Among among = &zone.group() == &groups_.copies ? Among::copies : Among::data;
    if (task.kind == TaskKind::reduce_gradients) {
      PEAL_TRY(sum_over_tokens(number));
      if (groups_.data.rank() == job_.broken_rank) zone.gradients()[0] += kBreak * std::abs(zone.gradients()[0]) + kBreak;
      calls.push_back({zone.reduce_call(), among});
    } else {
      if (job_.layout.zero == 3) ++holding.wanted;
      if (job_.layout.zero < 3 || !zone.is_whole()) calls.push_back({zone.gather_call(), among});
    }
  }
  return calls;
}

// The words' gradient of the embedding at one end of the pipeline, and of the head at the other.
Result<comm::Call> GptStage::share_words() {
  for (const Member& member : members_) {
    const std::vector<Shard>& shards = member.unit->shards();
    for (std::size_t number = 0; number < shards.size(); ++number) {
      if (!shards[number].is_copy && !(member.name.kind == UnitName::embedding && number == kWords)) continue;
      comm::Call call;
      call.collective = Collective::all_reduce;
      call.send = call.receive = member.unit->gradient(number);
      call.count = static_cast<std::uint64_t>(shards[number].elements());
      call.type = DataType::f32;
      call.op = ReduceOp::sum;
      return call;
    }
  }
  return fail(ErrorCode::internal, "a stage without words shares them");
}

Status GptStage::end_calls(const Task& task) {
  for (const std::size_t number : zones_of(task))
    if (task.kind == TaskKind::reduce_gradients) zones_[number]->zone.end_reduce();
  return {};
}

Status GptStage::step() {
  if (groups_.data.size() == 1)
    for (std::size_t z = 0; z < zones_.size(); ++z) PEAL_TRY(sum_over_tokens(z));
  if (on_gradients) PEAL_TRY(on_gradients());
  for (const auto& holding : zones_) holding->zone.release();
  held_.clear();
  ++steps_taken_;
  for (const auto& holding : zones_) {
    Zone& zone = holding->zone;
    const auto own = static_cast<std::size_t>(zone.own_count());
    step_adam({.rate = job_.learning_rate, .steps = steps_taken_}, {zone.own_gradients(), own}, {zone.own_parameters(), own},
              zone.first_moment(), zone.second_moment());
    look();
  }
  return {};
}

void GptStage::each_element(Kept kept, const std::string& parameter, bool owned, const std::function<void(std::int64_t, float&)>& move) {
  const auto found = shards_.find(parameter);
  if (found == shards_.end()) return;
  const Shard& shard = *found->second.shard;
  Zone& zone = zones_[found->second.member->zones[static_cast<std::size_t>(shard.sharing)]]->zone;
  if (owned && (shard.is_copy || (shard.spec.cut == Cut::none && shard.rank > 0) || (!zone.is_cut() && zone.group().rank() > 0))) return;
  const bool is_all = kept == Kept::parameter && !owned && zone.is_whole();
  const std::int64_t first = is_all ? 0 : zone.own_first(), end = is_all ? zone.elements() : first + zone.own_count();
  float* data = kept == Kept::parameter      ? (is_all ? zone.parameters() : zone.own_parameters())
                : kept == Kept::gradient     ? zone.own_gradients()
                : kept == Kept::first_moment ? zone.first_moment().data()
                                             : zone.second_moment().data();
  const std::int64_t from = std::max(first, shard.offset), to = std::min(end, shard.offset + shard.elements());
  for (std::int64_t at = from; at < to; ++at) move(shard.whole_index(at - shard.offset), data[at - first]);
}

std::int64_t GptStage::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& holding : zones_) bytes += holding->zone.bytes();
  return bytes;
}

}  // namespace peal::parallel
