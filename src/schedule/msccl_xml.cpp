#include <schedule/msccl_xml.hpp>

#include <base/names.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <pugixml.hpp>

#include "msccl_steps.hpp"

namespace peal::schedule {

namespace {

constexpr std::uint64_t kMostBytes = 64ULL << 20;
constexpr std::int64_t kMostGpus = 1024;
constexpr std::int64_t kMostChunks = 1 << 20;
constexpr std::int64_t kMostBlocks = 4096;
constexpr std::int64_t kMostSteps = 4'194'304;
constexpr std::int64_t kMostChannels = 256;
constexpr std::int64_t kMostChunksAStep = 65535;

std::size_t line_of(std::string_view text, std::size_t offset) {
  return 1 + static_cast<std::size_t>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size())), '\n'));
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

  Result<MscclPlan> read();

 private:
  // "plan.xml, line 12: gpu 3, thread block 1, step 4"
  std::string where(const pugi::xml_node& node) const {
    const std::string line =
        fmt::format("{}, line {}", origin_, line_of(text_, static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, node.offset_debug()))));
    return place_.empty() ? line : line + ": " + place_;
  }

  template <class Number = std::int64_t>
  Result<Number> number(const pugi::xml_node& node, const char* name, Number low, Number high, std::optional<Number> absent = {}) const {
    const pugi::xml_attribute attribute = node.attribute(name);
    if (!attribute) {
      if (absent) return *absent;
      return fail(ErrorCode::corrupt, "{}: <{}> has no attribute {}; is this an MSCCL algorithm?", where(node), node.name(), name);
    }
    const char* begin = attribute.value();
    const char* end = begin + std::strlen(begin);
    Number value{};
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || rest != end || value < low || value > high)
      return fail(ErrorCode::corrupt, "{}: {}=\"{}\" is not a number from {} to {}; correct the file", where(node), name,
                  std::string_view(begin).substr(0, 40), low, high);
    return value;
  }
  Result<char> buffer(const pugi::xml_node& node, const char* name) const {
    const std::string_view value = node.attribute(name).value();
    if (value == "i" || value == "input") return 'i';
    if (value == "o" || value == "output") return 'o';
    if (value == "s" || value == "scratch") return 's';
    return fail(ErrorCode::corrupt, "{}: {}=\"{}\" is not a buffer; it must be i, o or s", where(node), name, value.substr(0, 40));
  }

  Status head(const pugi::xml_node& algo);
  Status gpu(const pugi::xml_node& node);
  Status block(const pugi::xml_node& node, MscclGpu& gpu);
  Status step(const pugi::xml_node& node, const MscclGpu& gpu, MscclBlock& block);
  Status operands(const pugi::xml_node& node, const MscclGpu& gpu, MscclStep& step);
  Status operand(const pugi::xml_node& node, const MscclGpu& gpu, char buffer, std::int64_t at, std::int64_t count, const char* name) const;
  Status dependencies() const;

  std::string_view text_;
  std::string origin_;
  std::string place_;
  MscclFile file_;
  MscclPlan plan_;
  std::int64_t ranks_ = 0;
};

Result<Collective> collective_of(std::string_view name) {
  struct Known {
    std::string_view name;
    Collective collective;
  };
  constexpr Known kKnown[] = {
      {"allreduce", Collective::all_reduce},
      {"allgather", Collective::all_gather},
      {"reducescatter", Collective::reduce_scatter},
      {"reduce_scatter", Collective::reduce_scatter},
      {"alltoall", Collective::all_to_all},
      {"broadcast", Collective::broadcast},
      {"reduce", Collective::reduce},
      {"gather", Collective::gather},
      {"scatter", Collective::scatter},
  };
  std::string all;
  for (const Known& known : kKnown) {
    if (known.name == name) return known.collective;
    all += all.empty() ? "" : ", ";
    all += known.name;
  }
  return fail(ErrorCode::unsupported, "coll=\"{}\" cannot be imported; Peal knows the meaning of {}", name.substr(0, 40), all);
}

