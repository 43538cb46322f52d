#include <cstdio>

#include <topology/describe.hpp>

#include "import_fixtures.hpp"
#include "source_tree.hpp"

namespace peal::topology {
namespace {

using ::testing::HasSubstr;

TEST(Recognise, EveryFormIsToldFromItsContent) {
  const std::pair<const char*, FileForm> samples[] = {
      {"machine: dgx-a100\nnodes: 2\n", FileForm::peal_yaml},
      {"# a box\nname: x\ndevices:\n  - {id: a, kind: gpu}\n", FileForm::peal_yaml},
      {"{devices: [{id: a, kind: gpu}]}", FileForm::peal_yaml},
      {"<?xml version='1.0'?><!-- <graphs> --><system version='1'/>", FileForm::nccl_topology},
      {"  <pci busid=\"0000:01:00.0\">", FileForm::nccl_topology},
      {"00.0\" class=\"0x0302\"/>\n<gpu dev=\"0\"/>", FileForm::nccl_topology},
      {"<graphs version=\"1\">", FileForm::nccl_graph},
      {"<graph id=\"0\" pattern=\"4\">", FileForm::nccl_graph},
      {"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">", FileForm::hwloc},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-3\n", FileForm::smi_matrix},
      {"# GPU0\t X \tSOC\n", FileForm::smi_matrix},
      {"\x1b[4m\tGPU0\tGPU1\x1b[0m\n\x1b[1mGPU0\x1b[0m\t X \tPXB\n", FileForm::smi_matrix},
      {" \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tGNS\tX\n", FileForm::smi_p2p},
      {"GPU 0: invented (UUID: GPU-0)\n\t Link 0: 25 GB/s\n", FileForm::smi_nvlink},
      {"GPU 0: invented\nNVML: Unable to retrieve NVLink information as all links are inActive\n", FileForm::smi_nvlink},
      {"===== Link Type between two GPUs =====\n GPU0 GPU1\nGPU0 0 XGMI\n", FileForm::rocm_topology},
      {"GPU[0]\t\t: (Topology) Numa Node: 0\n", FileForm::rocm_topology},
      {"$ amd-smi topology\nHOPS TABLE:\n  0000:c1:00.0\n", FileForm::rocm_topology},
      {"$ cat /etc/os-release\nNAME=Some\nNAME=\"Some Linux\"\n$ npu-smi info -t topo\nNPU0 X HCCS\n", FileForm::npu_topology},
      {"\tNPU0\tNPU1\tCPU Affinity\nNPU0\tX\tHCCS\t0-3\n", FileForm::npu_topology},
      {"Ascend Topology:\n  Phy-ID12 Phy-ID13\nPhy-ID12 X SIO\n", FileForm::npu_topology},
      {"This device does not support querying topo.\n", FileForm::npu_topology},
      {"# comment with BlockName=x\nswitchname=s0 Nodes=a[0-3]\n", FileForm::slurm_topology},
      {"BlockName=b0 Nodes=a\nBlockSizes=4\n", FileForm::slurm_topology},
      {"RingName=r Nodes=a,b\n", FileForm::slurm_topology},
      {"---\n- topology: t\n  tree:\n    switches:\n", FileForm::slurm_topology_yaml},
      {"NodeName=n[0-3] Name=gpu File=/dev/nvidia[0-3]\n", FileForm::slurm_gres},
      {"AutoDetect=nvml\n", FileForm::slurm_gres},
      {"# Topology file: generated on a day\n", FileForm::ibnetdiscover},
      {"Switch\t36 \"S-00\"\t# \"leaf\"\n", FileForm::ibnetdiscover},
      {"SW    24 1 0x00000000000000a1 4x SDR    'leaf'\n", FileForm::ibnetdiscover},
      {"switches:\n- name: core\nblocks:\n", FileForm::topograph_model},
      {"[{\"links\": [{\"compounded_links\": []}]}]", FileForm::netq_topology},
  };
  for (const auto& [text, form] : samples) {
    const auto found = recognise(text);
    ASSERT_TRUE(found) << text;
    EXPECT_EQ(name_of(*found), name_of(form)) << text;
  }
}

TEST(Recognise, OtherThingsAreNothing) {
  for (const char* text : {"", " \n\t", "hello", "<algo name=\"ring\"><gpu id=\"0\"/></algo>", "<html><object/></html>", "{\"steps\": 1}",
                           "<!-- <system>", "collective,min_bytes\nallreduce,0\n", "PartitionName=a Nodes=b\n"})
    EXPECT_FALSE(recognise(text)) << text;
}

TEST(Recognise, WordsInAMachineFilesCommentsDoNotCount) {
  EXPECT_EQ(recognise("# GPU0\t X \tNV4\n# <system version=\"1\">\nmachine: dgx-a100\n"), FileForm::peal_yaml);
}

TEST(Import, UnknownContentFailsWithTheForms) {
  const auto file = import_text("no such thing", "x.txt");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("x.txt: the content is of no known form; known are Peal's own YAML, NCCL topology XML"));
}

TEST(Import, AnEmptyFileIsSaid) {
  const auto file = import_text(" \n\t\r\n", "x.txt");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "x.txt:1: the file is empty");
}

TEST(Import, AMistakeInTheFirstWordsOfOwnYamlIsNamed) {
  const auto file = import_text("machin: dgx-a100\n", "x.yaml");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("did you mean 'machine'?"));
}

TEST(Import, OwnYamlGivesTheCluster) {
  const auto file = import_text("machine: dgx-a100\nnodes: 3\n", "x.yaml");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->cluster);
  EXPECT_EQ(file->cluster->ranks(), 24);
  EXPECT_EQ(file->graph.devices_of(DeviceKind::gpu).size(), 8u);
}

TEST(Import, AFileIsReadByItsContentNotByItsName) {
  const std::string path = ::testing::TempDir() + "/peal_import.txt";
  std::ofstream(path) << "<system version=\"1\"><cpu numaid=\"0\"/></system>";
  const auto file = import_file(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->form, FileForm::nccl_topology);
  std::remove(path.c_str());
  EXPECT_FALSE(import_file(path));
}

TEST(Import, WhatAPersonReadsIsTheRecordedText) {
  for (const char* name : {"nccl_topology/switches_and_sockets", "nccl_graph/ring_with_nets", "hwloc/v2_gpus"}) {
    const auto file = import_text(fixture(fmt::format("{}.xml", name)), fmt::format("{}.xml", name));
    ASSERT_TRUE(file) << name;
    const std::string golden =
        fmt::format("tests/golden/import_{}.txt", std::string_view(name).substr(std::string_view(name).find('/') + 1));
    EXPECT_EQ(describe_text(file->graph), read_whole(peal::test::in_source(golden))) << name;
  }
}

}  // namespace
}  // namespace peal::topology
