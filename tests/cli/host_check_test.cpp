#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cli/host_check.hpp>

namespace peal::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using tuning::CoreDistance;

HostCell cell(double us, double predicted_us, double again_us) {
  HostCell c{"shm", Collective::reduce, 64, "ring", "line", CoreDistance::near};
  c.rounds = 8;
  c.us = c.all_us = us;
  c.least_us = std::min(us, again_us);
  c.most_us = std::max(us, again_us);
  c.predicted_us = predicted_us;
  c.model_us = us;
  return c;
}

TEST(HostCheck, ErrorsAreOfPredictedCellsAlone) {
  const std::vector<HostCell> cells = {cell(10, 11, 10.5), cell(10, 8, 10), cell(10, 10.5, 11), cell(10, 0, 30)};
  const HostErrors errors = errors_of(cells);
  EXPECT_EQ(errors.cells, 3);
  EXPECT_EQ(errors.unpredicted, 1);
  EXPECT_NEAR(errors.median, 0.10, 1e-9);
  EXPECT_NEAR(errors.worst, 0.20, 1e-9);
  EXPECT_NEAR(errors.median_noise, 0.05, 1e-9);
  EXPECT_NEAR(errors.worst_noise, 0.10, 1e-9);
  EXPECT_EQ(errors_of({}).cells, 0);
}

TEST(HostCheck, TheReportNamesWhatIsBeyondTheBound) {
  const std::string kept = host_check_text({cell(10, 11, 10)}, 0.15, 0.30);
  EXPECT_THAT(kept, HasSubstr("error 10.0 % in the median, 10 % at worst"));
  EXPECT_THAT(kept, HasSubstr("15 % in the median (kept), 30 % at worst (kept)"));
  EXPECT_THAT(kept, Not(HasSubstr("beyond")));
  const std::string broken = host_check_text({cell(10, 11, 10), cell(10, 10, 10), cell(10, 14, 10), cell(10, 0, 10)}, 0.15, 0.30);
  EXPECT_THAT(broken, HasSubstr("beyond the bound"));
  EXPECT_THAT(broken, HasSubstr("30 % at worst (not kept)"));
  EXPECT_THAT(broken, HasSubstr("1 cells have no prediction"));
  EXPECT_THAT(broken, HasSubstr("peal tune --transport shm"));
  HostCell of_tcp = cell(10, 0, 10);
  of_tcp.transport = "tcp";
  const std::string other = host_check_text({cell(10, 11, 10), of_tcp}, 0.15, 0.30);
  EXPECT_THAT(other, HasSubstr("tcp: 1 cells have no prediction"));
  EXPECT_THAT(other, HasSubstr("peal tune --transport tcp"));
  EXPECT_THAT(other, Not(HasSubstr("tcp: 0 cells")));
  EXPECT_THAT(other, HasSubstr("all: 1 cells, error 10.0 %"));
  EXPECT_THAT(host_check_text({}, 0.15, 0.30), HasSubstr("(not kept)")) << "no cell proves nothing";
}

TEST(HostCheck, SizesLieBetweenThoseOfTables) {
  HostCheckOptions options;
  options.collectives = {Collective::reduce, Collective::barrier};
  options.largest = 4096;
  const auto points = points_to_check(options);
  ASSERT_EQ(points.size(), 5u);
  EXPECT_EQ(points[0].bytes, 48u);
  EXPECT_EQ(points[3].bytes, 3072u);
  EXPECT_EQ(points[4].bytes, 0u);
}

TEST(HostCheck, CellsTravelAsJson) {
  const std::string text = host_check_json({cell(10.5, 8, 11)});
  const auto read = host_cells_from_json(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(host_check_json(*read), text);
  EXPECT_FALSE(host_cells_from_json("[{}]"));
}

}  // namespace
}  // namespace peal::cli
