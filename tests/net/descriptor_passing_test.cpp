#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <net/descriptor_passing.hpp>
#include <net/socket.hpp>
#include <thread>
#include <vector>

#include "loopback_addresses.hpp"

namespace peal::net {
namespace {

using testing::HasSubstr;

FileDescriptor make_memory(std::string_view content) {
  FileDescriptor fd(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  return fd;
}

std::string content_of(int fd) {
  char text[64] = {};
  const ssize_t n = ::pread(fd, text, sizeof(text), 0);
  return std::string(text, n > 0 ? static_cast<std::size_t>(n) : 0);
}

bool is_same_file(int a, int b) {
  struct stat first {
  }, second{};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_ino == second.st_ino && first.st_dev == second.st_dev;
}

TEST(DescriptorPassing, ThreadsOfOneProcessGetTheSameMemory) {
  const std::string name = test::free_address("unix").host();
  const FileDescriptor memory = make_memory("shared");
  std::vector<std::thread> takers;
  for (int i = 0; i < 4; ++i) {
    takers.emplace_back([&] {
      auto taken = take_descriptor(name, deadline_in(10));
      ASSERT_TRUE(taken) << taken.error().message;
      EXPECT_TRUE(is_same_file(taken->get(), memory.get()));
      EXPECT_EQ(content_of(taken->get()), "shared");
    });
  }
  const auto offered = offer_descriptor(name, memory.get(), 4, deadline_in(10));
  EXPECT_TRUE(offered) << offered.error().message;
  for (auto& one : takers) one.join();
}

TEST(DescriptorPassing, AnotherProcessGetsIt) {
  const std::string name = test::free_address("unix").host();
  const FileDescriptor memory = make_memory("forked");
  const pid_t child = fork();
  if (child == 0) {
    auto taken = take_descriptor(name, deadline_in(10));
    _exit(taken && content_of(taken->get()) == "forked" ? 0 : 1);
  }
  EXPECT_TRUE(offer_descriptor(name, memory.get(), 1, deadline_in(10)));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(DescriptorPassing, TheOfferEndsAtItsDeadlineAndSaysHowManyCame) {
  const std::string name = test::free_address("unix").host();
  const FileDescriptor memory = make_memory("x");
  std::thread one([&] { EXPECT_TRUE(take_descriptor(name, deadline_in(10))); });
  const auto offered = offer_descriptor(name, memory.get(), 2, deadline_in(0.5));
  one.join();
  ASSERT_FALSE(offered);
  EXPECT_EQ(offered.error().code, ErrorCode::timeout);
  EXPECT_THAT(offered.error().message, HasSubstr("1 of 2"));
}

TEST(DescriptorPassing, TakingWhatNobodyOffersEndsAtTheDeadline) {
  const auto taken = take_descriptor(test::free_address("unix").host(), deadline_in(0.1));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::unreachable);
}

TEST(DescriptorPassing, AnotherUserGetsNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user for this test";
  const std::string name = test::free_address("unix").host();
  const FileDescriptor memory = make_memory("secret");
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(65534, 65534, 65534) != 0) _exit(2);
    // The stranger asks directly, without Peal's own check of the other side.
    auto socket = connect_to(*Address::unix_name(name), deadline_in(10));
    if (!socket) _exit(3);
    _exit(receive_descriptor(socket->get(), deadline_in(10)) ? 1 : 0);
  }
  const auto offered = offer_descriptor(name, memory.get(), 1, deadline_in(1));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_FALSE(offered);
  EXPECT_THAT(offered.error().message, HasSubstr("0 of 1"));
}

TEST(DescriptorPassing, BytesWithoutADescriptorAreRefused) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const FileDescriptor a(pair[0]);
  const FileDescriptor b(pair[1]);
  ASSERT_TRUE(send_all(a.get(), "F", 1, deadline_in(1)));
  const auto taken = receive_descriptor(b.get(), deadline_in(1));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace peal::net
