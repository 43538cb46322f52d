// A rank that calls collectives without end, until a fault ends it. Prints one line when it is ready and one line with the fault.
#include <peal/communicator.hpp>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main() {
  int rank = -1;
  try {
    peal::Communicator world = peal::init();
    rank = world.rank();
    peal::Communicator part = world.split(rank % 2);
    std::vector<float> in(100000, 1.0f), out(100000);
    world.barrier();
    std::printf("ready %d\n", rank);
    std::fflush(stdout);
    for (std::size_t count = 1;; count = count * 7 % 99991 + 1) {
      world.all_reduce(in.data(), out.data(), count, peal::DataType::f32);
      if (out[0] != static_cast<float>(world.size()) || out[count - 1] != static_cast<float>(world.size())) {
        std::printf("wrong %d\n", rank);
        return 4;
      }
      part.all_reduce(in.data(), out.data(), count % 1000 + 1, peal::DataType::f32);
      world.broadcast(in.data(), out.data(), count, peal::DataType::f32, static_cast<int>(count % static_cast<std::size_t>(world.size())));
      // Of 64 to 256 KiB between ranks with a core each: read in the neighbour's memory.
      in[count - 1] = static_cast<float>(count + static_cast<std::size_t>(rank));
      const int next = (rank + 1) % world.size(), before = (rank + world.size() - 1) % world.size();
      world.group_start();
      world.send(in.data(), count, peal::DataType::f32, next);
      world.receive(out.data(), count, peal::DataType::f32, before);
      world.group_end();
      if (out[count - 1] != static_cast<float>(count + static_cast<std::size_t>(before))) {
        std::printf("wrong %d\n", rank);
        return 4;
      }
      in[count - 1] = 1.0f;
      peal::Work work = world.all_gather_async(in.data(), out.data(), 100, peal::DataType::f32);
      work.wait();
    }
  } catch (const peal::Error& error) {
    std::printf("fault %d %d %d %s | %s\n", rank, static_cast<int>(error.code()), error.rank(), error.operation().c_str(), error.what());
    std::fflush(stdout);
    return 3;
  }
}
