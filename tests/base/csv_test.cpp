#include <gtest/gtest.h>

#include <base/csv.hpp>

namespace peal {
namespace {

std::string message_of(std::string_view text) {
  const auto table = read_csv_text(text, "t.csv");
  return table ? std::string("read") : table.error().message;
}

TEST(Csv, QuotesCommasEndsOfLinesAndAByteOrderMarkAreRead) {
  const auto table = read_csv_text(
      "\xef\xbb\xbf"
      "a, b \r\n\"1,5\",\"say \"\"x\"\"\"\r\n\r\n\"two\nlines\",\n",
      "t.csv");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->columns, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->rows[0].cells, (std::vector<std::string>{"1,5", "say \"x\""}));
  EXPECT_EQ(table->rows[0].line, 2);
  EXPECT_EQ(table->rows[1].cells, (std::vector<std::string>{"two\nlines", ""}));
  EXPECT_EQ(table->rows[1].line, 4);
  EXPECT_EQ(table->column("b"), 1u);
  EXPECT_FALSE(table->column("c"));
}

TEST(Csv, WhatCannotBeATableNamesFileLineAndMend) {
  EXPECT_NE(message_of("").find("t.csv is empty"), std::string::npos);
  EXPECT_NE(message_of("a,b\n1,2\n1,2,3\n").find("t.csv:3: 3 cells, but line 1 names 2 columns"), std::string::npos);
  EXPECT_NE(message_of("a,b\n1,\"2\n3,4\n").find("t.csv:2: a quote is opened and never closed"), std::string::npos);
  EXPECT_NE(message_of("a,b\n1,\"2\"x\n").find("t.csv:2: text after a closing quote"), std::string::npos);
  EXPECT_NE(message_of("a;b\n1;2\n").find("t.csv:1: cells are separated by semicolons"), std::string::npos);
  EXPECT_NE(message_of("a,b,a\n").find("t.csv:1: there are two columns 'a'"), std::string::npos);
  EXPECT_NE(message_of(std::string_view("a\0b\n", 4)).find("is no text"), std::string::npos);
}

TEST(Csv, ACellIsWrittenSoThatItIsReadAgain) {
  for (const std::string cell : {"plain", "a,b", "say \"x\"", "two\nlines"}) {
    const auto table = read_csv_text("a,b\n" + csv_cell(cell) + ",1\n", "t.csv");
    ASSERT_TRUE(table) << table.error().message;
    EXPECT_EQ(table->rows[0].cells[0], cell);
  }
}

}  // namespace
}  // namespace peal
