// What every transport promises (transport/channel.hpp), told once and run over each of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "world.hpp"

namespace peal::transport::conformance {
namespace {

class Channel : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { descriptors_ = open_descriptors(); }
  void TearDown() override { EXPECT_EQ(open_descriptors(), descriptors_) << "descriptors were left behind"; }
  void expect_good(const Shape& shape, const Body& body) { EXPECT_EQ(run(GetParam(), shape, body), ""); }

 private:
  int descriptors_ = 0;
};

std::byte pattern(std::uint64_t seed, std::size_t i) { return static_cast<std::byte>((seed * 131 + i * 7 + (i >> 8)) & 0xff); }
void fill(std::vector<std::byte>& buffer, std::uint64_t seed, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) buffer[i] = pattern(seed, i);
}
void check(const std::byte* data, std::uint64_t seed, std::size_t bytes, const char* what) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (data[i] != pattern(seed, i)) broken(std::string(what) + ": wrong byte " + std::to_string(i) + " of " + std::to_string(bytes));
  }
}
Tag tag_of(std::uint64_t seed) { return Tag{{seed, ~seed, seed * 0x9e3779b97f4a7c15u}}; }

const std::vector<std::size_t>& sizes() {
  static const std::vector<std::size_t> all = [] {
    std::vector<std::size_t> v;
    for (std::size_t i = 0; i <= 130; ++i) v.push_back(i);
    for (std::size_t around : {256, 512, 1024, 4096, 8192, 65536, 262144}) {
      v.push_back(around - 1);
      v.push_back(around);
      if (around < 262144) v.push_back(around + 1);
    }
    return v;
  }();
  return all;
}

// Both ranks run this against each other: sends never wait for the other's receives longer than its slots allow.
void exchange(Rank& me, const std::function<void(Sender&, std::size_t, std::uint64_t)>& send_one,
              const std::function<void(Receiver&, std::size_t, std::uint64_t)>& receive_one) {
  Sender& out = me.to(1 - me.rank);
  Receiver& in = me.from(1 - me.rank);
  for (std::size_t k = 0; k < sizes().size(); ++k) {
    send_one(out, sizes()[k], k * 2 + static_cast<std::uint64_t>(me.rank));
    receive_one(in, sizes()[k], k * 2 + static_cast<std::uint64_t>(1 - me.rank));
  }
  me.flush(out);
}

void expect_tag(const Message& m, std::uint64_t seed) {
  if (seed % 3 == 0) {
    require(m.tag == nullptr, "a tag where none was sent");
  } else {
    require(m.tag != nullptr && *m.tag == tag_of(seed), "wrong tag");
  }
}

TEST_P(Channel, CarriesEverySizeWithAndWithoutTag) {
  expect_good({}, [](Rank& me) {
    std::vector<std::byte> buffer(300000);
    exchange(
        me,
        [&](Sender& out, std::size_t bytes, std::uint64_t seed) {
          fill(buffer, seed, bytes);
          const Tag tag = tag_of(seed);
          me.send(out, buffer.data(), bytes, seed % 3 == 0 ? nullptr : &tag);
          fill(buffer, seed + 1, bytes);  // the source may change once send() returned true
        },
        [&](Receiver& in, std::size_t bytes, std::uint64_t seed) {
          const Message& m = me.peek(in);
          require(m.bytes == bytes, "wrong length");
          expect_tag(m, seed);
          check(m.data, seed, bytes, "peek");
          in.release();
        });
  });
}

TEST_P(Channel, AcquiredRoomIsStableAndArrives) {
  expect_good({}, [](Rank& me) {
    exchange(
        me,
        [&](Sender& out, std::size_t bytes, std::uint64_t seed) {
          std::byte* room = nullptr;
          wait_until(me.board, "room", [&] { return (room = out.acquire(bytes)) != nullptr; });
          require(out.acquire(bytes) == room, "acquire() moved the room");
          require(out.is_ready(), "not ready though acquired");
          for (std::size_t i = 0; i < bytes; ++i) room[i] = pattern(seed, i);
          const Tag tag = tag_of(seed);
          out.publish(bytes, seed % 3 == 0 ? nullptr : &tag);
        },
        [&](Receiver& in, std::size_t bytes, std::uint64_t seed) {
          const Message& m = me.peek(in);
          require(&m == in.peek() && m.bytes == bytes, "peek() is not stable");
          expect_tag(m, seed);
          check(in.peek()->data, seed, bytes, "acquired");
          in.release();
        });
  });
}

