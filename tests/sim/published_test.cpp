// Tables of published measurements, and what the words in them mean.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <sim/case_words.hpp>
#include <sim/link_figures.hpp>
#include <sim/validate.hpp>
#include <topology/link_catalogue.hpp>
#include <topology/machine.hpp>
#include <topology/resources.hpp>

#include "source_tree.hpp"

namespace peal::sim {
namespace {

constexpr const char* kColumns =
    "case_id,machine,collective,bytes,time_us,algbw_GBps,busbw_GBps,total_ranks,in_or_out_of_place,quality,notes\n";

std::string message_of(const std::string& rows, const std::string& columns = kColumns) {
  const auto cases = read_published_text(columns + rows, "t.csv");
  return cases ? std::string("read") : cases.error().message;
}

PublishedCase machine(const std::string& words, int ranks = 0, const std::string& environment = {}, const std::string& inter_link = {}) {
  PublishedCase c;
  c.id = c.label = "case";
  c.machine = words;
  c.ranks = ranks;
  c.environment = environment;
  c.inter_link = inter_link;
  return c;
}

/// GB/s of the NICs that a node is plugged in with.
std::vector<double> nics_of(const PublishedCase& published) {
  const auto placed = place_case(published, {});
  EXPECT_TRUE(placed) << placed.error().message;
  std::vector<double> rates;
  if (placed)
    for (const topology::Device& d : placed->cluster.machine().devices())
      if (d.rail >= 0) rates.push_back(std::round(d.port->bandwidth.gigabytes() * 1e3) / 1e3);
  return rates;
}

TEST(Published, RowsOfOneRunAreOneCase) {
  const auto cases = read_published_text(std::string(kColumns) +
                                             "a,dgx-a100:1,all_reduce,1M,100,10.49,18.35,8,out,good,\n"
                                             "b,dgx-h100:1,alltoall,64,20,,,8,,,\n"
                                             "a,dgx-a100:1,all_reduce,2M,,20.97,,8,in-place,degraded,one slow link\n"
                                             "a,dgx-a100:2,all_reduce,2M,90,,,16,out,good,\n",
                                         "t.csv");
  ASSERT_TRUE(cases) << cases.error().message;
  ASSERT_EQ(cases->size(), 3u);
  const PublishedCase& a = (*cases)[0];
  ASSERT_EQ(a.rows.size(), 2u);
  EXPECT_EQ(a.rows[0].set_apart, "");
  EXPECT_NEAR(a.rows[1].time_us, 100, 0.1) << "from algbw";
  EXPECT_TRUE(a.rows[1].is_in_place);
  EXPECT_EQ(a.rows[1].set_apart, "degraded: one slow link");
  EXPECT_EQ((*cases)[1].collective, Collective::all_to_all);
  std::set<std::string> labels;
  for (const PublishedCase& c : *cases) labels.insert(c.label);
  EXPECT_EQ(labels.size(), 3u) << "two runs share an id";
}

TEST(Published, FiguresThatContradictEachOtherAreSetApart) {
  const auto cases = read_published_text(std::string(kColumns) +
                                             "a,dgx-a100:1,all_reduce,1M,100,104.9,18.35,8,out,good,\n"
                                             "a,dgx-a100:1,all_reduce,1M,100,10.49,10.49,8,out,good,\n"
                                             "a,dgx-a100:1,all_reduce,8,20,0.00,0.00,8,out,good,\n",
                                         "t.csv");
  ASSERT_TRUE(cases) << cases.error().message;
  const auto& rows = (*cases)[0].rows;
  EXPECT_NE(rows[0].set_apart.find("algbw_GBps says 104.9"), std::string::npos) << rows[0].set_apart;
  EXPECT_NE(rows[1].set_apart.find("busbw_GBps says 10.49"), std::string::npos) << rows[1].set_apart;
  EXPECT_EQ(rows[2].set_apart, "") << "small rates are printed as zero";
}

TEST(Published, NonsenseNamesFileLineColumnAndMend) {
  EXPECT_NE(message_of("a,dgx-a100:1,all_reduce,-8,1,,,8,out,good,\n").find("t.csv:2: bytes is '-8'"), std::string::npos);
  EXPECT_NE(message_of("a,dgx-a100:1,all_reduce,8,nan,,,8,out,good,\n").find("t.csv:2: time_us is 'nan'"), std::string::npos);
  EXPECT_NE(message_of("a,dgx-a100:1,all_reduce,8,0,,,8,out,good,\n").find("a time above zero"), std::string::npos);
  EXPECT_NE(message_of("a,dgx-a100:1,all_reduce,8,,,,8,out,good,\n").find("a time in microseconds belongs there"), std::string::npos);
  EXPECT_NE(message_of("a,dgx-a100:1,all_red,8,1,,,8,out,good,\n").find("collective is 'all_red'"), std::string::npos);
  EXPECT_NE(message_of("a,dgx-a100:1,all_reduce,8,1,,,8.5,out,good,\n").find("total_ranks is '8.5'"), std::string::npos);
  EXPECT_NE(message_of("a,dgx-a100:1,all_reduce,8,1,,,8,sideways,good,\n").find("write in or out"), std::string::npos);
  EXPECT_NE(message_of(",dgx-a100:1,all_reduce,8,1,,,8,out,good,\n").find("case_id is ''"), std::string::npos);
  EXPECT_NE(message_of("").find("columns and no rows"), std::string::npos);
  EXPECT_NE(message_of("", "case_id,machine,bytes,time_us\n").find("t.csv:1: no column 'collective'"), std::string::npos);
  EXPECT_NE(message_of("", "case_id,machine,collective,bytes\n").find("no column 'time_us'"), std::string::npos);
  EXPECT_NE(read_published_file("/no/such.csv").error().message.find("cannot read /no/such.csv"), std::string::npos);
}

TEST(Published, SeveralTablesCountAsOneAndNotesAddToThem) {
  const std::string row = "two,dgx-a100:1 (2 GPUs),all_reduce,8,10,,,2,,,\n";
  auto cases = *read_published_text(kColumns + row, "a.csv");
  add_cases(cases, *read_published_text(kColumns + row, "b.csv"));
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_NE(cases[0].label, cases[1].label);
  ASSERT_TRUE(add_notes_text(cases, "case_id,notes,not_fitted,source\ntwo,one process,odd,here\nother,bf16,,\n", "notes.csv"));
  EXPECT_TRUE(read_case_words(cases[1])->options.one_process);
  EXPECT_EQ(cases[0].not_fitted, "odd");
  const auto message = [&](const char* text) {
    const Status status = add_notes_text(cases, text, "notes.csv");
    return status ? std::string("read") : status.error().message;
  };
  EXPECT_NE(message("case_id,source\ntwo,here\n").find("notes.csv:1: no column 'notes'"), std::string::npos);
  EXPECT_NE(message("case_id,notes\ntwo,\n").find("notes.csv:2"), std::string::npos);
  ASSERT_TRUE(add_notes_text(cases, "case_id,notes\ntwo,one moon\n", "notes.csv"));
  EXPECT_NE(read_case_words(cases[0]).error().message.find("'one moon' of the notes of two"), std::string::npos);
}

TEST(CaseWords, TheMachineColumnSaysGpusNetworkAndWhatIsForced) {
  const auto words =
      read_case_words(machine("dgx-h100:2 (4 of 8 GPUs, NVLS off, 2x 200Gb/s HDR per node, P2P off and NCCL_MIN_NCHANNELS=16)"));
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_EQ(words->machine, "dgx-h100");
  EXPECT_EQ(words->copies, 2);
  EXPECT_EQ(words->gpus, 4);
  EXPECT_EQ(words->network.technology, "infiniband");
  EXPECT_EQ(words->network.nics, 2);
  EXPECT_EQ(words->network.gbps, 200);
  EXPECT_TRUE(words->options.is_nvls_off);
  EXPECT_TRUE(words->options.is_p2p_off);
  EXPECT_EQ(words->options.channels, 16);
  EXPECT_FALSE(read_case_words(machine("dgx-h100:1 (PCIe only)"))->has_nvlink);
  EXPECT_EQ(read_case_words(machine("x:4 (16 GPUs in total)"))->gpus_all, 16);
  EXPECT_EQ(read_case_words(machine("x:4 (one process, fp16, tree)"))->type, DataType::f16);
  EXPECT_EQ(read_case_words(machine("x"))->copies, 0);
}

TEST(CaseWords, APhraseThatIsNotUnderstoodIsNamed) {
  for (const char* words :
       {"dgx-h100:1 (water cooled)", "dgx-h100:1 (3 chickens)", "dgx-h100:1 (2x)", "dgx-h100:zero", "dgx-h100:0", ":2", "two words:1"}) {
    const auto read = read_case_words(machine(words));
    ASSERT_FALSE(read) << words;
    EXPECT_NE(read.error().message.find('\''), std::string::npos) << read.error().message;
  }
}

TEST(CaseWords, TheEnvironmentForcesOrBecomesARemark) {
  PublishedCase c =
      machine("dgx-h100:1", 8, "NCCL_ALGO=Ring NCCL_PROTO=Simple,NCCL_NVLS_ENABLE=0; one process -g 8; NCCL_DEBUG=INFO; FOO=1; bf16");
  c.software = "NCCL 2.26.2, CUDA 12";
  const auto words = read_case_words(c);
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_EQ(words->options.algorithm, "Ring");
  EXPECT_EQ(words->options.protocol, "Simple");
  EXPECT_TRUE(words->options.is_nvls_off);
  EXPECT_TRUE(words->options.one_process);
  EXPECT_EQ(words->type, DataType::bf16);
  EXPECT_EQ(words->options.version, "2.26.2");
  ASSERT_EQ(words->remarks.size(), 1u);
  EXPECT_NE(words->remarks[0].find("'FOO=1'"), std::string::npos);
  EXPECT_FALSE(read_case_words(machine("x:1", 8, "1 GPU per process"))->options.one_process);
  EXPECT_EQ(read_case_words(machine("x:1", 8, "NCCL_TREE_THRESHOLD=0"))->options.algorithm, "Ring");
  EXPECT_EQ(read_case_words(machine("x:2", 16, "NET/Socket"))->network.technology, "ethernet");
  EXPECT_EQ(read_case_words(machine("x:2", 16, "100 calls"))->options.calls, 100);
  const auto sums = place_case(machine("dgx-h100:2", 16, "NCCL_COLLNET_ENABLE=1"), {});
  ASSERT_FALSE(sums);
  EXPECT_NE(sums.error().message.find("SHARP"), std::string::npos) << sums.error().message;
  EXPECT_TRUE(place_case(machine("perlmutter:2", 8, "NCCL_COLLNET_ENABLE=1"), {})) << "Slingshot has nothing that would sum";
  EXPECT_TRUE(read_case_words(machine("x:2", 16, "NCCL_NET_GDR_LEVEL=LOC"))->options.is_gdr_off);
  EXPECT_TRUE(read_case_words(machine("x:2 (1 GPU a node, no GPUDirect)"))->options.is_gdr_off);
}

TEST(CaseWords, NetworksAreReadWordByWord) {
  const auto is = [](const char* text, const char* technology, int nics, double gbps) {
    const auto words = read_network_words(text, true);
    return words && words->technology == technology && words->nics == nics && words->gbps == gbps;
  };
  EXPECT_TRUE(is("EFA", "efa", 0, 0));
  EXPECT_TRUE(is("1x400G RoCE a node", "roce", 1, 400));
  EXPECT_TRUE(is("8 x 200 Gb/s InfiniBand per node", "infiniband", 8, 200));
  EXPECT_TRUE(is("1 HDR NIC a node", "infiniband", 1, 200));
  EXPECT_TRUE(is("2 NICs", "", 2, 0));
  EXPECT_TRUE(is("TCP sockets over ENA", "ethernet", 0, 0));
  EXPECT_TRUE(is("50 GB/s RoCE", "roce", 0, 400)) << "bytes";
  EXPECT_FALSE(read_network_words("2 GPUs", true));
  EXPECT_FALSE(read_network_words("8", true));
  EXPECT_FALSE(read_network_words("", true));
}

TEST(CaseWords, RanksAreSpreadOverTheNodes) {
  const auto placed = place_case(machine("dgx-h100:2 (2 GPUs a node)"), {});
  ASSERT_TRUE(placed) << placed.error().message;
  ASSERT_EQ(placed->device_of_rank.size(), 4u);
  EXPECT_EQ(placed->cluster.id_of(placed->device_of_rank[1]), "n0/gpu1");
  EXPECT_EQ(placed->cluster.id_of(placed->device_of_rank[2]), "n1/gpu0");
  EXPECT_EQ(placed->words.options.whose, Library::nccl);
  EXPECT_EQ(place_case(machine("mi300x-8:1"), {})->words.options.whose, Library::rccl);
  EXPECT_EQ(place_case(machine("atlas-800-a2:1"), {})->words.options.whose, Library::hccl);
  for (const PublishedCase& c : {machine("dgx-h100:2", 17), machine("dgx-h100:2 (1 GPU a node)", 16), machine("dgx-h199:2"),
                                 machine("dgx-h100:1 (1 GPU)"), machine("dgx-h100:2 (99 NICs)"), machine("dgx-h100:2 (SHARP)")})
    EXPECT_FALSE(place_case(c, {})) << c.machine;
}

TEST(CaseWords, TheNetworkOfTheMachineIsReplacedOnlyWhereItDiffers) {
  EXPECT_EQ(nics_of(machine("dgx-h100:2")), std::vector<double>(8, 50));
  EXPECT_EQ(nics_of(machine("dgx-h100:2", 16, "", "8x 400Gb/s InfiniBand per node")), std::vector<double>(8, 50));
  EXPECT_EQ(nics_of(machine("dgx-h100:2", 16, "", "8x 200Gb/s InfiniBand per node")), std::vector<double>(8, 25));
  EXPECT_EQ(nics_of(machine("dgx-h100:2 (1 GPU and 1x400G RoCE a node)")), std::vector<double>(1, 50));
  EXPECT_EQ(nics_of(machine("dgx-spark:2", 2, "", "1x 200Gb/s RoCE (PCIe-limited)")).size(), 2u) << "two halves of one port";
  EXPECT_EQ(nics_of(machine("pcie4-rtx4090x4:2 (25G Ethernet)")), std::vector<double>(1, 3.125)) << "none in the catalogue";
  const auto tcp = place_case(machine("aws-g4dn:2 (1 GPU a node, TCP)"), {});
  ASSERT_TRUE(tcp) << tcp.error().message;
  EXPECT_EQ(tcp->cluster.machine().device(tcp->cluster.machine().find("efa0")).port->scope, "tcp");
}

TEST(CaseWords, TheNicThatStaysIsTheGpusOwn) {
  PublishedCase c = machine("dgx-h100:2 (1 GPU a node, 1 NIC)");
  const auto placed = place_case(c, {});
  ASSERT_TRUE(placed) << placed.error().message;
  const auto full = topology::Resources(*topology::build_cluster("dgx-h100", 2));
  const auto narrow = topology::Resources(topology::Cluster(placed->cluster));
  EXPECT_EQ(narrow.nic_of(placed->device_of_rank[0]), full.nic_of(placed->device_of_rank[0]));
}

TEST(CaseWords, WithoutNvlinkGpusTalkOverPcie) {
  const auto placed = place_case(machine("dgx-h100:1 (PCIe only)"), {});
  ASSERT_TRUE(placed) << placed.error().message;
  const auto resources = topology::Resources(topology::Cluster(placed->cluster));
  EXPECT_EQ(resources.route(placed->device_of_rank[0], placed->device_of_rank[7]).wires, 0);
}

TEST(CaseWords, EveryCaseOfTheCalibrationTableIsUnderstood) {
  const std::string path = test::in_source("../shared/data/measured/collectives.csv");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the table lies beside the project and is not here";
  const auto cases = read_published_file(path);
  ASSERT_TRUE(cases) << cases.error().message;
  for (const PublishedCase& c : *cases) {
    const auto placed = place_case(c, {});
    EXPECT_TRUE(placed) << c.id << ": " << (placed ? std::string() : placed.error().message);
    EXPECT_EQ(placed ? static_cast<int>(placed->device_of_rank.size()) : 0, c.ranks) << c.id;
  }
}

TEST(Validate, TheCalibrationTableIsPredictedAsWellAsIsSaid) {
  const std::string path = test::in_source("../shared/data/measured/collectives.csv");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the table lies beside the project and is not here";
  auto cases = read_published_file(path);
  ASSERT_TRUE(cases) << cases.error().message;
  const auto v = validate(path, *std::move(cases), {});
  ASSERT_TRUE(v) << v.error().message;
  for (const PredictedCase& c : v->cases) EXPECT_TRUE(c.why_not.empty()) << c.published.label << ": " << c.why_not;
  EXPECT_TRUE(violations(*v, Bounds()).empty()) << fmt::format("{}", fmt::join(violations(*v, Bounds()), "; "));
}

std::vector<LinkFigure> figures_of(const std::string& rows) {
  const std::string text = "case_id,quantity,direction,link,p2p_enabled,value_low,value_high,unit,quality\n" + rows;
  EXPECT_TRUE(is_link_table(text));
  auto figures = read_link_figures(text, "t.csv");
  EXPECT_TRUE(figures) << figures.error().message;
  return *std::move(figures);
}

TEST(LinkFigures, TheUsableRateOfTheWiresIsHeldAgainstTheRange) {
  const double wire = (*topology::link_generation("nvlink-4"))->usable.gigabytes();
  const auto figures = figures_of(
      "a,bandwidth,uni,NVLink4 x18 via NVSwitch3,yes,1,1000,GB/s,good\n"
      "a,bandwidth,bidir,NVLink4 x2,yes,1,2,GB/s,good\n"
      "b,bandwidth,uni,PCIe5 x16 via host,no,1000,2000,GB/s,good\n"
      "b,bandwidth,uni,PCIe5 x8,no,1,2,GB/s,degraded\n"
      "b,bandwidth,uni,via host,no,1,2,GB/s,good\n"
      "b,bandwidth,uni,NVLink99 x2,no,1,2,GB/s,good\n"
      "b,latency,uni,PCIe5 x16,no,1,2,us,good\n");
  EXPECT_NEAR(*figures[0].predicted, 18 * wire, 1e-9);
  EXPECT_EQ(figures[0].signed_error(), 0) << "inside the range";
  EXPECT_NEAR(figures[1].signed_error(), 2 * 2 * wire / 2 - 1, 1e-9) << "both directions, by the upper end";
  EXPECT_EQ(figures[2].generation, "pcie-5-x16");
  EXPECT_LT(figures[2].signed_error(), 0);
  EXPECT_EQ(figures[3].why_not, "degraded");
  for (std::size_t i = 4; i < 7; ++i) EXPECT_FALSE(figures[i].predicted || figures[i].why_not.empty()) << i;
  EXPECT_EQ(errors_of(figures).rows, 3);
}

TEST(LinkFigures, BothWaysThroughACpuAreLessThanTwice) {
  const double slot = (*topology::link_generation("pcie-4-x16"))->usable.gigabytes();
  const auto figures = figures_of(
      "a,bandwidth,bidir,PCIe4 x16 via host,no,1,2,GB/s,good\n"
      "a,bandwidth,bidir,PCIe4 x16 switch,yes,1,2,GB/s,good\n");
  EXPECT_NEAR(*figures[0].predicted, 2 * slot * topology::pcie_both_ways_through_cpu(), 1e-9);
  EXPECT_NEAR(*figures[1].predicted, 2 * slot, 1e-9);
  EXPECT_LT(topology::pcie_both_ways_through_cpu(), 0.7);
}

TEST(LinkFigures, NonsenseNamesFileLineColumnAndMend) {
  const auto message = [](const std::string& row) {
    const auto figures = read_link_figures("case_id,quantity,link,value_low,value_high\n" + row, "t.csv");
    return figures ? std::string("read") : figures.error().message;
  };
  EXPECT_NE(message("a,bandwidth,PCIe5 x16,x,2\n").find("t.csv:2: value_low is 'x'"), std::string::npos);
  EXPECT_NE(message("a,bandwidth,PCIe5 x16,3,2\n").find("exchange the two"), std::string::npos);
  EXPECT_NE(message("").find("no rows"), std::string::npos);
  EXPECT_FALSE(is_link_table(kColumns));
}

}  // namespace
}  // namespace peal::sim