Status Reader::head(const pugi::xml_node& algo) {
  file_.origin = origin_;
  file_.name = std::string(std::string_view(algo.attribute("name").value()).substr(0, 200));
  if (file_.name.empty()) file_.name = "msccl";
  auto collective = collective_of(algo.attribute("coll").value());
  if (!collective) return fail(collective.error().code, "{}: {}", where(algo), collective.error().message);
  file_.collective = *collective;
  PEAL_ASSIGN(ranks_, number(algo, "ngpus", std::int64_t{1}, kMostGpus));
  PEAL_ASSIGN(const std::int64_t root, number(algo, "root", std::int64_t{0}, ranks_ - 1, std::optional<std::int64_t>(0)));
  file_.root = static_cast<std::int32_t>(root);
  plan_.protocol = algo.attribute("proto").value();
  if (plan_.protocol != "Simple" && plan_.protocol != "LL" && plan_.protocol != "LL128")
    return fail(ErrorCode::corrupt, "{}: proto=\"{}\" is not a protocol of MSCCL; it must be Simple, LL or LL128", where(algo),
                plan_.protocol.substr(0, 40));
  PEAL_ASSIGN(const std::int64_t channels, number(algo, "nchannels", std::int64_t{1}, kMostChannels));
  plan_.channels = static_cast<std::int32_t>(channels);
  PEAL_TRY(number(algo, "nchunksperloop", std::int64_t{1}, kMostChunks).map([](std::int64_t) {}));
  PEAL_ASSIGN(const std::int64_t in_place, number(algo, "inplace", std::int64_t{0}, std::int64_t{1}, std::optional<std::int64_t>(0)));
  plan_.in_place = in_place == 1;
  PEAL_ASSIGN(const std::int64_t out_of_place,
              number(algo, "outofplace", std::int64_t{0}, std::int64_t{1}, std::optional<std::int64_t>(1 - in_place)));
  plan_.out_of_place = out_of_place == 1;
  if (!plan_.in_place && !plan_.out_of_place)
    return fail(ErrorCode::corrupt, "{}: the plan serves neither calls in place nor others; set inplace or outofplace to 1", where(algo));
  using U = std::uint64_t;
  PEAL_ASSIGN(plan_.min_bytes, number<U>(algo, "minBytes", 0, ~U{0}, std::optional<U>(0)));
  PEAL_ASSIGN(plan_.max_bytes, number<U>(algo, "maxBytes", 0, ~U{0}, std::optional<U>(~U{0})));
  return {};
}

Status Reader::operand(const pugi::xml_node& node, const MscclGpu& gpu, char buffer, std::int64_t at, std::int64_t count,
                       const char* name) const {
  // In place, input and output may be one buffer under either name.
  const std::int64_t caller = std::max(gpu.input_chunks, gpu.output_chunks);
  const std::int64_t chunks = buffer == 's'    ? gpu.scratch_chunks
                              : plan_.in_place ? caller
                              : buffer == 'i'  ? gpu.input_chunks
                                               : gpu.output_chunks;
  if (at >= 0 && at + count <= chunks) return {};
  return fail(ErrorCode::corrupt, "{}: {}={} with cnt={} lies outside buffer {} of {} chunks; correct the file", where(node), name, at,
              count, buffer, chunks);
}

Status Reader::operands(const pugi::xml_node& node, const MscclGpu& gpu, MscclStep& step) {
  PEAL_ASSIGN(const std::int64_t count, number(node, "cnt", std::int64_t{1}, kMostChunksAStep));
  step.count = static_cast<std::int32_t>(count);
  if (reads_source(step.type)) {
    PEAL_ASSIGN(step.source, buffer(node, "srcbuf"));
    PEAL_ASSIGN(const std::int64_t at, number(node, "srcoff", std::int64_t{0}, kMostChunks));
    PEAL_TRY(operand(node, gpu, step.source, at, count, "srcoff"));
    step.source_at = static_cast<std::int32_t>(at);
  }
  if (writes_target(step.type)) {
    PEAL_ASSIGN(step.target, buffer(node, "dstbuf"));
    PEAL_ASSIGN(const std::int64_t at, number(node, "dstoff", std::int64_t{0}, kMostChunks));
    PEAL_TRY(operand(node, gpu, step.target, at, count, "dstoff"));
    step.target_at = static_cast<std::int32_t>(at);
  }
  return {};
}