TEST_P(Channel, ReceiveStoresInPlace) {
  expect_good({}, [](Rank& me) {
    std::vector<std::byte> buffer(300000), target(300000);
    exchange(
        me,
        [&](Sender& out, std::size_t bytes, std::uint64_t seed) {
          fill(buffer, seed, bytes);
          const Tag tag = tag_of(seed);
          me.send(out, buffer.data(), bytes, seed % 3 == 0 ? nullptr : &tag);
        },
        [&](Receiver& in, std::size_t bytes, std::uint64_t seed) {
          std::size_t got = 0;
          Tag tag;
          bool has_tag = false;
          const std::size_t room = bytes + seed % 5;
          if (seed % 7 == 0) me.peek(in);  // looking first must not change what is stored
          std::fill_n(target.begin() + static_cast<std::ptrdiff_t>(room), 64, std::byte{0x5a});
          wait_until(me.board, "a message", [&] {
            me.check_health("receive");
            return in.receive(target.data(), room, &got, &tag, &has_tag);
          });
          require(got == bytes, "wrong length");
          require(has_tag == (seed % 3 != 0) && tag == (has_tag ? tag_of(seed) : Tag{}), "wrong tag");
          check(target.data(), seed, bytes, "receive");
          for (std::size_t i = 0; i < 64; ++i) require(target[room + i] == std::byte{0x5a}, "stored beyond the target");
        });
  });
}

/// `bytes` of a buffer in `count` runs, apart from each other by three bytes, some of them empty.
std::vector<Run> runs_in(std::vector<std::byte>& buffer, std::size_t bytes, std::size_t count) {
  std::vector<Run> runs;
  std::size_t at = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t here = k + 1 == count ? bytes : k % 5 == 1 ? 0 : bytes / (count - k);
    runs.push_back({buffer.data() + at, here});
    at += here + 3;
    bytes -= here;
  }
  return runs;
}

TEST_P(Channel, MessagesInRunsAreLikeOthers) {
  expect_good({}, [](Rank& me) {
    std::vector<std::byte> whole(300000), buffer(300000), target(300000);
    exchange(
        me,
        [&](Sender& out, std::size_t bytes, std::uint64_t seed) {
          fill(whole, seed, bytes);
          const auto runs = runs_in(buffer, bytes, 1 + seed % 70);
          scatter(runs, whole.data(), 0, bytes);
          std::byte* room = nullptr;
          wait_until(me.board, "room", [&] { return (room = out.acquire(bytes)) != nullptr; });
          const Tag tag = tag_of(seed);
          out.publish_runs(room, runs, bytes, seed % 3 == 0 ? nullptr : &tag);
          std::fill(buffer.begin(), buffer.end(), std::byte{0});  // the source may change at once
        },
        [&](Receiver& in, std::size_t bytes, std::uint64_t seed) {
          // Every fourth is too long or too short for its room, and dropped.
          const bool fits = seed / 2 % 4 != 0 || bytes == 0;
          const auto runs = runs_in(target, fits ? bytes : bytes - 1 + 2 * (seed / 8 % 2), 1 + seed / 2 % 67);
          std::fill(target.begin(), target.end(), std::byte{0x5a});
          std::size_t got = 0;
          Tag tag;
          bool has_tag = false;
          wait_until(me.board, "a message", [&] { return in.receive_runs(runs, &got, &tag, &has_tag); });
          require(got == bytes, "wrong length");
          require(has_tag == (seed % 3 != 0) && (!has_tag || tag == tag_of(seed)), "wrong tag");
          const bool is_untouched = std::count(target.begin(), target.end(), std::byte{0x5a}) == static_cast<long>(target.size());
          if (!fits) return require(is_untouched, "a message that does not fit was stored");
          std::size_t at = 0;
          for (const auto& run : runs) {
            for (std::size_t i = 0; i < run.bytes; ++i) require(run.data[i] == pattern(seed, at + i), "wrong byte of a run");
            require(run.data[run.bytes] == std::byte{0x5a}, "stored behind a run");
            at += run.bytes;
          }
        });
  });
}

