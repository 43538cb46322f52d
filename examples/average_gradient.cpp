// Averages a gradient over the ranks of the job:  peal run -n 4 -- ./average_gradient
#include <cstdio>
#include <peal/communicator.hpp>
#include <vector>

int main() try {
  peal::Communicator world = peal::init();
  std::vector<float> gradient(1000, static_cast<float>(world.rank()));
  world.all_reduce(gradient.data(), gradient.data(), gradient.size(), peal::DataType::f32, peal::ReduceOp::avg);
  std::printf("rank %d of %d: every element is %g\n", world.rank(), world.size(), gradient[0]);
  return 0;
} catch (const peal::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