Status Reader::step(const pugi::xml_node& node, const MscclGpu& gpu, MscclBlock& block) {
  if (static_cast<std::int64_t>(++plan_.steps) > kMostSteps)
    return fail(ErrorCode::unsupported, "{}: the plan has more than {} steps; import a smaller one", where(node), kMostSteps);
  PEAL_ASSIGN(const std::int64_t number_of_step, number(node, "s", std::int64_t{0}, kMostSteps));
  if (number_of_step != static_cast<std::int64_t>(block.steps.size()))
    return fail(ErrorCode::corrupt, "{}: step s={} stands where step {} belongs; number the steps of a thread block 0, 1, 2, ...",
                where(node), number_of_step, block.steps.size());
  constexpr std::string_view kTypes[] = {"s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"};
  const std::string_view type = node.attribute("type").value();
  const auto* known = std::find(std::begin(kTypes), std::end(kTypes), type);
  if (known == std::end(kTypes))
    return fail(ErrorCode::corrupt, "{}: step {} has the unknown type \"{}\"; MSCCL knows s, r, rcs, rrs, rrc, rrcs, cpy, re, nop",
                where(node), number_of_step, type.substr(0, 40));
  MscclStep step;
  step.type = static_cast<MscclType>(known - std::begin(kTypes));
  if ((receives(step.type) && block.recv < 0) || (sends(step.type) && block.send < 0))
    return fail(ErrorCode::corrupt, "{}: step {} ({}) needs a peer that its thread block does not have (send=\"{}\" recv=\"{}\")",
                where(node), number_of_step, type, block.send, block.recv);
  if (step.type != MscclType::nop) PEAL_TRY(operands(node, gpu, step));
  PEAL_ASSIGN(const std::int64_t after, number(node, "depid", std::int64_t{-1}, kMostBlocks, std::optional<std::int64_t>(-1)));
  PEAL_ASSIGN(const std::int64_t after_step, number(node, "deps", std::int64_t{-1}, kMostSteps, std::optional<std::int64_t>(-1)));
  step.after_block = static_cast<std::int32_t>(after);
  step.after_step = static_cast<std::int32_t>(after_step);
  PEAL_ASSIGN(const std::int64_t announces, number(node, "hasdep", std::int64_t{0}, std::int64_t{1}, std::optional<std::int64_t>(1)));
  step.announces = announces == 1;
  block.steps.push_back(step);
  return {};
}

Status Reader::block(const pugi::xml_node& node, MscclGpu& gpu) {
  const std::string outer = place_;
  PEAL_ASSIGN(const std::int64_t id, number(node, "id", std::int64_t{0}, kMostBlocks - 1));
  place_ = fmt::format("{}, thread block {}", outer, id);
  if (gpu.blocks.size() <= static_cast<std::size_t>(id)) gpu.blocks.resize(static_cast<std::size_t>(id) + 1);
  MscclBlock& block = gpu.blocks[static_cast<std::size_t>(id)];
  if (block.is_there)
    return fail(ErrorCode::corrupt, "{}: there are two thread blocks with this number; give each its own, from 0 without gaps",
                where(node));
  block.is_there = true;
  PEAL_ASSIGN(const std::int64_t to, number(node, "send", std::int64_t{-1}, ranks_ - 1, std::optional<std::int64_t>(-1)));
  PEAL_ASSIGN(const std::int64_t from, number(node, "recv", std::int64_t{-1}, ranks_ - 1, std::optional<std::int64_t>(-1)));
  PEAL_ASSIGN(const std::int64_t channel, number(node, "chan", std::int64_t{0}, kMostChannels - 1, std::optional<std::int64_t>(0)));
  block.send = static_cast<std::int32_t>(to);
  block.recv = static_cast<std::int32_t>(from);
  block.channel = static_cast<std::int32_t>(channel);
  for (const pugi::xml_node& child : node.children("step")) PEAL_TRY(step(child, gpu, block));
  place_ = outer;
  return {};
}

Status Reader::gpu(const pugi::xml_node& node) {
  PEAL_ASSIGN(const std::int64_t id, number(node, "id", std::int64_t{0}, ranks_ - 1));
  place_ = fmt::format("gpu {}", id);
  MscclGpu& gpu = file_.gpus[static_cast<std::size_t>(id)];
  if (gpu.is_there)
    return fail(ErrorCode::corrupt, "{}: there are two GPUs with this number; give each its own, 0 to {}", where(node), ranks_ - 1);
  gpu.is_there = true;
  PEAL_ASSIGN(const std::int64_t in, number(node, "i_chunks", std::int64_t{0}, kMostChunks));
  PEAL_ASSIGN(const std::int64_t out, number(node, "o_chunks", std::int64_t{0}, kMostChunks));
  PEAL_ASSIGN(const std::int64_t scratch, number(node, "s_chunks", std::int64_t{0}, kMostChunks, std::optional<std::int64_t>(0)));
  gpu.input_chunks = static_cast<std::int32_t>(in);
  gpu.output_chunks = static_cast<std::int32_t>(out);
  gpu.scratch_chunks = static_cast<std::int32_t>(scratch);
  for (const pugi::xml_node& child : node.children("tb")) PEAL_TRY(block(child, gpu));
  for (std::size_t b = 0; b < gpu.blocks.size(); ++b)
    if (!gpu.blocks[b].is_there)
      return fail(ErrorCode::corrupt, "{}: thread block {} is missing; number them from 0 without gaps", where(node), b);
  place_.clear();
  return {};
}

