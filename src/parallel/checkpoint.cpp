#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <base/file_descriptor.hpp>
#include <base/write_all.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <parallel/checkpoint.hpp>
#include <parallel/gradient_check.hpp>
#include <tuple>

namespace peal::parallel {

namespace {

namespace fs = std::filesystem;
constexpr Kept kStored[] = {Kept::parameter, Kept::first_moment, Kept::second_moment};

// A file beside its place that is gone unless it is moved there.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), partial_(fmt::format("{}.{}.partial", path, ::getpid())) {}
  ~NewFile() {
    if (file_) ::unlink(partial_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  Status open() {
    if (std::error_code error; fs::is_directory(path_, error))
      return fail(ErrorCode::invalid_argument, "{} is a folder; give a file in it", path_);
    file_ = FileDescriptor(::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file_)
      return fail(ErrorCode::invalid_argument, "cannot write {}: {}; give a file in a folder that you may write to", path_,
                  errno_text(errno));
    return {};
  }
  Status write(const void* data, std::size_t bytes) { return write_all(file_.get(), data, bytes, path_); }
  Status keep() {
    if (::fsync(file_.get()) != 0 || ::rename(partial_.c_str(), path_.c_str()) != 0)
      return fail(ErrorCode::system, "cannot finish {}: {}", path_, errno_text(errno));
    file_.reset();
    return {};
  }

 private:
  std::string path_, partial_;
  FileDescriptor file_;
};

// Rank 0's success is everybody's: the others learn of its failure and stop, too.
Status agree(Status mine, const std::shared_ptr<comm::Core>& world) {
  Group all(world);
  float failures = mine ? 0.0F : 1.0F;
  PEAL_TRY(all.sum(&failures, 1));
  if (mine && failures > 0) return fail(ErrorCode::aborted, "rank 0 could not write the checkpoint");
  return mine;
}

Status same_shape(const CheckpointHead& head, const training::Transformer& s, const std::string& path) {
  const CheckpointHead own = checkpoint_head(s, head.steps);
  if (head.tensors == own.tensors && head.heads == own.heads && head.experts == own.experts && head.chosen == own.chosen) return {};
  std::string more = head.experts > 0 ? fmt::format(" --experts {} --chosen {}", head.experts, head.chosen) : std::string();
  const bool is_tied = std::none_of(head.tensors.begin(), head.tensors.end(), [](const auto& each) { return each.name == "head.weight"; });
  if (is_tied) more += " --tie-embeddings";
  if (is_tied == s.ties_embeddings &&
      std::tie(head.layers, head.hidden, head.heads, head.ffn, head.vocab, head.positions, head.experts, head.chosen) ==
          std::tie(own.layers, own.hidden, own.heads, own.ffn, own.vocab, own.positions, own.experts, own.chosen))
    return fail(ErrorCode::corrupt, "{} does not list the tensors of its model; take another checkpoint", path);
  return fail(ErrorCode::invalid_argument,
              "{} is of another model; give what it was trained with: --layers {} --hidden {} --heads {} --ffn {} --seq {}{}", path,
              head.layers, head.hidden, head.heads, head.ffn, head.positions, more);
}

// Of a file that is whole and of that model.
Result<CheckpointHead> head_for(const training::Transformer& shape, const std::string& path) {
  PEAL_ASSIGN(CheckpointHead head, read_head(path));
  PEAL_TRY(same_shape(head, shape, path));
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) return fail(ErrorCode::system, "cannot read the checkpoint {}: {}", path, error.message());
  if (static_cast<std::int64_t>(bytes) == head.file_bytes) return head;
  return fail(ErrorCode::corrupt, "{} has {} bytes and should have {}: it was cut off; take another checkpoint", path, bytes,
              head.file_bytes);
}

Status check_count(const training::Transformer& shape) {
  const std::size_t tensors = std::size(kStored) * all_parameters_of(shape).size();
  if (tensors <= kMostTensors) return {};
  return fail(
      ErrorCode::unsupported,
      "the model has {} tensors with their moments, and a checkpoint holds {}; give fewer --layers or --experts, or leave --save out",
      tensors, kMostTensors);
}

}  // namespace

Status check_can_save(const training::Transformer& shape, const std::string& path) {
  PEAL_TRY(check_count(shape));
  return NewFile(path).open();
}

Status save_checkpoint(GptTrainer& trainer, const std::string& path, const std::shared_ptr<comm::Core>& world) {
  const bool is_writer = world == nullptr || world->rank() == 0;
  const training::Transformer& shape = trainer.job().model.transformer;
  PEAL_TRY(check_count(shape));
  const CheckpointHead head = checkpoint_head(shape, trainer.stage().steps_taken());
  NewFile file(path);
  Status written;
  if (is_writer) {
    written = file.open();
    const std::string text = head_text(head);
    if (written) written = file.write(text.data(), text.size());
  }
  for (const Kept kept : kStored) {
    for (const ParameterSpec& spec : all_parameters_of(shape)) {
      PEAL_ASSIGN(const Buffer whole, collect_whole(trainer.stage(), kept, spec, world));
      if (is_writer && written) written = file.write(whole.data(), whole.size() * sizeof(float));
    }
  }
  if (is_writer && written) written = file.keep();
  return agree(written, world);
}

Status check_can_load(const training::Transformer& shape, const std::string& path) {
  PEAL_TRY(head_for(shape, path));
  return {};
}

Status load_checkpoint(GptTrainer& trainer, const std::string& path) {
  PEAL_ASSIGN(const CheckpointHead head, head_for(trainer.job().model.transformer, path));
  std::ifstream file(path, std::ios::binary);
  for (const CheckpointTensor& tensor : head.tensors) {
    Buffer whole = floats(tensor.elements);
    file.seekg(tensor.offset);
    file.read(reinterpret_cast<char*>(whole.data()), static_cast<std::streamsize>(whole.size() * sizeof(float)));
    if (!file) return fail(ErrorCode::system, "cannot read {} of {}: {}", tensor.name, path, errno_text(errno));
    trainer.stage().each_element(tensor.kept, tensor.name, false,
                                 [&](std::int64_t index, float& value) { value = whole[static_cast<std::size_t>(index)]; });
  }
  trainer.stage().set_steps_taken(head.steps);
  return {};
}

}  // namespace peal::parallel
