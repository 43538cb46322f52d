// Orders of pipelines, and the lists of tasks that come of them: held against the formulas of the papers.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <training/step_graph.hpp>

namespace peal::training {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Model small_model(int layers, bool ties = false) {
  Model model;
  model.name = "small";
  model.transformer.layers = layers;
  model.transformer.hidden = 64;
  model.transformer.heads = model.transformer.kv_heads = 8;
  model.transformer.head_dim = 8;
  model.transformer.ffn = 256;
  model.transformer.vocab = 512;
  model.transformer.seq_len = 32;
  model.transformer.ties_embeddings = ties;
  return model;
}

Layout pipeline(PipelineKind kind, int pp, int vpp, int micro_batches) {
  Layout layout;
  layout.pp = pp;
  layout.vpp = vpp;
  layout.pipeline = kind;
  layout.global_batch = micro_batches;
  return layout;
}

/// Time of an even pipeline without transfers: forward 1, backward 2 (1 and 1 where divided), of a chunk 1 / vpp of that. Fails below 0.
struct Walk {
  double time = -1;
  double busy = 0;             ///< of a stage
  std::vector<int> in_flight;  ///< most micro batches (of chunks) that a stage holds activations of
};

Walk walk(PipelineKind kind, int stages, int vpp, int micro_batches) {
  std::vector<std::vector<PipelineWork>> orders;
  for (int s = 0; s < stages; ++s) orders.push_back(pipeline_order(kind, stages, vpp, micro_batches, s));
  std::map<std::tuple<bool, int, int>, double> ends;
  std::vector<std::size_t> next(at(stages));
  std::vector<double> now(at(stages));
  std::vector<int> held(at(stages));
  Walk result;
  result.in_flight.resize(at(stages));
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < orders.size(); ++s)
      while (next[s] < orders[s].size()) {
        const PipelineWork& work = orders[s][next[s]];
        const bool ahead = work.kind == TaskKind::forward;
        double ready = 0;
        if (work.kind != TaskKind::backward_weight && work.chunk != (ahead ? 0 : stages * vpp - 1)) {
          const auto found = ends.find({ahead, work.chunk + (ahead ? -1 : 1), work.micro_batch});
          if (found == ends.end()) break;
          ready = found->second;
        }
        if (!ahead && work.kind != TaskKind::backward_weight && !ends.count({true, work.chunk, work.micro_batch})) break;
        now[s] = std::max(now[s], ready) + (work.kind == TaskKind::backward ? 2.0 : 1.0) / vpp;
        if (work.kind != TaskKind::backward_weight) ends[{ahead, work.chunk, work.micro_batch}] = now[s];
        held[s] += ahead ? 1 : work.kind == TaskKind::backward_input ? 0 : -1;
        result.in_flight[s] = std::max(result.in_flight[s], held[s]);
        ++next[s];
        moved = true;
      }
  }
  for (std::size_t s = 0; s < orders.size(); ++s)
    if (next[s] < orders[s].size()) return result;
  result.time = *std::max_element(now.begin(), now.end());
  result.busy = 3.0 * micro_batches;
  return result;
}

struct GraphCase {
  PipelineKind kind;
  int stages, vpp, micro_batches;
};

std::vector<GraphCase> cases() {
  std::vector<GraphCase> all;
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 3 * p; m += p > 4 ? 3 : 1) {
      for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble})
        all.push_back({kind, p, 1, m});
      for (int v = 2; p > 1 && m % p == 0 && v <= 3; ++v) all.push_back({PipelineKind::interleaved, p, v, m});
    }
  return all;
}

TEST(PipelineOrder, TakesEveryChunkAndMicroBatchOnce) {
  for (const GraphCase& c : cases())
    for (int s = 0; s < c.stages; ++s) {
      std::map<std::tuple<TaskKind, int, int>, int> seen;
      for (const PipelineWork& work : pipeline_order(c.kind, c.stages, c.vpp, c.micro_batches, s)) {
        EXPECT_EQ(work.chunk % c.stages, s);
        EXPECT_LT(work.chunk, c.stages * c.vpp);
        ++seen[{work.kind, work.chunk, work.micro_batch}];
      }
      EXPECT_EQ(seen.size(), at(c.vpp * c.micro_batches * (c.kind == PipelineKind::zero_bubble ? 3 : 2)));
      for (const auto& [key, times] : seen) EXPECT_EQ(times, 1);
    }
}

