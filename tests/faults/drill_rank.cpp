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
      peal::Work work = world.all_gather_async(in.data(), out.data(), 100, peal::DataType::f32);
      work.wait();
    }
  } catch (const peal::Error& error) {
    std::printf("fault %d %d %d %s | %s\n", rank, static_cast<int>(error.code()), error.rank(), error.operation().c_str(), error.what());
    std::fflush(stdout);
    return 3;
  }
}
