#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <base/file_descriptor.hpp>
#include <base/write_all.hpp>
#include <string>
#include <thread>

namespace peal {
namespace {

// A pipe holds 64 KiB: who writes more to it waits there, and a signal ends that wait with a part of the bytes written, or with none.
TEST(WriteAll, GoesOnAfterShortWritesAndSignals) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const FileDescriptor from(ends[0]);
  FileDescriptor to(ends[1]);
  std::string text, read;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i);
  Status done;
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    done = write_all(to.get(), text.data(), text.size(), "the pipe");
    is_over = true;
    to.reset();
  });
  char part[30'000];
  do {
    for (int i = 0; i < 3 && !is_over; ++i) {
      ::pthread_kill(writer.native_handle(), SIGUSR1);
      ::usleep(1000);
    }
    const ssize_t got = ::read(from.get(), part, sizeof part);
    if (got <= 0) break;
    read.append(part, static_cast<std::size_t>(got));
  } while (true);
  writer.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_TRUE(done) << (done ? "" : done.error().message);
  EXPECT_TRUE(read == text) << read.size();
}

TEST(WriteAll, SaysWhatCannotBeWrittenAndWhy) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  const Status done = write_all(full.get(), "word", 4, "the key file k.txt");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::system);
  EXPECT_EQ(done.error().message, "cannot write the key file k.txt: No space left on device (ENOSPC)");
  EXPECT_TRUE(write_all(full.get(), nullptr, 0, "nothing"));
}

}  // namespace
}  // namespace peal
