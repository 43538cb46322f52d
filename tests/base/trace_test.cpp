#include <gtest/gtest.h>
#include <unistd.h>

#include <base/trace.hpp>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

namespace peal {
namespace {

std::string scratch_path(const char* name) { return ::testing::TempDir() + "peal_trace_" + std::to_string(::getpid()) + "_" + name; }

nlohmann::json written(const Trace& trace, const char* name) {
  const std::string path = scratch_path(name);
  const Status status = trace.write(path);
  EXPECT_TRUE(status.has_value()) << (status ? "" : status.error().message);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::remove(path.c_str());
  return nlohmann::json::parse(text.str());
}

TEST(Trace, an_empty_trace_is_valid_json) {
  const auto json = written(Trace{}, "empty");
  EXPECT_TRUE(json.at("traceEvents").is_array());
  EXPECT_TRUE(json.at("traceEvents").empty());
}

TEST(Trace, events_and_process_names_are_kept) {
  Trace trace;
  trace.name_process(3, "rank 3");
  trace.add({"send 0->1", "op", 3, 2, 1.5, 0.25});
  const auto events = written(trace, "events").at("traceEvents");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].at("ph"), "M");
  EXPECT_EQ(events[0].at("args").at("name"), "rank 3");
  EXPECT_EQ(events[1].at("ph"), "X");
  EXPECT_EQ(events[1].at("name"), "send 0->1");
  EXPECT_EQ(events[1].at("pid"), 3);
  EXPECT_EQ(events[1].at("tid"), 2);
  EXPECT_DOUBLE_EQ(events[1].at("ts").get<double>(), 1.5);
  EXPECT_DOUBLE_EQ(events[1].at("dur").get<double>(), 0.25);
}

TEST(Trace, awkward_names_and_numbers_stay_valid_json) {
  Trace trace;
  trace.name_process(0, "tab\tquote\"back\\slash\x01");
  trace.add({"grün 東京 \xF0\x9F\x94\x94", "c", 0, 0, 0, 0});
  trace.add(
      {"cut \xC3", "\xFF\xFE bad \xED\xA0\x80", 0, 0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()});
  const auto events = written(trace, "awkward").at("traceEvents");
  EXPECT_EQ(events[0].at("args").at("name"), "tab\tquote\"back\\slash\x01");
  EXPECT_EQ(events[1].at("name"), "grün 東京 \xF0\x9F\x94\x94");
  EXPECT_EQ(events[2].at("name"), "cut \xEF\xBF\xBD");
}

TEST(Trace, large_traces_are_written_whole) {
  Trace trace;
  for (int i = 0; i < 40'000; ++i) trace.add({"op", "c", i % 8, 0, i * 1.0, 1.0});
  const auto events = written(trace, "large").at("traceEvents");
  ASSERT_EQ(events.size(), 40'000u);
  EXPECT_DOUBLE_EQ(events.back().at("ts").get<double>(), 39'999.0);
}

TEST(Trace, a_path_that_cannot_be_written_is_said) {
  const Status status = Trace{}.write("/nonexistent/folder/trace.json");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::system);
  EXPECT_NE(status.error().message.find("/nonexistent/folder/trace.json"), std::string::npos);
}

TEST(Trace, a_full_disk_is_said) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "/dev/full is absent";
  const Status status = Trace{}.write("/dev/full");
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().message.find("ENOSPC"), std::string::npos);
}

}  // namespace
}  // namespace peal
