#include <gtest/gtest.h>

#include <cstring>
#include <vendor/nvml.hpp>

namespace peal::vendor {
namespace {

int starts = 0;

int start() { return ++starts, kNvmlSuccess; }
int stop() { return --starts, kNvmlSuccess; }
int refuse() { return 999; }
int three(unsigned* count) { return *count = 3, kNvmlSuccess; }

NvmlDevice* handle(unsigned index) { return reinterpret_cast<NvmlDevice*>(static_cast<std::uintptr_t>(index) + 1); }
unsigned index_of(NvmlDevice* device) { return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)) - 1; }

// The second of three is lost from the bus.
int at(unsigned index, NvmlDevice** device) {
  if (index == 1) return 15;
  return *device = handle(index), kNvmlSuccess;
}
int pci(NvmlDevice* device, NvmlPci* out) {
  *out = {};
  out->domain = 1;
  out->bus = 0x17 + index_of(device);
  return kNvmlSuccess;
}
int name(NvmlDevice*, char* text, unsigned bytes) {
  std::memset(text, 'x', bytes);  // no end
  return kNvmlSuccess;
}
int five(NvmlDevice*, unsigned* value) { return *value = 5, kNvmlSuccess; }
// Links 0 and 1, of which the second sleeps; 2 is not there; 3 is beyond what the library knows.
int link_state(NvmlDevice*, unsigned link, unsigned* is_active) {
  if (link == 2) return kNvmlNotSupported;
  if (link > 2) return kNvmlInvalidArgument;
  return *is_active = link == 0 ? 1 : 0, kNvmlSuccess;
}
int link_peer(NvmlDevice*, unsigned, NvmlPci* out) {
  *out = {};
  out->bus = 0xab;
  return kNvmlSuccess;
}
int link_errors(NvmlDevice*, unsigned, NvmlLinkError kind, unsigned long long* count) {
  if (kind == NvmlLinkError::crc_data) return kNvmlNotSupported;
  return *count = kind == NvmlLinkError::replay ? 7 : 0, kNvmlSuccess;
}

NvmlTable table() {
  NvmlTable t;
  t.init = start;
  t.shutdown = stop;
  t.device_count = three;
  t.device_at = at;
  t.pci = pci;
  return t;
}

TEST(Nvml, ALibraryThatIsNotThereIsNoError) {
  const NvmlTable* loaded = load_nvml();
  EXPECT_EQ(loaded, load_nvml());
  if (loaded == nullptr) return;
  for (const NvmlGpu& gpu : read_gpus(*loaded)) EXPECT_EQ(gpu.pci.size(), 12u);
}

TEST(Nvml, WhatTheLibraryRefusesIsNotKnown) {
  starts = 0;
  const std::vector<NvmlGpu> gpus = read_gpus(table());
  EXPECT_EQ(starts, 0);
  ASSERT_EQ(gpus.size(), 2u);  // the lost one is left out
  EXPECT_EQ(gpus[0].pci, "0001:17:00.0");
  EXPECT_EQ(gpus[1].pci, "0001:19:00.0");
  EXPECT_TRUE(gpus[0].name.empty());
  EXPECT_FALSE(gpus[0].pcie_width);
  EXPECT_FALSE(gpus[0].performance_state);
  EXPECT_TRUE(gpus[0].links.empty());
  NvmlTable dead = table();
  dead.init = refuse;
  EXPECT_TRUE(read_gpus(dead).empty());
}

TEST(Nvml, LinksSayStatePeerAndErrors) {
  NvmlTable t = table();
  t.name = name;
  t.pcie_generation = t.most_pcie_width = five;
  t.link_state = link_state;
  t.link_peer = link_peer;
  t.link_errors = link_errors;
  const std::vector<NvmlGpu> gpus = read_gpus(t);
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, std::string(96, 'x'));
  EXPECT_EQ(gpus[0].pcie_generation, 5u);
  EXPECT_EQ(gpus[0].most_pcie_width, 5u);
  EXPECT_FALSE(gpus[0].most_pcie_generation);
  ASSERT_EQ(gpus[0].links.size(), 2u);
  const NvLinkFact& up = gpus[0].links[0];
  EXPECT_TRUE(up.is_active);
  EXPECT_EQ(up.peer, "0000:ab:00.0");
  EXPECT_EQ(up.replays, 7u);
  EXPECT_EQ(up.recoveries, 0u);
  EXPECT_FALSE(up.crc_data);
  EXPECT_FALSE(up.version);
  EXPECT_FALSE(gpus[0].links[1].is_active);
  EXPECT_TRUE(gpus[0].links[1].peer.empty());
}

}  // namespace
}  // namespace peal::vendor
