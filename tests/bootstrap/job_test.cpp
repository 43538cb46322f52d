#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <base/settings.hpp>
#include <bootstrap/contact.hpp>
#include <bootstrap/job.hpp>
#include <bootstrap/unique_id.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

namespace peal::bootstrap {
namespace {

using testing::HasSubstr;

/// Start-up reads only settings of the table, so clearing those gives every test an empty environment.
class Environment : public testing::Test {
 protected:
  void SetUp() override {
    for (const Setting& one : all_settings()) {
      const std::string name(one.name);
      if (const char* value = std::getenv(name.c_str())) before_[name] = value;
      unsetenv(name.c_str());
    }
    char folder[] = "/tmp/peal-job-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    for (const Setting& one : all_settings()) unsetenv(std::string(one.name).c_str());
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  void set(std::initializer_list<std::pair<const char*, const char*>> values) {
    for (const auto& [name, value] : values) setenv(name, value, 1);
  }
  void use_key_file() {
    const std::string path = folder_ + "/key";
    ASSERT_TRUE(net::write_key_file(path, net::make_key()));
    setenv("PEAL_KEY_FILE", path.c_str(), 1);
  }
  std::string error() {
    const auto job = job_from_environment();
    return job ? "no error" : job.error().message;
  }
  void torchrun(const char* rank, const char* size, const char* local_size) {
    set({{"RANK", rank},
         {"WORLD_SIZE", size},
         {"LOCAL_RANK", rank},
         {"LOCAL_WORLD_SIZE", local_size},
         {"MASTER_ADDR", "127.0.0.1"},
         {"MASTER_PORT", "29500"},
         {"TORCHELASTIC_RUN_ID", "none"},
         {"TORCHELASTIC_RESTART_COUNT", "0"}});
  }
  std::map<std::string, std::string> before_;
  std::string folder_;
};

TEST_F(Environment, NothingIsASingleRank) {
  const auto job = job_from_environment();
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->rank, 0);
  EXPECT_EQ(job->size, 1);
  EXPECT_EQ(job->launcher, "single");
}

TEST_F(Environment, PealsOwnWordsAreRead) {
  set({{"PEAL_RANK", "2"},
       {"PEAL_SIZE", "4"},
       {"PEAL_ROOT", "unix:somewhere"},
       {"PEAL_JOB", "a"},
       {"PEAL_LOCAL_RANK", "1"},
       {"PEAL_START_TIMEOUT", "7"}});
  const auto job = job_from_environment();
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->rank, 2);
  EXPECT_EQ(job->size, 4);
  EXPECT_EQ(job->local_rank, 1);
  EXPECT_EQ(job->root.text(), "unix:somewhere");
  EXPECT_EQ(job->start_timeout_s, 7);
  EXPECT_FALSE(job->key);
  set({{"PEAL_JOB", "b"}});
  EXPECT_NE(job_from_environment()->job_id, job->job_id);
}

TEST_F(Environment, SeveralHostsNeedAKey) {
  set({{"PEAL_RANK", "0"}, {"PEAL_SIZE", "2"}, {"PEAL_ROOT", "10.0.0.1:29500"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_KEY_FILE"));
  use_key_file();
  const auto job = job_from_environment();
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_TRUE(job->key);
  set({{"PEAL_ROOT", "10.0.0.1"}, {"PEAL_PORT", "4000"}});
  EXPECT_EQ(job_from_environment()->root.text(), "10.0.0.1:4000");
  set({{"PEAL_ROOT", "[::1]"}});
  EXPECT_EQ(job_from_environment()->root.text(), "[::1]:4000");
  set({{"PEAL_ROOT", "0.0.0.0:4000"}});
  EXPECT_THAT(error(), HasSubstr("no address that others can connect to"));
  ASSERT_EQ(chmod((folder_ + "/key").c_str(), 0644), 0);
  EXPECT_THAT(error(), HasSubstr("chmod 600"));
}

TEST_F(Environment, ContradictionsGiveOneSentence) {
  set({{"PEAL_RANK", "4"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_RANK is set but PEAL_SIZE is not"));
  set({{"PEAL_SIZE", "4"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_RANK=4 is not below PEAL_SIZE=4"));
  set({{"PEAL_RANK", "x"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_RANK"));
  set({{"PEAL_RANK", "-1"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_RANK"));
  set({{"PEAL_RANK", "1"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_ROOT is not"));
  set({{"PEAL_ROOT", "nonsense::"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_ROOT: \"nonsense::\" is not an address"));
  set({{"PEAL_ROOT", "unix:x"}, {"PEAL_SIZE", "0"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_SIZE"));
  unsetenv("PEAL_RANK");
  set({{"PEAL_SIZE", "4"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_SIZE is set but PEAL_RANK is not"));
}

TEST_F(Environment, TorchrunOnOneHostMeetsOnAUnixNameOfItsOwn) {
  torchrun("1", "2", "2");
  const auto job = job_from_environment();
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->launcher, "torchrun");
  EXPECT_TRUE(job->root.is_unix());
  EXPECT_EQ(job->local_rank, 1);
  EXPECT_THAT(job->root.text(), HasSubstr(fmt::format("peal-{}-", geteuid())));
  set({{"RANK", "0"}, {"LOCAL_RANK", "0"}});
  EXPECT_EQ(job_from_environment()->root.text(), job->root.text());
  EXPECT_EQ(job_from_environment()->job_id, job->job_id);
  for (const auto& [name, value] :
       {std::pair{"TORCHELASTIC_RESTART_COUNT", "1"}, std::pair{"MASTER_PORT", "29501"}, std::pair{"TORCHELASTIC_RUN_ID", "r"}}) {
    torchrun("1", "2", "2");
    set({{name, value}});
    EXPECT_NE(job_from_environment()->root.text(), job->root.text()) << name;
  }
}

TEST_F(Environment, TorchrunOnSeveralHostsMeetsOnPealPortAndNeedsAKey) {
  torchrun("1", "4", "2");
  set({{"MASTER_ADDR", "10.0.0.1"}, {"PEAL_PORT", "4001"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_KEY_FILE"));
  use_key_file();
  EXPECT_EQ(job_from_environment()->root.text(), "10.0.0.1:4001");
  set({{"MASTER_ADDR", "fd00::1"}});
  EXPECT_EQ(job_from_environment()->root.text(), "[fd00::1]:4001");
  unsetenv("PEAL_PORT");
  EXPECT_EQ(job_from_environment()->root.port(), 29517);
  set({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "127.0.1.1"}});
  EXPECT_THAT(error(), HasSubstr("loopback address 127.0.1.1"));
  set({{"RANK", "7"}});
  EXPECT_THAT(error(), HasSubstr("RANK=7 is not below WORLD_SIZE=4"));
}

TEST_F(Environment, OpenMpiOnOneHostMeetsOnAUnixName) {
  set({{"OMPI_COMM_WORLD_RANK", "1"},
       {"OMPI_COMM_WORLD_SIZE", "2"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_THAT(error(), HasSubstr("PMIX_NAMESPACE"));
  set({{"PMIX_NAMESPACE", "prterun-7"}});
  const auto job = job_from_environment();
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->launcher, "openmpi");
  EXPECT_TRUE(job->root.is_unix());
  set({{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_THAT(error(), HasSubstr("PEAL_ROOT=HOST:PORT"));
  set({{"PEAL_ROOT", "10.0.0.1:5000"}});
  use_key_file();
  EXPECT_EQ(job_from_environment()->root.text(), "10.0.0.1:5000");
}

TEST(UniqueId, GivesEveryRankTheSameJobAndDetectsChangedBytes) {
  const UniqueId id = make_unique_id();
  const auto a = job_from_unique_id(id, 0, 2);
  const auto b = job_from_unique_id(id, 1, 2);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->root, b->root);
  EXPECT_EQ(a->job_id, b->job_id);
  EXPECT_EQ(a->key->bytes, b->key->bytes);
  EXPECT_NE(job_from_unique_id(make_unique_id(), 0, 2)->root, a->root);
  for (std::size_t i = 0; i < kUniqueIdBytes; ++i) {
    UniqueId wrong = id;
    wrong.bytes[i] ^= 1;
    EXPECT_EQ(job_from_unique_id(wrong, 0, 2).error().code, ErrorCode::corrupt) << i;
  }
  EXPECT_FALSE(job_from_unique_id(UniqueId{}, 0, 2));
  EXPECT_FALSE(job_from_unique_id(id, 2, 2));
  EXPECT_FALSE(job_from_unique_id(id, 0, 0));
  const auto far = make_unique_id(*net::Address::parse("10.0.0.1:4000"));
  ASSERT_TRUE(far);
  EXPECT_EQ(job_from_unique_id(*far, 1, 2)->root.text(), "10.0.0.1:4000");
  EXPECT_FALSE(make_unique_id(*net::Address::parse("10.0.0.1:0")));
}

TEST(Contact, ComesBackUnchangedAndEveryCutIsRefused) {
  Contact mine = local_contact(3);
  mine.data_address = "10.0.0.1:4000";
  mine.unix_name = "peal-x";
  mine.rack = "spine.leaf";
  const std::string bytes = encode(mine);
  const auto back = parse_contact(bytes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, mine);
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(parse_contact(std::string_view(bytes).substr(0, n))) << n;
  EXPECT_FALSE(parse_contact(bytes + "x"));
}

TEST(Contact, SaysWhichCoresARankMayUse) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const Contact before = local_contact(0);
  EXPECT_EQ(before.cores, CPU_COUNT(&allowed));
  EXPECT_EQ(local_contact(1).core_set, before.core_set);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const Contact bound = local_contact(1);
    EXPECT_EQ(bound.cores, 1);
    EXPECT_EQ(bound.core_set == before.core_set, before.cores == 1);
    EXPECT_EQ(bound.machine, before.machine);
  }).join();
}

TEST(Contact, TheRackIsWhatSlurmNamesAboveTheNode) {
  EXPECT_EQ(rack_of_slurm("spine.leaf3.node7", "switch.switch.node"), "spine.leaf3");
  EXPECT_EQ(rack_of_slurm("block1.node7", "block.node"), "block1");
  EXPECT_EQ(rack_of_slurm("node7", "node"), "");
  EXPECT_EQ(rack_of_slurm("", ""), "");
}

TEST(Contact, TablesMustBeCompleteAndInRankOrder) {
  const std::vector<Contact> table{local_contact(0), local_contact(1)};
  EXPECT_EQ(*parse_contacts(encode(table), 2), table);
  EXPECT_FALSE(parse_contacts(encode(table), 3));
  EXPECT_FALSE(parse_contacts(encode({local_contact(1), local_contact(0)}), 2));
}

TEST(Contact, SaysWhichProcessThisIs) {
  const Contact mine = local_contact(0);
  EXPECT_EQ(mine.pid, getpid());
  EXPECT_GT(mine.pid_start_time, 0u);
  EXPECT_EQ(mine.pid_start_time, process_start_time(getpid()));
  EXPECT_EQ(process_start_time(0x7ffffff), 0u);
  EXPECT_EQ(mine.uid, geteuid());
  EXPECT_FALSE(mine.host_name.empty());
  setenv("PEAL_HOST_ID", "another host", 1);
  EXPECT_EQ(local_contact(0).host_identity, "another host");
  unsetenv("PEAL_HOST_ID");
  EXPECT_EQ(local_contact(0).host_identity, mine.host_identity);
}

}  // namespace
}  // namespace peal::bootstrap
