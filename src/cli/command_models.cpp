// peal models: the models that training is planned and simulated for.
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <memory>
#include <training/model_report.hpp>

namespace peal::cli {

namespace {

struct ModelsWords {
  std::string name, json;
};

Result<std::vector<training::Model>> models_asked_for(const std::string& name) {
  std::vector<std::string> names{name};
  if (name.empty()) {
    PEAL_ASSIGN(names, training::model_names());
  }
  std::vector<training::Model> models;
  for (const std::string& one : names) {
    PEAL_ASSIGN(training::Model model, training::find_model(one));
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace

void add_models(CLI::App& app, Action& action) {
  auto words = std::make_shared<ModelsWords>();
  CLI::App* command =
      app.add_subcommand("models",
                         "List the models of the catalogue: parameters (of which a token meets the active ones), layers, and\n"
                         "floating-point operations to train on one token, forward and backward; or one model, part by part.\n"
                         "Example: peal models llama3-8b");
  command->add_option("model", words->name, "A name of the catalogue, or a file: YAML as in data/models, or a Hugging Face config.json");
  command->add_option("--json", words->json, "Write it as JSON to a file, or - for standard output");
  command->callback([words, &action] {
    action = [words]() -> Result<int> {
      PEAL_TRY(can_write(words->json));
      PEAL_ASSIGN(const std::vector<training::Model> models, models_asked_for(words->name));
      PEAL_TRY(write_report(words->name.empty() ? training::models_text(models) : training::model_text(models[0]), words->json,
                            [&] { return training::models_json(models); }));
      return 0;
    };
  });
}

}  // namespace peal::cli
