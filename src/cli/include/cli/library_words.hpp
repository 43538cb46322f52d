// What another library than Peal would do: a model in place of a scene.
#pragma once

#include <cli/question_words.hpp>
#include <sim/library.hpp>
#include <sim/report.hpp>

namespace peal::cli {

struct LibraryScene {
  sim::LibraryModel model;
  sim::Table table;
  tuning::Call call;  ///< without its size
};

/// Of words whose library is not "peal".
Result<LibraryScene> library_scene_of(const QuestionWords& words);

}  // namespace peal::cli
