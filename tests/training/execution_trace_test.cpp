// Chakra traces: the wire, what is cut off, circles, and the ranks together in virtual time.
#include <gtest/gtest.h>

#include <filesystem>
#include <source_tree.hpp>
#include <training/execution_trace.hpp>

namespace peal::training {
namespace {

/// Protobuf by hand, for small traces.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}
std::string number(int field, std::uint64_t value) { return varint(static_cast<std::uint64_t>(field) << 3) + varint(value); }
std::string piece(int field, const std::string& bytes) {
  return varint((static_cast<std::uint64_t>(field) << 3) | 2) + varint(bytes.size()) + bytes;
}
std::string message(const std::string& bytes) { return varint(bytes.size()) + bytes; }
std::string metadata() { return message(piece(1, "0.0.4")); }
std::string attribute(const std::string& name, int field, std::uint64_t value) { return piece(10, piece(1, name) + number(field, value)); }

/// `more` are fields after the common ones.
std::string node(std::uint64_t id, const std::string& name, int kind, const std::vector<std::uint64_t>& after, std::uint64_t us,
                 const std::string& more = "") {
  std::string ids;
  for (const std::uint64_t one : after) ids += varint(one);
  return message((id == 0 ? "" : number(1, id)) + piece(2, name) + number(3, static_cast<std::uint64_t>(kind)) +
                 (after.empty() ? "" : piece(5, ids)) + number(7, us) + more);
}
std::string sum(std::uint64_t id, const std::vector<std::uint64_t>& after, std::uint64_t bytes, int width = 9) {
  return node(id, "sum", 7, after, 0, attribute("comm_type", width, 0) + attribute("comm_size", width, bytes));
}

RankTrace trace_of(const std::string& bytes, const std::string& file = "job.0.et") {
  Result<RankTrace> trace = read_trace(bytes, file);
  EXPECT_TRUE(trace) << trace.error().message;
  return trace ? *trace : RankTrace();
}

/// One microsecond a byte.
Result<Nanoseconds> slow(Collective, double bytes, const std::vector<int>& group) {
  return Nanoseconds{group.size() > 1 ? bytes * 1e3 : 0};
}

TEST(ExecutionTrace, FieldsOfTheWireAreRead) {
  const RankTrace trace =
      trace_of(metadata() + node(0, "a", 4, {}, 7) + sum(1, {0, 99}, 1 << 20) +
                   node(2, "to", 5, {1}, 0,
                        attribute("comm_dst", 7, 3) + attribute("comm_size", 13, 64) + piece(10, piece(1, "pg_name") + piece(29, "tp"))),
               "some/job.12.et");
  EXPECT_EQ(trace.rank, 12);
  EXPECT_EQ(trace.version, "0.0.4");
  ASSERT_EQ(trace.nodes.size(), 3u);
  EXPECT_EQ(trace.nodes[0].id, 0u) << "zero is left out on the wire";
  EXPECT_EQ(trace.nodes[0].duration_us, 7);
  EXPECT_EQ(trace.nodes[1].collective, Collective::all_reduce);
  EXPECT_EQ(trace.nodes[1].bytes, 1 << 20);
  EXPECT_EQ(trace.missing, 1) << "node 99";
  EXPECT_EQ(trace.nodes[2].kind, NodeKind::send);
  EXPECT_EQ(trace.nodes[2].peer, 3);
  EXPECT_EQ(trace.nodes[2].group, "tp");
  EXPECT_TRUE(trace.cut_off.empty());
  // Integers are as wide as whoever wrote them took them.
  for (const int width : {7, 9, 11, 13}) EXPECT_EQ(trace_of(metadata() + sum(1, {}, 77, width)).nodes[0].bytes, 77) << width;
}

TEST(ExecutionTrace, ATraceThatIsCutOffGivesWhatIsBeforeIt) {
  const std::string whole = metadata() + node(0, "a", 4, {}, 7) + node(1, "b", 4, {0}, 5);
  for (std::size_t bytes = whole.size() - 1; bytes > whole.size() - 10; --bytes) {
    const RankTrace trace = trace_of(whole.substr(0, bytes));
    EXPECT_EQ(trace.nodes.size(), 1u);
    EXPECT_NE(trace.cut_off.find("the 1 nodes before it were read; copy the file again"), std::string::npos) << trace.cut_off;
  }
  EXPECT_EQ(read_trace("no trace", "x.0.et").error().message,
            "x.0.et: not a Chakra execution trace, or cut off in its first message; give NAME.RANK.et files");
  EXPECT_EQ(read_trace("", "x.0.et").error().message, "x.0.et: the file is empty");
}

TEST(ExecutionTrace, NodesInACircleAreNamed) {
  const RankTrace trace =
      trace_of(metadata() + node(1, "a", 4, {3}, 1) + node(2, "b", 4, {1}, 1) + node(3, "c", 4, {2}, 1) + node(4, "d", 4, {3}, 1));
  const Status order = check_order(trace);
  ASSERT_FALSE(order);
  EXPECT_EQ(order.error().message,
            "job.0.et: 3 nodes wait for one another in a circle: 1 (\"a\") waits for 3 (\"c\") waits for 2 (\"b\") waits for 1 (\"a\"); "
            "such a job cannot have run");
}

TEST(ExecutionTrace, TheLongestChainIsByTimeNotByNumber) {
  const RankTrace trace =
      trace_of(metadata() + node(0, "a", 4, {}, 1) + node(1, "b", 4, {0}, 1) + node(2, "c", 4, {1}, 1) + node(3, "long", 4, {0}, 50));
  const LongestChain chain = longest_chain(trace);
  EXPECT_EQ(chain.nodes, (std::vector<std::size_t>{0, 3}));
  EXPECT_EQ(chain.duration_us, 51);
}

TEST(ExecutionTrace, TheJsonOfChakrasTestsIsRead) {
  const RankTrace trace = trace_of(
      R"({"workload_graph": [{"Id": 5, "Name": "x", "NodeType": 4, "ctrlDeps": [3], "data_deps": [], "runtime": 318, "is_cpu_op": true},
      {"Id": 6, "NodeType": 7, "ctrlDeps": [5], "runtime": 4, "comm_type": 2, "comm_size": 64}]})");
  ASSERT_EQ(trace.nodes.size(), 2u);
  EXPECT_TRUE(trace.nodes[0].is_on_cpu);
  EXPECT_EQ(trace.nodes[0].duration_us, 318);
  EXPECT_EQ(trace.nodes[1].collective, Collective::all_gather);
  EXPECT_EQ(trace.missing, 1);
}

