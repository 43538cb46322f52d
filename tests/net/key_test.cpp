#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <net/key.hpp>

namespace peal::net {
namespace {

using testing::HasSubstr;

class KeyFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/peal-key-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/job.key"; }
  void write(const std::string& text, unsigned mode) {
    std::ofstream(path()) << text;
    ASSERT_EQ(chmod(path().c_str(), mode), 0);
  }
  std::string folder_;
};

TEST_F(KeyFile, WhatWasWrittenIsReadAndOnlyTheOwnerMay) {
  const Key key = make_key();
  ASSERT_TRUE(write_key_file(path(), key));
  struct stat found {};
  ASSERT_EQ(stat(path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0600u);
  const auto back = read_key_file(path());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->bytes, key.bytes);
  EXPECT_FALSE(write_key_file(path(), key)) << "an existing key must not be overwritten";
}

TEST_F(KeyFile, AFileThatOthersCanReadIsRefusedWithWhatToType) {
  write(std::string(64, 'a'), 0640);
  const auto key = read_key_file(path());
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, ErrorCode::refused);
  EXPECT_THAT(key.error().message, HasSubstr("chmod 600 " + path()));
}

TEST_F(KeyFile, WrongContentIsRefused) {
  for (const std::string& text : {std::string(), std::string("secret"), std::string(63, 'a'), std::string(66, 'a'), std::string(64, 'g')}) {
    write(text, 0600);
    const auto key = read_key_file(path());
    ASSERT_FALSE(key) << text;
    EXPECT_EQ(key.error().code, ErrorCode::corrupt);
    std::filesystem::remove(path());
  }
  EXPECT_FALSE(read_key_file(folder_ + "/absent"));
  EXPECT_FALSE(read_key_file(folder_));
}

TEST_F(KeyFile, APipeFromALauncherIsRead) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Key key = make_key();
  ASSERT_EQ(::write(ends[1], key.bytes.data(), key.bytes.size()), static_cast<ssize_t>(key.bytes.size()));
  ::close(ends[1]);
  const auto back = read_key_file("/dev/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->bytes, key.bytes);
}

TEST(Key, KeysDifferAndDerivedKeysDependOnKeyAndPurpose) {
  const Key a = make_key();
  const Key b = make_key();
  EXPECT_NE(a.bytes, b.bytes);
  EXPECT_EQ(derive_key(a, "x").bytes, derive_key(a, "x").bytes);
  EXPECT_NE(derive_key(a, "x").bytes, derive_key(a, "y").bytes);
  EXPECT_NE(derive_key(a, "x").bytes, derive_key(b, "x").bytes);
  EXPECT_NE(derive_key(a, "").bytes, a.bytes);
  EXPECT_EQ(hash_text("job"), hash_text("job"));
  EXPECT_NE(hash_text("job"), hash_text("job2"));
}

}  // namespace
}  // namespace peal::net
