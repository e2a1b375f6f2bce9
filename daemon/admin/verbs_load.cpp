// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "daemon/admin/verbs.h"

namespace ingot::daemon {
namespace {

/// Shown of a program's name.
constexpr size_t kProgramBytesMax = 80;
/// Clients shown, those that use most.
constexpr size_t kClientsShown = 64;

/// Of /proc: a part of it whose length nobody promises.
std::string BeginningOf(const std::string& path) {
  constexpr size_t kBytesMax = 4096;
  std::ifstream file(path, std::ios::binary);
  std::string text(kBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// "serve", "python3 serve.py", "python3 -m vllm": an interpreter's name alone says nothing.
std::string ProgramOf(pid_t pid) {
  if (pid <= 0) return "";
  const std::string folder = fmt::format("/proc/{}/", pid);
  std::string name = BeginningOf(folder + "comm");
  if (name.ends_with('\n')) name.pop_back();
  if (!name.starts_with("python")) return name;
  std::string words = BeginningOf(folder + "cmdline");
  for (size_t at = words.find('\0'); at != std::string::npos && at + 1 < words.size(); at = words.find('\0', at + 1)) {
    const std::string word = words.substr(at + 1, words.find('\0', at + 1) - at - 1);
    // Its argument is a program, and may be long.
    if (word == "-c") break;
    if (word == "-m") {
      name += " -m";
    } else if (!word.starts_with("-")) {
      name += " " + BaseName(word);
      break;
    }
  }
  return name.substr(0, kProgramBytesMax);
}

/// Numbers for eyes.
double Rounded(double value) { return std::round(value * 100) / 100; }
Json Known(const std::optional<double>& value) { return value ? Json(Rounded(*value)) : Json(); }

}  // namespace

Json LoadJson(const Core& core) {
  LoadBoard::Facts facts = core.load.facts();
  double running = 0;
  for (const LoadBoard::ClientFacts& client : facts.clients) running += client.running;
  std::ranges::stable_sort(facts.clients, std::ranges::greater(), &LoadBoard::ClientFacts::used);
  const size_t count = facts.clients.size();
  facts.clients.resize(std::min(count, kClientsShown));
  Json clients = Json::array();
  for (const LoadBoard::ClientFacts& client : facts.clients) {
    clients.push_back({{"pid", client.pid},
                       {"program", ProgramOf(client.pid)},
                       {"running", Rounded(client.running)},
                       {"threads", Rounded(client.threads)},
                       {"processors", Rounded(client.used)},
                       {"share", Rounded(client.share)},
                       {"calls_per_s", Rounded(client.calls_per_s)}});
  }
  return {{"processors", facts.processors}, {"busy", Known(facts.busy)}, {"others", Known(facts.others)},
          {"running", Rounded(running)},    {"clients_sharing", count},  {"clients", std::move(clients)}};
}

Task<Json> LoadVerb(const VerbCall& call) { co_return LoadJson(call.core); }

}  // namespace ingot::daemon