TEST_P(Channel, MessageThatIsTooLongIsDroppedWithItsLength) {
  expect_good({}, [](Rank& me) {
    std::vector<std::byte> buffer(300000, std::byte{1}), target(300000, std::byte{7});
    Sender& out = me.to(1 - me.rank);
    Receiver& in = me.from(1 - me.rank);
    for (std::size_t bytes : {1, 17, 100, 5000, 262144}) {
      for (std::size_t room : {std::size_t{0}, bytes / 2, bytes - 1}) {
        me.send(out, buffer.data(), bytes);
        me.send(out, buffer.data(), 3);
        std::size_t got = 0;
        Tag tag;
        bool has_tag = false;
        wait_until(me.board, "a message", [&] { return in.receive(target.data(), room, &got, &tag, &has_tag); });
        require(got == bytes, "the length of the dropped message is wrong");
        require(std::all_of(target.begin(), target.end(), [](std::byte b) { return b == std::byte{7}; }), "a dropped message was stored");
        wait_until(me.board, "a message", [&] { return in.receive(target.data(), 3, &got, &tag, &has_tag); });
        require(got == 3 && target[0] == std::byte{1}, "the message after a dropped one is wrong");
        std::fill_n(target.begin(), 3, std::byte{7});
      }
    }
    me.flush(out);
  });
}

TEST_P(Channel, FullSlotsBlockAndResumeInOrder) {
  for (std::size_t bytes : {std::size_t{8}, std::size_t{200}, std::size_t{262144}}) {
    expect_good({}, [bytes](Rank& me) {
      std::vector<std::byte> buffer(bytes);
      constexpr int kMessages = 500;
      const int total = bytes > 1000 ? 100 : kMessages;
      if (me.rank == 0) {
        Sender& out = me.to(1);
        int sent = 0;
        fill(buffer, 0, bytes);
        // Until nothing goes: at least the slots, and an end to it.
        for (int refused = 0; refused < 2000 && sent < total;) {
          if (out.send(buffer.data(), bytes, nullptr)) {
            fill(buffer, static_cast<std::uint64_t>(++sent), bytes);
            refused = 0;
          } else {
            ++refused;
          }
        }
        require(sent >= 4, "fewer messages in flight than slots: " + std::to_string(sent));
        if (bytes > 1000) require(sent < total, "a sender without a receiver never blocks");
        me.barrier();
        for (; sent < total; fill(buffer, static_cast<std::uint64_t>(++sent), bytes)) me.send(out, buffer.data(), bytes);
        me.flush(out);
      } else {
        Receiver& in = me.from(0);
        me.barrier();
        for (int k = 0; k < total; ++k) {
          const Message& m = me.peek(in);
          require(m.bytes == bytes, "wrong length");
          check(m.data, static_cast<std::uint64_t>(k), bytes, "in order");
          in.release();
        }
      }
    });
  }
}

TEST_P(Channel, ManyPeersAndChannelsAtOnce) {
  Shape shape;
  shape.ranks = 5;
  shape.channels = 2;
  shape.message_bytes = 65536;
  expect_good(shape, [](Rank& me) {
    constexpr int kRounds = 40;
    std::vector<std::byte> buffer(65536), target(65536);
    std::mt19937_64 random(static_cast<std::uint64_t>(me.rank));
    for (int round = 0; round < kRounds; ++round) {
      const auto length = [&](int from, int to, int channel) {
        return static_cast<std::size_t>((from * 7919 + to * 104729 + channel * 31 + round * 1299721) % 65537);
      };
      for (int peer = 0; peer < me.ranks; ++peer) {
        for (int channel = 0; channel < 2 && peer != me.rank; ++channel) {
          const std::size_t bytes = length(me.rank, peer, channel);
          fill(buffer, static_cast<std::uint64_t>(me.rank), bytes);
          me.send(me.to(peer, channel), buffer.data(), bytes);
        }
      }
      for (int peer = me.ranks - 1; peer >= 0; --peer) {
        for (int channel = 0; channel < 2 && peer != me.rank; ++channel) {
          Receiver& in = me.from(peer, channel);
          const Message& m = me.peek(in);
          require(m.bytes == length(peer, me.rank, channel), "wrong length");
          check(m.data, static_cast<std::uint64_t>(peer), m.bytes, "many peers");
          in.release();
        }
      }
    }
    for (int peer = 0; peer < me.ranks; ++peer) {
      for (int channel = 0; channel < 2 && peer != me.rank; ++channel) me.flush(me.to(peer, channel));
    }
  });
}

// What a slot has carried shows both ends whether the peer's memory can be read.
void introduce(Rank& me) {
  std::vector<std::byte> buffer(1000);
  for (const int sender : {0, 1}) {
    if (me.rank == sender) {
      wait_until(me.board, "room", [&] { return me.to(1 - me.rank).send(buffer.data(), buffer.size(), nullptr); });
    } else {
      me.peek(me.from(1 - me.rank));
      me.from(1 - me.rank).release();
    }
  }
  me.barrier();
}

