// Messages that stay where they lie, in memory that both ends map.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <transport/shm.hpp>

namespace peal::transport {
namespace {

constexpr std::size_t kSegmentBytes = 256 * 1024;

/// Two ranks of one process, each with its own mapping of a segment, as processes have.
struct Two {
  ShmLayout layout = ShmLayout::of(2);
  SharedSegment segment;
  std::unique_ptr<ShmTransport> zero, one;
  std::shared_ptr<UserSegments> known[2] = {std::make_shared<UserSegments>(), std::make_shared<UserSegments>()};

  Two() {
    segment = std::move(*SharedSegment::create(layout.total_bytes(), "test"));
    zero = std::move(*ShmTransport::open(segment, layout, 0));
    one = std::move(*ShmTransport::open(segment, layout, 1));
    zero->read_from(known[0], {4, 7});
    one->read_from(known[1], {4, 7});
  }

  std::shared_ptr<UserSegment> segments[2];
  void share(std::uint64_t id, const std::vector<int>& holders, bool with_one = true) {
    SharedSegment first = std::move(*SharedSegment::create(UserSegment::kHeadBytes + kSegmentBytes, "test"));
    ASSERT_TRUE(first.allocate(0, first.bytes()));
    SharedSegment second = std::move(*SharedSegment::map(FileDescriptor(::dup(first.descriptor())), first.bytes()));
    segments[0] = std::make_shared<UserSegment>(id, std::move(first), holders);
    segments[1] = std::make_shared<UserSegment>(id, std::move(second), holders);
    known[0]->add(segments[0]);
    if (with_one) known[1]->add(segments[1]);
  }
  std::byte* part(int rank) { return segments[rank]->data() + UserSegment::kHeadBytes; }
};

TEST(UserSegments, AShownMessageIsReadWhereItLies) {
  Two two;
  two.share(11, {4, 5, 7});
  std::memset(two.part(0), 1, kSegmentBytes);
  ASSERT_TRUE(two.zero->can_show(two.part(0), kSegmentBytes));
  ShmSender* to = two.zero->sender(1);
  const Tag tag{{1, 2, 3}};
  ASSERT_TRUE(to->can_show(two.part(0) + 100, 1000));
  ASSERT_TRUE(to->show(two.part(0) + 100, 1000, &tag));
  EXPECT_FALSE(to->is_drained());
  ShmReceiver* from = two.one->receiver(0);
  const Message* message = from->peek();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->data, two.part(1) + 100);
  EXPECT_EQ(message->bytes, 1000u);
  ASSERT_NE(message->tag, nullptr);
  EXPECT_EQ(*message->tag, tag);
  EXPECT_EQ(message->data[999], std::byte{1});
  EXPECT_FALSE(to->is_drained());
  from->release();
  EXPECT_TRUE(to->is_drained());
}

TEST(UserSegments, ManyShownAndCopiedMessagesKeepTheirOrder) {
  Two two;
  two.share(11, {4, 7});
  ShmSender* to = two.zero->sender(1);
  ShmReceiver* from = two.one->receiver(0);
  std::byte* const data = two.part(0);
  for (std::size_t i = 0; i < kSegmentBytes; ++i) data[i] = static_cast<std::byte>(i / 1000);
  for (int round = 0; round < 300; ++round) {
    const std::size_t at = static_cast<std::size_t>(round) * 800, bytes = round % 3 == 0 ? 8 : 700;
    ASSERT_TRUE(to->is_ready());
    const bool is_shown = round % 2 == 0;
    ASSERT_TRUE(to->can_show(data + at, bytes));
    ASSERT_TRUE(is_shown ? to->show(data + at, bytes, nullptr) : to->send(data + at, bytes, nullptr));
    const Message* message = from->peek();
    ASSERT_NE(message, nullptr);
    ASSERT_EQ(message->bytes, bytes);
    ASSERT_EQ(std::memcmp(message->data, data + at, bytes), 0) << round;
    from->release();
  }
  EXPECT_TRUE(to->is_drained());
}

TEST(UserSegments, AnAnswerGoesWhereTheSenderWantsItAndIsShownThere) {
  Two two;
  two.share(11, {4, 7});
  std::byte* const message = two.part(0);
  std::byte* const wanted = two.part(0) + 5000;
  message[0] = std::byte{7};
  ASSERT_TRUE(two.zero->can_show(message, 4096));
  ASSERT_TRUE(two.zero->sender(1)->show(message, 4096, nullptr, wanted));
  const Message* got = two.one->receiver(0)->peek();
  ASSERT_NE(got, nullptr);
  ASSERT_NE(got->answer, nullptr);
  EXPECT_EQ(got->data[0], std::byte{7});
  std::byte* const answer = got->answer;
  std::memset(answer, 9, 4096);
  two.one->receiver(0)->release();
  // The answer lies in the first rank's memory already: it is shown there, and receiving it moves nothing.
  ASSERT_TRUE(two.one->sender(0)->can_show(answer, 4096));
  ASSERT_TRUE(two.one->sender(0)->show(answer, 4096, nullptr));
  const Message* back = two.zero->receiver(1)->peek();
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(back->data, wanted);
  EXPECT_EQ(back->answer, nullptr);
  std::size_t bytes = 0;
  Tag tag;
  bool has_tag = true;
  ASSERT_TRUE(two.zero->receiver(1)->receive(wanted, 4096, &bytes, &tag, &has_tag));
  EXPECT_EQ(bytes, 4096u);
  EXPECT_EQ(wanted[4095], std::byte{9});
  EXPECT_TRUE(two.one->sender(0)->is_drained());
}

TEST(UserSegments, OnlyWhatBothEndsMapIsShown) {
  Two two;
  std::vector<std::byte> own(1000);
  EXPECT_FALSE(two.zero->can_show(own.data(), 1));
  two.share(11, {4, 5});  // not rank 7 of the job, which is rank 1 here
  EXPECT_FALSE(two.zero->can_show(two.part(0), 1));
  two.share(12, {4, 7});
  ShmSender* to = two.zero->sender(1);
  ASSERT_TRUE(two.zero->can_show(two.part(0), kSegmentBytes));
  EXPECT_FALSE(to->can_show(two.part(0), kSegmentBytes + 1)) << "reaches beyond the segment";
  EXPECT_FALSE(to->can_show(own.data(), own.size()));
  EXPECT_FALSE(to->show(own.data(), own.size(), nullptr));
  EXPECT_FALSE(to->show(two.part(0), own.size(), nullptr, own.data())) << "the answer could not be written";
}

TEST(UserSegments, PlacesThatAreNotMappedAreAnError) {
  Two two;
  two.share(11, {4, 7}, false);
  ShmSender* to = two.zero->sender(1);
  ASSERT_TRUE(two.zero->can_show(two.part(0), 1));
  ASSERT_TRUE(to->show(two.part(0), 10, nullptr));
  EXPECT_EQ(two.one->receiver(0)->peek(), nullptr);
  const Status health = two.one->health();
  ASSERT_FALSE(health);
  EXPECT_EQ(health.error().rank, 0);
  EXPECT_NE(health.error().message.find("which rank 1 does not map"), std::string::npos) << health.error().message;
}

TEST(UserSegments, TheyStayMappedUntilAllHoldersHaveGivenBack) {
  Two two;
  two.share(11, {4, 7});
  const std::weak_ptr<UserSegment> watched = two.segments[1];
  std::memset(two.part(0), 9, kSegmentBytes);
  ShmSender* to = two.zero->sender(1);
  ASSERT_TRUE(two.zero->can_show(two.part(0), kSegmentBytes));
  ASSERT_TRUE(to->show(two.part(0), kSegmentBytes, nullptr));
  two.known[1]->give_back(*two.segments[1]);
  two.segments[1].reset();
  const Message* message = two.one->receiver(0)->peek();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->data[kSegmentBytes - 1], std::byte{9});
  two.one->receiver(0)->release();
  EXPECT_EQ(two.known[1]->list().size(), 1u);
  two.known[0]->give_back(*two.segments[0]);
  EXPECT_TRUE(two.known[0]->list().empty());
  two.known[1]->add(std::make_shared<UserSegment>(12, std::move(*SharedSegment::create(4096, "test")), std::vector<int>{7}));
  EXPECT_EQ(two.known[1]->list().size(), 1u) << "what everybody gave back is forgotten";
  EXPECT_FALSE(two.one->can_show(nullptr, 1));
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace peal::transport
