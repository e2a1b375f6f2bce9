// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot/inspect_files.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/bytes.h"
#include "base/filesystem.h"
#include "daemon/web/picture.h"

namespace ingot::tools {
namespace {

constexpr const char* kGraphviz = "dot";
// People wait for it, and large graphs take long.
constexpr daemon::web::PictureLimits kLimits{std::chrono::seconds(120), 256u << 20, uint64_t{4} << 30};

Status Write(const std::string& path, std::string_view text) {
  std::error_code failed;
  const std::string whole = std::filesystem::absolute(path, failed).string();
  if (failed) return Error(Code::kInvalid, fmt::format("{}: {}", path, failed.message()));
  return RealFilesystem().WriteAtomic(whole, AsBytes(text));
}

Json Slice(std::string name, size_t thread, double begin_s, double seconds, Json about) {
  return {{"ph", "X"},
          {"name", std::move(name)},
          {"pid", 1},
          {"tid", thread},
          {"ts", begin_s * 1e6},
          {"dur", seconds * 1e6},
          {"args", std::move(about)}};
}

Json Name(const char* what, size_t thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", 1}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

Status SaveGraph(Session& session, const std::string& key, const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  const bool is_picture = ending == ".svg" || ending == ".png" || ending == ".pdf";
  if (!is_picture && ending != ".dot") {
    return Error(Code::kInvalid,
                 fmt::format("--graph {}: the ending says what to write; there are .svg, .png, .pdf and .dot", path));
  }
  TRY_ASSIGN(const Json answer, session.Ask("text", {{"graph", key}, {"stage", "dot"}}));
  const auto& dot = answer["text"].get_ref<const std::string&>();
  if (!is_picture) return Write(path, dot);
  const Result<std::string> drawn = daemon::web::Draw(kGraphviz, dot, kLimits, ending.substr(1));
  if (drawn) return Write(path, *drawn);
  if (drawn.error().code() != Code::kNotFound) return drawn.error();
  return Error(Code::kNotFound,
               fmt::format("{}; install it, or write its text with --graph FILE.dot", drawn.error().message()));
}

Status SaveCompiles(const Json& entry, const std::string& path) {
  constexpr std::array kStages = {"passes", "fusion", "codegen", "link", "proof"};
  Json events = Json::array();
  events.push_back(Name("process_name", 0, "compiles of " + entry["function"].get<std::string>()));
  size_t number = 0, told = 0;
  for (const Json& variant : entry["variants"]) {
    const size_t thread = ++number;
    const Json stages = variant.value("stages", Json::object());
    if (stages.empty()) continue;
    ++told;
    events.push_back(Name("thread_name", thread, fmt::format("variant {}", number)));
    const double seconds = variant["compile_s"].get<double>();
    // What is stored is when it was done.
    double at = variant["created"].get<double>() - seconds;
    events.push_back(Slice(
        fmt::format("{} {}", variant["kind"].get<std::string>(), variant["artifact"].get<std::string>().substr(0, 12)),
        thread, at, seconds, {{"graph", variant["graph"]}, {"artifact_bytes", variant["artifact_bytes"]}}));
    for (const char* const stage : kStages) {
      const double took = stages.value(std::string(stage) + "_s", 0.0);
      events.push_back(Slice(stage, thread, at, took, Json::object()));
      at += took;
    }
  }
  if (told == 0) {
    return Error(Code::kNotFound,
                 "no variant of this entry says how long the stages of its compile took: none was "
                 "compiled here or by a daemon that keeps it");
  }
  return Write(path, Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump());
}

}  // namespace ingot::tools
