// Sums of figures with names in brackets; the grammar stands in topology/claims.hpp.
#include <charconv>
#include <cmath>
#include <topology/claims.hpp>

namespace peal::topology {
namespace {

constexpr std::size_t kMostCharacters = 1000;
constexpr int kMostLevels = 64;

class Reader {
 public:
  Reader(std::string_view text, const std::function<Result<double>(std::string_view)>& value_of, std::string& computed)
      : text_(text), value_of_(value_of), computed_(computed) {}

  Result<double> read() {
    PEAL_ASSIGN(const double value, sum(0));
    if (at_ != text_.size()) return refuse("nothing more was expected");
    if (!std::isfinite(value)) return fail(ErrorCode::corrupt, "'{}' has no finite value", text_);
    return value;
  }

 private:
  tl::unexpected<Failure> refuse(std::string_view why) const {
    return fail(ErrorCode::corrupt, "'{}' is no formula: {} at character {}", text_, why, at_ + 1);
  }
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void take(std::string_view shown) {
    ++at_;
    computed_ += shown;
  }

  Result<double> sum(int level) {
    PEAL_ASSIGN(double value, product(level));
    while (next() == '+' || next() == '-') {
      const bool is_plus = next() == '+';
      take(is_plus ? " + " : " - ");
      PEAL_ASSIGN(const double more, product(level));
      value += is_plus ? more : -more;
    }
    return value;
  }

  Result<double> product(int level) {
    PEAL_ASSIGN(double value, factor(level));
    while (next() == '*' || next() == '/') {
      const bool is_times = next() == '*';
      take(is_times ? " x " : " / ");
      PEAL_ASSIGN(const double more, factor(level));
      value = is_times ? value * more : value / more;
    }
    return value;
  }

  Result<double> factor(int level) {
    if (level > kMostLevels) return refuse("too many brackets");
    if (next() == '(') {
      take("(");
      PEAL_ASSIGN(const double value, sum(level + 1));
      if (next() != ')') return refuse("')' is missing");
      take(")");
      return value;
    }
    if (next() == '[') {
      const std::size_t end = text_.find(']', at_);
      if (end == std::string_view::npos) return refuse("']' is missing");
      PEAL_ASSIGN(const double value, value_of_(text_.substr(at_ + 1, end - at_ - 1)));
      at_ = end + 1;
      computed_ += fmt::format("{:.6g}", value);
      return value;
    }
    next();
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{}) return refuse("a number, a [name] or '(' was expected");
    at_ = static_cast<std::size_t>(end - text_.data());
    computed_ += fmt::format("{:.6g}", value);
    return value;
  }

  std::string_view text_;
  const std::function<Result<double>(std::string_view)>& value_of_;
  std::string& computed_;
  std::size_t at_ = 0;
};

}  // namespace

Result<double> evaluate(std::string_view formula, const std::function<Result<double>(std::string_view)>& value_of, std::string& computed) {
  if (formula.size() > kMostCharacters)
    return fail(ErrorCode::corrupt, "a formula has {} characters; at most {} are read", formula.size(), kMostCharacters);
  computed.clear();
  return Reader(formula, value_of, computed).read();
}

}  // namespace peal::topology
