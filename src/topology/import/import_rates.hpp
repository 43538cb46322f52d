// Rates that the readers of other tools' files use where such a file names a kind of link and no rate (data/import/*.yaml).
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <string>
#include <string_view>
#include <topology/graph.hpp>
#include <vector>

#include "wire_figures.hpp"

namespace peal::topology {

class ImportRates {
 public:
  struct Assumed {
    std::string link;  ///< name of a LinkKind
    int links = 0;     ///< only where GPUs have so many NVLinks each; 0: otherwise
    WireFigures rate;
  };
  struct Driver {
    double reported = 0;  ///< GB/s
    WireFigures rate;
  };
  struct Lane {
    std::string speed;  ///< "HDR"
    Bandwidth rate;
    std::string source;
  };

  /// Of data/import, read once a process.
  static Result<const ImportRates*> load();

  /// What is assumed of a link of that kind in a machine whose GPUs have `nvlinks` NVLinks each (0: unknown).
  Result<WireFigures> assumed(std::string_view link, int nvlinks = 0) const;
  /// The specification's rate for the `reported` GB/s of nvidia-smi nvlink --status; null when it is none that is known.
  const WireFigures* of_driver(double reported) const noexcept;
  const Lane* lane(std::string_view speed) const noexcept;
  bool is_whole_gpu(int nvlinks) const noexcept;
  int most_nvlinks() const noexcept { return most_nvlinks_; }

 private:
  static Result<ImportRates> read();
  Status read_file(const std::string& path);
  std::vector<Assumed> assumed_;
  std::vector<Driver> driver_;
  std::vector<Lane> lanes_;
  std::vector<int> whole_;
  int most_nvlinks_ = 0;
};

}  // namespace peal::topology
