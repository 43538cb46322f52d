// A model in training as one file: every parameter and its two moments whole, by name, so that any layout can go on from it.
//
//   peal-checkpoint 1
//   shape LAYERS HIDDEN HEADS FFN VOCAB POSITIONS
//   experts COUNT CHOSEN                 (of a model that has them)
//   steps STEPS
//   tensor KIND NAME ELEMENTS            (KIND: parameter, first, second; data follow in this order)
//   data
//   f32, little endian, nothing between
#pragma once

#include <parallel/gpt_trainer.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace peal::parallel {

struct CheckpointTensor {
  Kept kept = Kept::parameter;
  std::string name;
  std::int64_t elements = 0;
  std::int64_t offset = 0;  ///< in the file, bytes
  bool operator==(const CheckpointTensor&) const = default;
};

struct CheckpointHead {
  std::int64_t layers = 0, hidden = 0, heads = 0, ffn = 0, vocab = 0, positions = 0;
  std::int64_t experts = 0, chosen = 0;  ///< of a layer, of a token
  std::int64_t steps = 0;
  std::vector<CheckpointTensor> tensors;
  std::int64_t file_bytes = 0;  ///< of head and data
};

inline constexpr std::size_t kMostTensors = 1 << 20;  ///< of a file: no more are written, and no more are read

CheckpointHead checkpoint_head(const training::Transformer& shape, std::int64_t steps);
std::string head_text(const CheckpointHead& head);
/// The first bytes of a file, at least as far as "data"; fails with one sentence. `where` is for messages.
Result<CheckpointHead> parse_head(std::string_view text, const std::string& where);
/// Of a file, however long its head is.
Result<CheckpointHead> read_head(const std::string& path);

/// Before somebody trains for it: can rank 0 write such a model there? Leaves nothing behind.
Status check_can_save(const training::Transformer& shape, const std::string& path);
/// Before ranks start: is the file a whole checkpoint of such a model?
Status check_can_load(const training::Transformer& shape, const std::string& path);

/// Rank 0 writes the file beside its place and moves it there when it is whole: whoever reads it finds the old one or the new one.
/// Collective.
Status save_checkpoint(GptTrainer& trainer, const std::string& path, const std::shared_ptr<comm::Core>& world);
/// Every rank reads its own parts of the file.
Status load_checkpoint(GptTrainer& trainer, const std::string& path);

}  // namespace peal::parallel