constexpr std::size_t kReferenced[] = {0, 1, 4097, 65536, 262144};

TEST_P(Channel, ReferencesAreReadWhereTheyExist) {
  expect_good({}, [](Rank& me) {
    Sender& out = me.to(1 - me.rank);
    Receiver& in = me.from(1 - me.rank);
    std::vector<std::byte> buffer(262144), target(262144);
    introduce(me);
    if (!out.has_references()) {
      require(!out.send_reference(buffer.data(), 8, nullptr), "a reference without has_references()");
      return;
    }
    for (const std::size_t bytes : kReferenced) {
      for (const bool is_peeked : {false, true}) {
        fill(buffer, bytes + static_cast<std::uint64_t>(me.rank), bytes);
        const Tag tag = tag_of(bytes);
        wait_until(me.board, "room", [&] { return out.send_reference(buffer.data(), bytes, &tag); });
        const std::uint64_t seed = bytes + static_cast<std::uint64_t>(1 - me.rank);
        if (is_peeked) {
          const Message& m = me.peek(in);
          require(m.bytes == bytes && m.tag != nullptr && *m.tag == tag, "not the reference that was sent");
          check(m.data, seed, bytes, "peeked reference");
        }
        std::size_t got = 0;
        Tag seen;
        bool has_tag = false;
        wait_until(me.board, "a reference", [&] { return in.receive(target.data(), bytes, &got, &seen, &has_tag); });
        require(got == bytes && has_tag && seen == tag, "receive of a reference");
        check(target.data(), seed, bytes, "reference");
        wait_until(me.board, "the drain", [&] { return out.is_drained(); });
      }
    }
  });
}

// One rank only sends, and copies its part; the other finds messages out of slots, references and references that became slots in order.
TEST_P(Channel, ReferencesKeepTheirOrderWhoeverCopies) {
  expect_good({}, [](Rank& me) {
    constexpr int kMessages = 300;
    std::vector<std::vector<std::byte>> buffers(4, std::vector<std::byte>(100000));
    introduce(me);
    const auto length = [](int k) { return static_cast<std::size_t>(k % 7 == 0 ? 8 : 100000 - 300 * k); };
    if (me.rank == 0) {
      Sender& out = me.to(1);
      for (int k = 0; k < kMessages; ++k) {
        std::vector<std::byte>& buffer = buffers[static_cast<std::size_t>(k % 4)];
        if (k % 4 == 0) wait_until(me.board, "the drain", [&] { return k % 8 == 0 ? out.copy_references() : out.is_drained(); });
        fill(buffer, static_cast<std::uint64_t>(k), length(k));
        const bool is_reference = out.has_references() && k % 3 != 0;
        wait_until(me.board, "room", [&] {
          return is_reference ? out.send_reference(buffer.data(), length(k), nullptr, k % 2 == 0)
                              : out.send(buffer.data(), length(k), nullptr);
        });
      }
      wait_until(me.board, "the drain", [&] { return out.flush() && out.is_drained(); });
      return;
    }
    std::vector<std::byte> target(100000);
    for (int k = 0; k < kMessages; ++k) {
      std::size_t got = 0;
      Tag seen;
      bool has_tag = false;
      if (k % 5 == 0) me.peek(me.from(0));
      wait_until(me.board, "a message", [&] { return me.from(0).receive(target.data(), target.size(), &got, &seen, &has_tag); });
      require(got == length(k), "wrong length");
      check(target.data(), static_cast<std::uint64_t>(k), got, "order");
    }
  });
}

TEST_P(Channel, AReferenceThatIsTooLongIsDropped) {
  expect_good({}, [](Rank& me) {
    std::vector<std::byte> buffer(50000), target(50000, std::byte{9});
    introduce(me);
    if (me.rank == 0) {
      if (!me.to(1).has_references()) {
        wait_until(me.board, "room", [&] { return me.to(1).send(buffer.data(), buffer.size(), nullptr); });
      } else {
        wait_until(me.board, "room", [&] { return me.to(1).send_reference(buffer.data(), buffer.size(), nullptr, true); });
      }
      wait_until(me.board, "the drain", [&] { return me.to(1).flush() && me.to(1).is_drained(); });
      return;
    }
    std::size_t got = 0;
    Tag seen;
    bool has_tag = false;
    wait_until(me.board, "a message", [&] { return me.from(0).receive(target.data(), 40000, &got, &seen, &has_tag); });
    require(got == 50000, "the length of what was dropped");
    require(target[0] == std::byte{9}, "nothing of it is stored");
  });
}