// (p - 1)(f + b) of GPipe and 1F1B, a v-th of it interleaved (arXiv 2104.04473, 2.2), (p - 1)(f + b - w) of ZB-H1 (2401.10241, table 2).
TEST(PipelineOrder, HasTheBubbleOfThePapers) {
  for (const GraphCase& c : cases()) {
    const Walk done = walk(c.kind, c.stages, c.vpp, c.micro_batches);
    ASSERT_GT(done.time, 0) << name_of(c.kind) << " " << c.stages << " " << c.vpp << " " << c.micro_batches;
    const double whole = 3.0 * (c.stages - 1);
    const double bubble = c.kind == PipelineKind::interleaved ? whole / c.vpp : whole;
    if (c.kind != PipelineKind::zero_bubble) {
      EXPECT_NEAR(done.time - done.busy, bubble, 1e-9) << name_of(c.kind) << " " << c.stages << " " << c.vpp << " " << c.micro_batches;
    } else if (c.micro_batches >= 2 * c.stages - 1) {
      EXPECT_NEAR(done.time - done.busy, whole / 3, 1e-9) << c.stages << " " << c.micro_batches;
    } else {
      EXPECT_LE(done.time - done.busy, whole + 1e-9);
    }
  }
}

TEST(PipelineOrder, HoldsNoMoreActivationsThanStagesFollow) {
  for (const GraphCase& c : cases()) {
    const Walk done = walk(c.kind, c.stages, c.vpp, c.micro_batches);
    for (int s = 0; s < c.stages; ++s) {
      const int held = done.in_flight[at(s)];
      if (c.kind == PipelineKind::gpipe) {
        EXPECT_EQ(held, c.micro_batches);
      }
      if (c.kind == PipelineKind::one_f_one_b) {
        EXPECT_EQ(held, std::min(c.micro_batches, c.stages - s));
      }
      if (c.kind == PipelineKind::zero_bubble) {
        EXPECT_LE(held, c.stages);
      }
    }
  }
}

StepGraph step_graph_of(const Model& model, const Layout& layout) {
  const Status can = check(model, layout);
  EXPECT_TRUE(can) << can.error().message;
  auto graph = build_step_graph(model, layout);
  EXPECT_TRUE(graph) << graph.error().message;
  return *std::move(graph);
}

TEST(StepGraph, FinishesWhateverIsCombined) {
  for (const GraphCase& c : cases())
    for (const int zero : {0, 1, 2, 3})
      for (const bool overlaps : {true, false}) {
        Layout layout = pipeline(c.kind, c.stages, c.vpp, c.micro_batches);
        layout.dp = 2;
        layout.global_batch *= 2;
        layout.zero = zero;
        layout.overlaps_gradients = overlaps;
        layout.bucket_bytes = 40'000;
        if (c.stages * c.vpp > 12) continue;
        const StepGraph graph = step_graph_of(small_model(2 * c.stages * c.vpp, c.micro_batches % 2 == 0), layout);
        const Status done = can_finish(graph);
        EXPECT_TRUE(done) << describe(layout) << ": " << done.error().message;
      }
}

/// Layers of a kind of task of a micro batch that a stage has, each counted.
std::map<int, int> layers_in_tasks(const std::vector<Task>& tasks, TaskKind kind, int micro_batch) {
  std::map<int, int> counted;
  for (const Task& task : tasks)
    if (task.kind == kind && task.micro_batch == micro_batch)
      for (int i = 0; i < task.layers.count; ++i) ++counted[task.layers.first + i];
  return counted;
}

