// Reading the small files of tests/fixtures, and questions that several tests of importers ask of a graph.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <topology/import.hpp>

#include "golden.hpp"
#include "source_tree.hpp"

namespace peal::topology {

using Reader = Result<Graph> (*)(std::string_view, const std::string&);

inline std::size_t count(const Graph& graph, DeviceKind kind) { return graph.devices_of(kind).size(); }

inline std::string fixture(const std::string& name) { return read_whole(peal::test::in_source("tests/fixtures/") + name); }

/// The graph of a fixture, which must be recognised as `form`.
inline Graph import_fixture(const std::string& name, FileForm form) {
  auto file = import_text(fixture(name), name);
  EXPECT_TRUE(file) << (file ? "" : file.error().message);
  if (!file) return {};
  EXPECT_EQ(file->form, form) << name_of(file->form);
  return std::move(file->graph);
}

inline int count_of(const Graph& graph, DeviceKind kind) { return static_cast<int>(graph.devices_of(kind).size()); }

/// Wires between two devices, of one kind; 0 when there are none.
inline int wires_between(const Graph& graph, std::string_view a, std::string_view b, LinkKind kind) {
  int wires = 0;
  for (const Link& l : graph.links()) {
    const std::string& x = graph.device(l.a).id;
    const std::string& y = graph.device(l.b).id;
    if (l.kind == kind && ((x == a && y == b) || (x == b && y == a))) wires += l.count;
  }
  return wires;
}

/// The only link between two devices.
inline Link link_between(const Graph& graph, std::string_view a, std::string_view b) {
  Link found;
  int count = 0;
  for (const Link& l : graph.links()) {
    const std::string& x = graph.device(l.a).id;
    const std::string& y = graph.device(l.b).id;
    if ((x == a && y == b) || (x == b && y == a)) {
      found = l;
      ++count;
    }
  }
  EXPECT_EQ(count, 1) << a << " - " << b;
  return found;
}

inline std::vector<std::string> ids_of(const Graph& graph, DeviceKind kind) {
  std::vector<std::string> ids;
  for (int d : graph.devices_of(kind)) ids.push_back(graph.device(d).id);
  return ids;
}

inline const Device& device_of(const Graph& graph, std::string_view id) {
  EXPECT_GE(graph.find(id), 0) << id;
  return graph.device(std::max(graph.find(id), 0));
}

inline std::string warnings_of(const Graph& graph) {
  std::string all;
  for (const std::string& w : graph.warnings()) all += w + "\n";
  return all;
}

}  // namespace peal::topology