Status Reader::dependencies() const {
  for (std::size_t g = 0; g < file_.gpus.size(); ++g) {
    const auto& blocks = file_.gpus[g].blocks;
    for (std::size_t b = 0; b < blocks.size(); ++b)
      for (std::size_t s = 0; s < blocks[b].steps.size(); ++s) {
        const MscclStep& step = blocks[b].steps[s];
        if (step.after_block < 0) continue;
        const auto on = static_cast<std::size_t>(step.after_block);
        if (on < blocks.size() && step.after_step >= 0 && static_cast<std::size_t>(step.after_step) < blocks[on].steps.size()) continue;
        return fail(
            ErrorCode::corrupt,
            "{}: gpu {}, thread block {}, step {} waits for step {} of thread block {}, which does not exist; correct depid or deps",
            origin_, g, b, s, step.after_step, step.after_block);
      }
  }
  return {};
}

Result<MscclPlan> Reader::read() {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed)
    return fail(ErrorCode::corrupt, "{}, line {}: the XML is cut off or damaged at byte {} of {} ({}); fetch the file again", origin_,
                line_of(text_, static_cast<std::size_t>(parsed.offset)), parsed.offset, text_.size(), parsed.description());
  const pugi::xml_node algo = document.child("algo");
  if (!algo) {
    const std::string_view found = document.document_element().name();
    return fail(ErrorCode::corrupt, "{}: this is no MSCCL algorithm: the outermost element is <{}>, not <algo>; give a file of msccl-tools",
                origin_, found.substr(0, 40));
  }
  PEAL_TRY(head(algo));
  file_.gpus.resize(static_cast<std::size_t>(ranks_));
  for (const pugi::xml_node& child : algo.children("gpu")) PEAL_TRY(gpu(child));
  for (std::int64_t g = 0; g < ranks_; ++g)
    if (!file_.gpus[static_cast<std::size_t>(g)].is_there)
      return fail(ErrorCode::corrupt, "{}: the head promises {} GPUs, but gpu {} is missing; fetch the file again or correct ngpus",
                  origin_, ranks_, g);
  PEAL_TRY(dependencies());
  PEAL_TRY(translate(std::move(file_), plan_));
  return std::move(plan_);
}

}  // namespace

Result<MscclPlan> parse_msccl_xml(std::string_view text, std::string_view origin) {
  if (text.size() > kMostBytes)
    return fail(ErrorCode::unsupported, "{}: the file has {} bytes, more than the {} that a plan may have; is it an MSCCL algorithm?",
                origin, text.size(), kMostBytes);
  return Reader(text, origin).read();
}

Result<MscclPlan> read_msccl_plan(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return fail(ErrorCode::invalid_argument, "cannot open {}: {}; check the path", path, errno_text(errno));
  const std::streamoff size = file.tellg();
  if (size < 0 || size == std::numeric_limits<std::streamoff>::max())
    return fail(ErrorCode::invalid_argument, "cannot read {}: it is not a file; give the path of an MSCCL XML file", path);
  if (static_cast<std::uint64_t>(size) > kMostBytes)
    return fail(ErrorCode::unsupported, "{}: the file has {} bytes, more than the {} that a plan may have; is it an MSCCL algorithm?", path,
                size, kMostBytes);
  std::string text(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  file.read(text.data(), size);
  if (!file) return fail(ErrorCode::system, "cannot read {}: only {} of {} bytes came; try again", path, file.gcount(), size);
  return parse_msccl_xml(text, path);
}

Result<Schedule> read_msccl_xml(const std::string& path) {
  PEAL_ASSIGN(MscclPlan plan, read_msccl_plan(path));
  return std::move(plan.schedule);
}

}  // namespace peal::schedule