TEST(StepGraph, ReducesEveryLayerOnceBesideTheLastBackwardPass) {
  Layout layout = pipeline(PipelineKind::one_f_one_b, 2, 1, 4);
  layout.dp = 2;
  layout.global_batch = 8;
  layout.zero = 1;
  layout.bucket_bytes = 1;
  const StepGraph graph = step_graph_of(small_model(8), layout);
  for (int s = 0; s < 2; ++s) {
    const std::vector<Task>& tasks = graph.stages[at(s)];
    for (int m = 0; m < 3; ++m) EXPECT_TRUE(layers_in_tasks(tasks, TaskKind::reduce_gradients, m).empty());
    const std::map<int, int> reduced = layers_in_tasks(tasks, TaskKind::reduce_gradients, 3);
    EXPECT_EQ(reduced.size(), 4U);
    EXPECT_EQ(layers_in_tasks(tasks, TaskKind::backward, 3), reduced);
    EXPECT_EQ(layers_in_tasks(tasks, TaskKind::gather_parameters, -1), reduced);
    std::set<int> waits;
    for (const Task& task : tasks)
      if (task.kind == TaskKind::reduce_gradients) waits.insert(*task.after.begin());
    EXPECT_EQ(waits.size(), 4U) << "each bucket waits for its own part of the backward pass";
  }
}

TEST(StepGraph, GathersUnitsOneAheadAndOnlyWhatIsNotThere) {
  Layout layout;
  layout.dp = 4;
  layout.zero = 3;
  layout.global_batch = 8;
  const StepGraph graph = step_graph_of(small_model(3), layout);
  const std::vector<Task>& tasks = graph.stages[0];
  // Of two micro batches: 3 units forward, 2 backward (the last one is there still), the first of the next micro batch too.
  const auto gathers = std::count_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.kind == TaskKind::gather_parameters; });
  EXPECT_EQ(gathers, 3 + 2 + 2 + 2);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind != TaskKind::gather_parameters || tasks[i].after.size() == 0) continue;
    const auto between = std::count_if(tasks.begin() + *tasks[i].after.begin() + 1, tasks.begin() + static_cast<std::ptrdiff_t>(i),
                                       [](const Task& t) { return is_computation(t.kind); });
    EXPECT_LE(between, 1);
  }
  for (int m = 0; m < 2; ++m) EXPECT_EQ(layers_in_tasks(tasks, TaskKind::reduce_gradients, m).size(), 3U);
}

TEST(StepGraph, SharesTiedEmbeddingsBeforeTheyAreReduced) {
  Layout layout = pipeline(PipelineKind::one_f_one_b, 3, 1, 3);
  layout.dp = 2;
  layout.global_batch = 6;
  const StepGraph graph = step_graph_of(small_model(6, true), layout);
  for (const int s : {0, 2}) {
    const std::vector<Task>& tasks = graph.stages[at(s)];
    const auto shared = std::find_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.kind == TaskKind::share_embeddings; });
    ASSERT_NE(shared, tasks.end());
    EXPECT_EQ(shared->elements, 512 * 64);
    const auto reduced = std::find_if(tasks.begin(), tasks.end(), [&](const Task& t) {
      return t.kind == TaskKind::reduce_gradients && (s == 0 ? t.has_embedding : t.has_head);
    });
    EXPECT_GT(reduced, shared);
  }
}

TEST(StepGraph, OneThatWaitsForEverIsCaughtWithItsPlace) {
  const Layout layout = pipeline(PipelineKind::one_f_one_b, 4, 1, 6);
  const StepGraph whole = step_graph_of(small_model(8), layout);
  ASSERT_TRUE(can_finish(whole));
  // Two transfers of one stage that change places.
  StepGraph swapped = whole;
  std::vector<Task>& tasks = swapped.stages[1];
  const auto is_first = [](const Task& t) { return t.kind == TaskKind::receive_forward && t.micro_batch == 0; };
  const auto is_second = [](const Task& t) { return t.kind == TaskKind::receive_forward && t.micro_batch == 1; };
  std::swap(*std::find_if(tasks.begin(), tasks.end(), is_first), *std::find_if(tasks.begin(), tasks.end(), is_second));
  Status done = can_finish(swapped);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("stage 0, task 1: send_forward of chunk 0, micro batch 0, with stage 1 waits for ever"),
            std::string::npos)
      << done.error().message;
  // A transfer that nobody takes; one that waits for what comes after it.
  StepGraph lost = whole;
  std::erase_if(lost.stages[3], [](const Task& t) { return t.kind == TaskKind::send_backward && t.micro_batch == 5; });
  EXPECT_FALSE(can_finish(lost));
  StepGraph circle = whole;
  circle.stages[0][0].after = {1};
  done = can_finish(circle);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("waits for task 1, which is not in front of it"), std::string::npos);
}

}  // namespace
}  // namespace peal::training