TEST_P(Channel, SleepWakesForAMessageAndForRoom) {
  expect_good({}, [](Rank& me) {
    std::vector<std::byte> buffer(262144);
    Sender& out = me.to(1 - me.rank);
    Receiver& in = me.from(1 - me.rank);
    // Ping-pong in which whoever waits sleeps: 200 rounds would take minutes if wakes were lost for long.
    const std::int64_t start = now_ns();
    for (int k = 0; k < 200; ++k) {
      const std::size_t bytes = k % 10 == 0 ? 262144 : 8;
      if (me.rank == k % 2) {
        while (!out.send(buffer.data(), bytes, nullptr)) me.transport.sleep(100'000);
        while (!out.flush()) me.transport.sleep(1000);
      } else {
        while (in.peek() == nullptr) {
          me.check_health("sleeping");
          me.transport.sleep(100'000);
          require(now_ns() - start < 20 * kSecond, "sleeps too long");
        }
        in.release();
      }
    }
    // Nothing comes: the sleep ends by itself.
    me.barrier();
    const std::int64_t before = now_ns();
    require(in.peek() == nullptr, "a message that nobody sent");
    me.transport.sleep(5000);
    require(now_ns() - before < 2 * kSecond, "a sleep of 5 ms takes seconds");
    me.barrier();
  });
}

TEST_P(Channel, RandomSoakKeepsEveryByte) {
  Shape shape;
  shape.ranks = 3;
  shape.slots = 2;
  shape.message_bytes = 16384;
  expect_good(shape, [](Rank& me) {
    constexpr int kMessages = 500;
    std::mt19937_64 random(static_cast<std::uint64_t>(me.rank) + 77);
    struct Way {
      int sent = 0;
      int taken = 0;
      bool is_receiving = false;
      std::vector<std::byte> target = std::vector<std::byte>(16384);
      Sender* out = nullptr;
      Receiver* in = nullptr;
    };
    std::vector<Way> ways(static_cast<std::size_t>(me.ranks));
    std::vector<std::byte> buffer(16384);
    const auto seed_of = [](int from, int to, int k) { return static_cast<std::uint64_t>(from * 1000003 + to * 10007 + k); };
    const auto length = [](std::uint64_t seed) {
      return seed % 4 == 0 ? (seed * 2654435761u >> 7) % 16385 : (seed * 2654435761u >> 7) % 200;
    };
    const std::int64_t deadline = now_ns() + 40 * kSecond;
    for (bool done = false; !done;) {
      done = true;
      require(now_ns() < deadline, "the soak hangs");
      require(me.board.is_failed.load() == 0, "another rank failed");
      for (int peer = 0; peer < me.ranks; ++peer) {
        if (peer == me.rank) continue;
        Way& way = ways[static_cast<std::size_t>(peer)];
        if (way.out == nullptr) way.out = &me.to(peer), way.in = &me.from(peer);
        if (way.sent < kMessages && random() % 2 == 0) {
          const std::uint64_t seed = seed_of(me.rank, peer, way.sent);
          fill(buffer, seed, length(seed));
          const Tag tag = tag_of(seed);
          if (way.out->send(buffer.data(), length(seed), seed % 3 == 0 ? nullptr : &tag)) ++way.sent;
        }
        if (way.taken < kMessages && random() % 2 == 0) {
          const std::uint64_t seed = seed_of(peer, me.rank, way.taken);
          if (!way.is_receiving && random() % 2 == 0) {
            if (const Message* m = way.in->peek(); m != nullptr) {
              require(m->bytes == length(seed), "wrong length");
              expect_tag(*m, seed);
              check(m->data, seed, m->bytes, "soak");
              way.in->release();
              ++way.taken;
            }
          } else {
            std::size_t got = 0;
            Tag tag;
            bool has_tag = false;
            // What was begun with one target goes on with it.
            way.is_receiving = !way.in->receive(way.target.data(), way.target.size(), &got, &tag, &has_tag);
            if (way.is_receiving) {
              done = false;
              continue;
            }
            require(got == length(seed), "wrong length");
            check(way.target.data(), seed, got, "soak");
            ++way.taken;
          }
        }
        done = done && way.sent == kMessages && way.taken == kMessages && way.out->flush();
      }
      if (random() % 64 == 0) me.transport.sleep(50);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Channel, testing::ValuesIn(backends()), [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace peal::transport::conformance
