// What stands behind the public handles. Private to this room.
#pragma once

#include <comm/core.hpp>
#include <comm/shared_buffer.hpp>
#include <comm/window.hpp>
#include <memory>
#include <peal/communicator.hpp>
#include <vector>

namespace peal {

struct Communicator::Impl {
  std::shared_ptr<comm::Core> core;
  int group_depth = 0;
  std::vector<comm::PairTransfer> group;
};

struct Work::Impl {
  std::shared_ptr<comm::Core> core;
  std::shared_ptr<comm::WorkState> state;
};

struct Window::Impl {
  std::unique_ptr<comm::SharedWindow> window;
};

struct Memory::Impl {
  std::unique_ptr<comm::SharedBuffer> buffer;
};

/// Throws what `status` holds, if anything.
inline void require(const Status& status) {
  if (!status) throw_failure(status.error());
}

}  // namespace peal
