#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <transport/shared_segment.hpp>

namespace peal::transport {
namespace {

TEST(SharedSegment, IsSharedBetweenTwoMappings) {
  auto one = SharedSegment::create(10000, "test");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->bytes() % 4096, 0u);
  auto two = SharedSegment::map(FileDescriptor(dup(one->descriptor())), 10000);
  ASSERT_TRUE(two) << two.error().message;
  ASSERT_TRUE(one->allocate(0, 10000));
  ASSERT_TRUE(two->allocate(0, 10000)) << "allocating again is harmless";
  one->data()[9999] = std::byte{42};
  EXPECT_EQ(two->data()[9999], std::byte{42});
  EXPECT_EQ(two->data()[5000], std::byte{0});
}

TEST(SharedSegment, CannotBeResizedOrUnsealed) {
  auto segment = SharedSegment::create(8192, "test");
  ASSERT_TRUE(segment);
  EXPECT_NE(ftruncate(segment->descriptor(), 4096), 0);
  EXPECT_NE(ftruncate(segment->descriptor(), 16384), 0);
  EXPECT_NE(fcntl(segment->descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_NE(fcntl(segment->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SharedSegment, MemoryComesOnlyWhereItWasAllocated) {
  auto segment = SharedSegment::create(std::size_t{1} << 36, "test");  // 64 GiB of addresses
  ASSERT_TRUE(segment) << segment.error().message;
  ASSERT_TRUE(segment->allocate(std::size_t{1} << 35, 8192));
  segment->data()[(std::size_t{1} << 35) + 8191] = std::byte{1};
}

TEST(SharedSegment, RefusesWhatIsNoSealedMemory) {
  const int plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(plain, 8192), 0);
  auto unsealed = SharedSegment::map(FileDescriptor(plain), 8192);
  ASSERT_FALSE(unsealed);
  EXPECT_EQ(unsealed.error().code, ErrorCode::corrupt);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_FALSE(SharedSegment::map(FileDescriptor(pipe_ends[0]), 8192));
  close(pipe_ends[1]);
  EXPECT_FALSE(SharedSegment::map(FileDescriptor(), 8192));

  auto segment = SharedSegment::create(8192, "test");
  ASSERT_TRUE(segment);
  auto wrong_size = SharedSegment::map(FileDescriptor(dup(segment->descriptor())), 16384);
  ASSERT_FALSE(wrong_size);
  EXPECT_NE(wrong_size.error().message.find("8192"), std::string::npos) << wrong_size.error().message;
}

TEST(SharedSegment, RefusesNonsense) {
  EXPECT_FALSE(SharedSegment::create(0, "test"));
  EXPECT_FALSE(SharedSegment::create(SIZE_MAX, "test"));
  auto segment = SharedSegment::create(8192, "test");
  ASSERT_TRUE(segment);
  EXPECT_FALSE(segment->allocate(8192, 1));
  EXPECT_FALSE(segment->allocate(1, SIZE_MAX));
}

TEST(SharedSegment, NamesTheLimitWhenDescriptorsRunOut) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{3, 3};
    setrlimit(RLIMIT_NOFILE, &none);
    auto segment = SharedSegment::create(8192, "test");
    _exit(!segment && segment.error().message.find("ulimit -n") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SharedSegment, MovesWithoutUnmapping) {
  auto segment = SharedSegment::create(8192, "test");
  ASSERT_TRUE(segment);
  ASSERT_TRUE(segment->allocate(0, 8192));
  SharedSegment moved = std::move(*segment);
  moved.data()[0] = std::byte{1};
  SharedSegment again;
  again = std::move(moved);
  EXPECT_EQ(again.data()[0], std::byte{1});
  EXPECT_EQ(moved.data(), nullptr);  // NOLINT(bugprone-use-after-move)
}

}  // namespace
}  // namespace peal::transport
