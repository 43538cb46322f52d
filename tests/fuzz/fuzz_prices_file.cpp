// Price files: any bytes give prices or one sentence.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <training/cost.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto prices = peal::training::read_prices_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!prices) {
    if (prices.error().message.empty()) std::abort();
    return 0;
  }
  peal::training::Job job;
  job.machine = "dgx-a100";
  job.gpu = "A100-SXM4";
  job.nodes = 4;
  job.gpus = 32;
  job.network_ports = 8;
  job.port = "infiniband-200";
  job.hours = 10;
  const peal::training::JobCost cost = peal::training::cost_of(job, *prices);
  if (peal::training::cost_text(cost, *prices, {20260101}).empty()) std::abort();
  return 0;
}
