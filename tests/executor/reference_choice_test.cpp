// The choice between slots and references, against a peer whose speed is known.
#include <gtest/gtest.h>

#include <executor/reference_choice.hpp>

namespace peal::executor {
namespace {

constexpr std::uint64_t kCall = 256 * 1024;

/// Nanoseconds a byte.
struct Cost {
  double slots;
  double reading;
};
constexpr Cost kNear{0.05, 0.08};
constexpr Cost kFar{0.1, 0.08};

class Peer {
 public:
  bool tells = true;
  double first_reading = 0;  // of the first mebibyte after slots; 0: as any

  // Makes calls until so many bytes have gone, and returns the share of them that went as references.
  double run(ReferenceChoice& choice, std::uint64_t bytes, Cost cost) {
    std::uint64_t referenced = 0;
    for (std::uint64_t sent = 0; sent < bytes; sent += kCall) {
      if (choice.choose(kCall, slots_, fetched_)) {
        referenced += kCall;
        const double reading = first_reading > 0 && (in_a_row_ += kCall) <= (1 << 20) ? first_reading : cost.reading;
        if (tells) fetched_ = {fetched_.ns + static_cast<std::uint64_t>(reading * kCall), fetched_.bytes + kCall};
        continue;
      }
      in_a_row_ = 0;
      if ((by_slots_ += kCall) % (1 << 20) == 0) {
        slots_ = {cost.slots, slots_.samples + 1};
      }
    }
    return static_cast<double>(referenced) / static_cast<double>(bytes);
  }

 private:
  CostOfSlots slots_;
  transport::Drained fetched_;
  std::uint64_t by_slots_ = 0;
  std::uint64_t in_a_row_ = 0;  // bytes by reference
};

TEST(ReferenceChoice, SettlesForTheFasterWay) {
  ReferenceChoice near, far;
  Peer near_peer, far_peer;
  EXPECT_LT(near_peer.run(near, std::uint64_t{1} << 30, kNear), 0.03);
  EXPECT_GT(far_peer.run(far, std::uint64_t{1} << 30, kFar), 0.95);
}

TEST(ReferenceChoice, ChangesAfterTheCoresWereMoved) {
  ReferenceChoice choice;
  Peer peer;
  for (int turn = 0; turn < 3; ++turn) {
    peer.run(choice, std::uint64_t{1} << 29, kNear);
    EXPECT_LT(peer.run(choice, std::uint64_t{1} << 28, kNear), 0.02);
    peer.run(choice, std::uint64_t{1} << 29, kFar);
    EXPECT_GT(peer.run(choice, std::uint64_t{1} << 28, kFar), 0.95);
  }
}

// Where nothing is written between two calls the peer fetches it once; where it is, every time.
TEST(ReferenceChoice, DoesNotCountWhatIsReadForTheFirstTime) {
  constexpr Cost kFirst{0.1, 0.25};
  ReferenceChoice kept, written;
  Peer kept_peer, written_peer;
  kept_peer.first_reading = kFirst.reading;
  EXPECT_GT(kept_peer.run(kept, std::uint64_t{1} << 30, kFar), 0.95);
  EXPECT_LT(written_peer.run(written, std::uint64_t{1} << 30, kFirst), 0.03);
}

TEST(ReferenceChoice, LeavesAWayOfWhichNobodySaysWhatItCosts) {
  ReferenceChoice choice;
  Peer peer;
  peer.tells = false;
  EXPECT_LT(peer.run(choice, std::uint64_t{1} << 30, kFar), 0.05);
}

TEST(ReferenceChoice, TriesNothingBeforeItIsKnownWhatSlotsCost) {
  ReferenceChoice choice;
  for (int call = 0; call < 1000; ++call) EXPECT_FALSE(choice.choose(kCall, {}, {}));
}

}  // namespace
}  // namespace peal::executor
