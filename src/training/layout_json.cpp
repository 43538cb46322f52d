#include "layout_json.hpp"

namespace peal::training {

nlohmann::ordered_json layout_json(const Layout& l) {
  nlohmann::ordered_json json;
  for (int d = 0; d < kDimensions; ++d) json[std::string(name_of(static_cast<Dimension>(d)))] = l.size_of(static_cast<Dimension>(d));
  json["vpp"] = l.vpp;
  json["zero"] = l.zero;
  json["zero_group"] = l.zero_group;
  json["sequence_parallel"] = l.has_sequence_parallel;
  json["micro_batch"] = l.micro_batch;
  json["global_batch"] = l.global_batch;
  json["micro_batches"] = l.micro_batches();
  json["pipeline"] = name_of(l.pipeline);
  json["recompute"] = name_of(l.recompute);
  json["precision"] = name_of(l.precision);
  json["order"] = nlohmann::ordered_json::array();
  for (const Dimension dimension : l.order) json["order"].push_back(name_of(dimension));
  json["gpus"] = l.gpus();
  json["words"] = describe(l);
  json["options"] = options_of(l);
  return json;
}

}  // namespace peal::training
