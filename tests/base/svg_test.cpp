#include <gtest/gtest.h>

#include <base/svg.hpp>

namespace peal {
namespace {

TEST(Svg, TextIsEscaped) {
  EXPECT_EQ(svg_escape("a<b> & \"c\"\n"), "a&lt;b&gt; &amp; &quot;c&quot; ");
  EXPECT_NE(svg_text(1, 2, "x < y").find(">x &lt; y<"), std::string::npos);
}

TEST(Svg, TextThatDoesNotFitIsCutBetweenLetters) {
  EXPECT_EQ(svg_fit("short", 100, 10), "short");
  const std::string cut = svg_fit("größenordnungen", 50, 10);
  EXPECT_TRUE(cut.ends_with("…")) << cut;
  EXPECT_LE(svg_text_width(cut, 10), 50);
  for (double width = 10; width < 100; width += 3) {
    // No letter of two bytes is cut in its middle.
    const std::string text = svg_fit("ößößößößöß", width, 10);
    EXPECT_EQ(text.size() % 2, text.ends_with("…") ? 1u : 0u) << text;
  }
}

TEST(Svg, WidthsCountLettersNotBytes) { EXPECT_DOUBLE_EQ(svg_text_width("öö", 10), svg_text_width("oo", 10)); }

}  // namespace
}  // namespace peal
