#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <topology/hostlist.hpp>

namespace peal::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> expanded(std::string_view text) {
  const auto names = expand_hostlist(text);
  EXPECT_TRUE(names) << text << ": " << names.error().message;
  return names ? *names : std::vector<std::string>();
}

std::string refused(std::string_view text) {
  const auto names = expand_hostlist(text);
  EXPECT_FALSE(names) << text;
  return names ? std::string() : names.error().message;
}

TEST(Hostlist, PaddingOrderAndSeveralItemsAreKept) {
  EXPECT_THAT(expanded("alone"), ElementsAre("alone"));
  EXPECT_THAT(expanded("node[08-11]"), ElementsAre("node08", "node09", "node10", "node11"));
  EXPECT_THAT(expanded("tux[0-2,12,18-19]"), ElementsAre("tux0", "tux1", "tux2", "tux12", "tux18", "tux19"));
  EXPECT_THAT(expanded("sw[0],grp[3-4],last"), ElementsAre("sw0", "grp3", "grp4", "last"));
  EXPECT_THAT(expanded("d[136,128]"), ElementsAre("d136", "d128"));
  EXPECT_THAT(expanded("a[1-2]-ib"), ElementsAre("a1-ib", "a2-ib"));
  EXPECT_THAT(expanded("a,,b,"), ElementsAre("a", "b"));
  EXPECT_TRUE(expanded("").empty());
}

TEST(Hostlist, SeveralBracketsMultiplyTheLastOneFastest) {
  EXPECT_THAT(expanded("r[1-2]n[01-02]"), ElementsAre("r1n01", "r1n02", "r2n01", "r2n02"));
}

TEST(Hostlist, WhatIsNoListSaysWhere) {
  EXPECT_THAT(refused("node[1-"), HasSubstr("not closed"));
  EXPECT_THAT(refused("node1]"), HasSubstr("not opened"));
  EXPECT_THAT(refused("node[5-3]"), HasSubstr("backwards"));
  EXPECT_THAT(refused("ok,node[a-b]"), HasSubstr("character 8"));
  EXPECT_THAT(refused("node 1"), HasSubstr("a blank inside a name"));
  EXPECT_THAT(refused("a[1-2] b[1-2]"), HasSubstr("a blank inside a name"));
  EXPECT_THAT(expanded(" a , b[1, 2] "), ElementsAre("a", "b1", "b2"));
  EXPECT_THAT(refused("node[]"), HasSubstr("no range"));
  EXPECT_THAT(refused("node[1234567890123456789]"), HasSubstr("no range"));
}

TEST(Hostlist, ShortTextsCannotAskForMuch) {
  EXPECT_EQ(expanded("n[1-100000]").size(), 100'000u);
  EXPECT_THAT(refused("n[0-100000]"), HasSubstr("100,000 names"));
  EXPECT_THAT(refused("a[1-1000]b[1-1000]c[1-1000]"), HasSubstr("100,000 names"));
  EXPECT_THAT(refused("a[1-999999999999999999]"), HasSubstr("100,000 names"));
  EXPECT_THAT(refused("n[1-60000],m[1-60000]"), HasSubstr("100,000 names"));
  EXPECT_THAT(refused(std::string(300, 'x')), HasSubstr("256 bytes"));
}

TEST(Hostlist, FoldsNeighboursAndKeepsTheOrder) {
  EXPECT_EQ(fold_hostlist(std::vector<std::string>{"node01", "node02", "node03", "node07"}), "node[01-03,07]");
  EXPECT_EQ(fold_hostlist(std::vector<std::string>{"n9", "n10", "n11"}), "n[9-11]");
  EXPECT_EQ(fold_hostlist(std::vector<std::string>{"b2", "b1", "a1"}), "b[2,1],a1");
  EXPECT_EQ(fold_hostlist(std::vector<std::string>{"login"}), "login");
  EXPECT_EQ(fold_hostlist(std::vector<std::string>{"a1-ib", "a2-ib"}), "a[1-2]-ib");
  EXPECT_EQ(fold_hostlist({}), "");
}

TEST(Hostlist, WhatWasFoldedExpandsToTheSameNames) {
  const std::vector<std::vector<std::string>> lists = {{"node099", "node100", "node101", "node1"},
                                                       {"x1", "x01", "x2", "x02"},
                                                       {"r1n1", "r1n2", "r2n1"},
                                                       {"7", "8", "9", "10"},
                                                       {"same3", "same3", "same4"},
                                                       {"n999999999999999999", "n1000000000000000000"},
                                                       {"a-1", "a-2", "b"},
                                                       {"k9", "k09", "k10"}};
  for (const auto& names : lists) EXPECT_EQ(expanded(fold_hostlist(names)), names) << fold_hostlist(names);
}

}  // namespace
}  // namespace peal::topology
