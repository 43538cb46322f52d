// The collected MSCCL plans, judged one by one. The table goes to stdout.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <base/names.hpp>
#include <schedule/msccl_xml.hpp>
#include <schedule/verify.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "source_tree.hpp"

namespace peal::schedule {
namespace {

namespace fs = std::filesystem;

TEST(MscclCollection, isJudgedFileByFile) {
  const fs::path folder = peal::test::in_source("../shared/data/msccl-xml");
  if (!fs::is_directory(folder)) GTEST_SKIP() << "no collection of MSCCL plans beside the source tree";
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".xml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  std::string table = fmt::format("{:<46}{:<16}{:>5}{:>9}{:>8}  {}\n", "file", "collective", "ranks", "place", "steps",
                                  "staged / 8 slots / canonical / why not");
  for (const fs::path& path : files) {
    const Result<MscclPlan> plan = read_msccl_plan(path.string());
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const Schedule& schedule = plan->schedule;
    VerifyOptions options;
    const Verdict verdict = verify(schedule, options);
    options.slots = 8;
    const Verdict roomy = verify(schedule, options);
    EXPECT_EQ(verdict.ok, roomy.ok) << path;
    EXPECT_EQ(verdict.why.empty(), verdict.ok);
    table += fmt::format("{:<46}{:<16}{:>5}{:>9}{:>8}  {} / {} / {} / {}\n", fs::relative(path, folder).string(),
                         peal::name_of(schedule.request.collective), schedule.request.ranks, schedule.request.in_place ? "in" : "out",
                         plan->steps, verdict.ok ? "right" : "WRONG", roomy.ok ? "right" : "WRONG", verdict.canonical ? "yes" : "no",
                         verdict.why);
  }
  std::fputs(table.c_str(), stdout);
}

}  // namespace
}  // namespace peal::schedule