TEST(ExecutionTrace, RanksWaitForTheSlowestAndComputeBesideACall) {
  // Rank 0 computes 10 us, then sums 5 bytes; rank 1 computes 30. Beside the sum each computes 3 us more.
  const std::vector<RankTrace> traces = {
      trace_of(metadata() + node(0, "a", 4, {}, 10) + sum(1, {0}, 5) + node(2, "beside", 4, {0}, 3), "j.0.et"),
      trace_of(metadata() + node(0, "a", 4, {}, 30) + sum(1, {0}, 5) + node(2, "beside", 4, {0}, 3), "j.1.et")};
  const Result<TraceStudy> study = simulate_traces(traces, slow);
  ASSERT_TRUE(study) << study.error().message;
  EXPECT_DOUBLE_EQ(study->time_us, 35);
  EXPECT_DOUBLE_EQ(study->ranks[0].compute_us, 13);
  EXPECT_DOUBLE_EQ(study->ranks[0].exposed_us, 22);
  EXPECT_DOUBLE_EQ(study->ranks[1].exposed_us, 2);
}

std::string to(std::uint64_t id, const char* way, int rank, const std::vector<std::uint64_t>& after) {
  const bool is_send = std::string(way) == "comm_dst";
  return node(id, is_send ? "send" : "receive", is_send ? 5 : 6, after, 0,
              attribute(way, 7, static_cast<std::uint64_t>(rank)) + attribute("comm_size", 9, 4));
}

TEST(ExecutionTrace, ARingOfSendsBeforeReceivesEnds) {
  std::vector<RankTrace> traces;
  for (int rank = 0; rank < 3; ++rank)
    traces.push_back(trace_of(metadata() + to(0, "comm_dst", (rank + 1) % 3, {}) + to(1, "comm_src", (rank + 2) % 3, {0}),
                              fmt::format("j.{}.et", rank)));
  const Result<TraceStudy> study = simulate_traces(traces, slow);
  ASSERT_TRUE(study) << study.error().message;
  EXPECT_DOUBLE_EQ(study->time_us, 4);
  // Receives that come first wait for ever.
  for (int rank = 0; rank < 3; ++rank)
    traces[static_cast<std::size_t>(rank)] =
        trace_of(metadata() + to(0, "comm_src", (rank + 2) % 3, {}) + to(1, "comm_dst", (rank + 1) % 3, {0}), fmt::format("j.{}.et", rank));
  const Result<TraceStudy> stuck = simulate_traces(traces, slow);
  ASSERT_FALSE(stuck);
  EXPECT_NE(stuck.error().message.find("the ranks wait for ever: \"receive\" of rank 0 among ranks 2, 0 (1 of 2 came)"), std::string::npos)
      << stuck.error().message;
}

TEST(ExecutionTrace, CallsThatAreNotTheSameAreRefused) {
  const std::vector<RankTrace> traces = {trace_of(metadata() + sum(0, {}, 5), "j.0.et"), trace_of(metadata() + sum(0, {}, 6), "j.1.et")};
  const Result<TraceStudy> study = simulate_traces(traces, slow);
  ASSERT_FALSE(study);
  EXPECT_EQ(study.error().message, "rank 1's \"sum\" of 6 bytes meets rank 0's \"sum\" of 5: they are not the same call");
}

TEST(ExecutionTrace, PublishedTracesOfARingAreReadAndRun) {
  const std::string folder = test::in_source("../shared/data/workload/chakra/astra-custom-ring-8/");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  std::vector<std::string> files;
  for (int rank = 0; rank < 8; ++rank) files.push_back(fmt::format("{}custom_allreduce.{}.et", folder, rank));
  const Result<std::vector<RankTrace>> traces = read_traces(files);
  ASSERT_TRUE(traces) << traces.error().message;
  for (const RankTrace& trace : *traces) {
    EXPECT_EQ(trace.nodes.size(), 35u);
    EXPECT_TRUE(check_order(trace));
  }
  const Result<TraceStudy> study = simulate_traces(*traces, slow);
  ASSERT_TRUE(study) << study.error().message;
  // 14 steps of an eighth of 1 MiB, and 7 sums of 7 us.
  EXPECT_NEAR(study->time_us, 14 * 131072 + 7 * 7, 1);
}

}  // namespace
}  // namespace peal::training
