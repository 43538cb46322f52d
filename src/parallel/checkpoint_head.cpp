#include <algorithm>
#include <base/text.hpp>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <parallel/checkpoint.hpp>
#include <parallel/gradient_check.hpp>

namespace peal::parallel {

namespace {

constexpr std::string_view kFirstLine = "peal-checkpoint 1";
constexpr std::pair<Kept, std::string_view> kKeptKinds[] = {
    {Kept::parameter, "parameter"}, {Kept::first_moment, "first"}, {Kept::second_moment, "second"}};
constexpr std::string_view kLastLine = "\ndata\n";
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

constexpr std::size_t kPartBytes = 1 << 20;
constexpr std::size_t kMostHeadBytes = kMostTensors * 128;  // a line has a name of ours and a number

std::string_view word_of(Kept kept) {
  for (const auto& [kind, word] : kKeptKinds)
    if (kind == kept) return word;
  return {};
}

bool read_number(std::string_view word, std::int64_t& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && number >= 0 && number <= kMostElements;
}

bool read_numbers(const std::vector<std::string_view>& words, std::initializer_list<std::int64_t*> numbers) {
  if (words.size() != numbers.size() + 1) return false;
  std::size_t at = 1;
  for (std::int64_t* number : numbers)
    if (!read_number(words[at++], *number)) return false;
  return true;
}

bool read_tensor(const std::vector<std::string_view>& words, CheckpointTensor& tensor) {
  if (words.size() != 4 || !read_number(words[3], tensor.elements)) return false;
  for (const auto& [kind, word] : kKeptKinds) {
    if (word != words[1]) continue;
    tensor.kept = kind;
    tensor.name = words[2];
    return true;
  }
  return false;
}

// Data lie one behind the other behind the head.
void place(CheckpointHead& head, std::size_t head_bytes) {
  auto offset = static_cast<std::int64_t>(head_bytes);
  for (CheckpointTensor& tensor : head.tensors) {
    tensor.offset = offset;
    offset += tensor.elements * static_cast<std::int64_t>(sizeof(float));
  }
  head.file_bytes = offset;
}

}  // namespace

CheckpointHead checkpoint_head(const training::Transformer& s, std::int64_t steps) {
  CheckpointHead head{s.layers, s.hidden, s.heads, s.ffn, s.vocab, s.positions, s.experts.count, s.experts.chosen, steps, {}, 0};
  for (const auto& [kept, word] : kKeptKinds)
    for (const ParameterSpec& spec : all_parameters_of(s)) head.tensors.push_back({kept, spec.name, spec.elements(), 0});
  place(head, head_text(head).size());
  return head;
}

std::string head_text(const CheckpointHead& head) {
  std::string text =
      fmt::format("{}\nshape {} {} {} {} {} {}\n", kFirstLine, head.layers, head.hidden, head.heads, head.ffn, head.vocab, head.positions);
  if (head.experts > 0) text += fmt::format("experts {} {}\n", head.experts, head.chosen);
  text += fmt::format("steps {}\n", head.steps);
  for (const CheckpointTensor& tensor : head.tensors)
    text += fmt::format("tensor {} {} {}\n", word_of(tensor.kept), tensor.name, tensor.elements);
  return text + "data\n";
}

Result<CheckpointHead> parse_head(std::string_view text, const std::string& where) {
  if (text.substr(0, text.find('\n')) != kFirstLine)
    return fail(ErrorCode::invalid_argument, "{} is no checkpoint of this version; its first line should be \"{}\"", where, kFirstLine);
  CheckpointHead head;
  std::size_t at = std::min(text.size(), kFirstLine.size() + 1);
  bool has_shape = false, has_steps = false;
  for (int line_number = 2; at < text.size(); ++line_number) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::vector<std::string_view> words = words_of(line);
    const std::string_view what = words.empty() ? std::string_view() : words[0];
    bool is_right = false;
    if (what == "data" && has_shape && has_steps) {
      place(head, at);
      return head;
    }
    if (what == "shape")
      is_right = has_shape = read_numbers(words, {&head.layers, &head.hidden, &head.heads, &head.ffn, &head.vocab, &head.positions});
    if (what == "experts") is_right = read_numbers(words, {&head.experts, &head.chosen});
    if (what == "steps") is_right = has_steps = read_numbers(words, {&head.steps});
    if (what == "tensor" && head.tensors.size() < kMostTensors) is_right = read_tensor(words, head.tensors.emplace_back());
    if (!is_right) return fail(ErrorCode::corrupt, "{}, line {}: this is no line of a checkpoint; take another one", where, line_number);
  }
  return fail(ErrorCode::corrupt, "{} ends before its data: it was cut off; take another checkpoint", where);
}

Result<CheckpointHead> read_head(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::invalid_argument, "cannot read the checkpoint {}: {}", path, errno_text(errno));
  std::string text;
  // In parts, as far as the line that ends it: what is no checkpoint ends with its first part.
  for (std::size_t looked = 0; text.size() < kMostHeadBytes; looked = text.size() - std::min(text.size(), kLastLine.size())) {
    const std::size_t before = text.size();
    text.resize(before + kPartBytes);
    file.read(text.data() + before, kPartBytes);
    text.resize(before + static_cast<std::size_t>(file.gcount()));
    if (file.bad()) return fail(ErrorCode::invalid_argument, "cannot read the checkpoint {}: {}", path, errno_text(errno));
    if (!file || !text.starts_with(kFirstLine) || text.find(kLastLine, looked) != std::string::npos) break;
  }
  return parse_head(text, path);
}

}  // namespace peal::parallel
