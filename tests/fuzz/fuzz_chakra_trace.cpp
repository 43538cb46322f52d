// Execution traces of Chakra, as protobuf and as JSON.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <training/execution_trace.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peal::training;
  const auto trace = read_trace({reinterpret_cast<const char*>(data), size}, "fuzz.0.et");
  if (!trace && trace.error().message.empty()) std::abort();
  if (!trace || !check_order(*trace)) return 0;
  if (traces_text({*trace}).empty() || traces_json({*trace}).empty()) std::abort();
  const auto study = simulate_traces({*trace}, [](peal::Collective, double, const std::vector<int>&) -> peal::Result<peal::Nanoseconds> {
    return peal::Nanoseconds{1000};
  });
  if (!study && study.error().message.empty()) std::abort();
  return 0;
}
