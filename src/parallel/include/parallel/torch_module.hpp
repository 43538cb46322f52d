// What the module with libtorch in it (torch/) shows to who loads it.
#pragma once

#include <parallel/arithmetic.hpp>

namespace peal::parallel {

inline constexpr int kTorchModuleVersion = 2;  ///< changes with Arithmetic: a module of another build is refused
inline constexpr const char* kTorchModuleFile = "libpeal_torch.so";
inline constexpr const char* kTorchModuleWord = "peal_torch_arithmetic";

}  // namespace peal::parallel

/// Null for another version.
extern "C" __attribute__((visibility("default"))) const peal::parallel::Arithmetic* peal_torch_arithmetic(int version);
