#include <cli/commands.hpp>

int main(int argc, char** argv) { return peal::cli::run_tool(argc, argv); }
