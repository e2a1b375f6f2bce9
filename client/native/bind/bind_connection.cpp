// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <pybind11/stl.h>

#include <filesystem>
#include <optional>
#include <tuple>
#include <utility>

#include "client/lib/artifact/cpu_features.h"
#include "client/lib/artifact/loaded_artifact.h"
#include "client/lib/connect/connection.h"
#include "client/lib/threads/machine_share.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/without_gil.h"
#include "client/native/log/dependency_record.h"
#include "client/native/site/bindings.h"
#include "client/native/trace/pattern_recording.h"
#include "proto/capture_file.h"
#include "proto/dependency_words.h"

namespace ingot::client {
namespace py = pybind11;

namespace {

using Items = std::vector<std::tuple<std::string, std::string, std::string>>;
using Components = std::vector<std::pair<std::string, Items>>;

/// ingotd lies in `bin` beside the extension, in a checkout as in a wheel.
std::string DaemonPath() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&DaemonPath), &info) == 0 || info.dli_fname == nullptr) return "";
  const auto path = std::filesystem::path(info.dli_fname).parent_path() / "bin" / "ingotd";
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path.string() : "";
}

std::unique_ptr<proto::EntryKeyT> MakeKey(const Components& components) {
  auto key = std::make_unique<proto::EntryKeyT>();
  for (const auto& [name, items] : components) {
    auto component = std::make_unique<proto::ComponentT>();
    component->name = name;
    for (const auto& [item_name, hex, text] : items) {
      const Digest digest = DigestFromPython(hex);
      auto item = std::make_unique<proto::ItemT>();
      item->name = item_name;
      item->low = digest.low;
      item->high = digest.high;
      item->text = text;
      component->items.push_back(std::move(item));
    }
    key->components.push_back(std::move(component));
  }
  return key;
}

/// Takes the texts out of `dependencies`.
DependencyRecord RecordOf(std::vector<std::unique_ptr<proto::DependencyT>> dependencies) {
  std::vector<DependencyRow> rows;
  rows.reserve(dependencies.size());
  for (const auto& d : dependencies)
    rows.push_back({std::move(d->kind), std::move(d->where), Digest{d->low, d->high}, std::move(d->text)});
  return DependencyRecord(std::move(rows));
}

py::dict VariantDict(const proto::VariantT& variant, py::object record, UniqueFd file) {
  const Digest digest{variant.artifact_low, variant.artifact_high};
  auto artifact = Unwrap(LoadedArtifact::Open(std::move(file), digest));
  py::dict out;
  out["kind"] = static_cast<int>(variant.kind);
  out["graph"] = Digest{variant.graph_low, variant.graph_high}.ToHex();
  out["artifact_digest"] = digest.ToHex();
  out["artifact_bytes"] = variant.artifact_bytes;
  out["artifact"] = std::const_pointer_cast<LoadedArtifact>(artifact);
  out["signature"] = py::bytes(reinterpret_cast<const char*>(variant.signature.data()), variant.signature.size());
  out["dependencies"] = std::move(record);
  py::list proven;
  for (size_t at = 0; variant.symbol_count > 0 && at + variant.symbol_count <= variant.proven.size();
       at += variant.symbol_count) {
    proven.append(
        std::vector<int64_t>(variant.proven.begin() + at, variant.proven.begin() + at + variant.symbol_count));
  }
  out["proven"] = proven;
  out["range"] = variant.range;
  out["fixed"] = variant.fixed;
  out["symbol_count"] = variant.symbol_count;
  py::list agreed;
  for (const auto& one : variant.agreed) {
    py::dict comparison;
    comparison["when"] = one->when;
    comparison["build"] = one->build;
    comparison["sizes"] = one->sizes;
    comparison["why_not"] = one->why_not;
    agreed.append(comparison);
  }
  out["agreed"] = agreed;
  return out;
}

std::shared_ptr<Connection> OpenConnection(const std::string& store_dir, const std::string& socket, int start_ms_max) {
  ConnectionOptions options;
  options.store_dir = store_dir;
  options.socket = socket;
  options.daemon = DaemonPath();
  options.kind = "python";
  options.start_ms_max = start_ms_max;
  options.hello_ms_max = start_ms_max;
  options.take_load = [](const LoadFiles& files) {
    MachineShare::Instance().Follow(files.own, files.machine, files.row, files.holder);
  };
  Result<std::unique_ptr<Connection>> connection = [&] {
    const WithoutGil released;
    CpuFeatures();  // The first call asks for them: this thread has the time.
    return Connection::Open(std::move(options));
  }();
  return Unwrap(std::move(connection));
}

/// The stable reason of a miss, and the nearest relative where there is one (docs/cli.md).
py::dict MissDict(const proto::MissT& miss) {
  py::dict out;
  out["reason"] = miss.reason;
  if (const Digest nearest{miss.nearest_low, miss.nearest_high}; !nearest.IsZero()) {
    out["nearest"] = nearest.ToHex();
    out["component"] = miss.component;
    out["item"] = miss.item;
    out["stored"] = miss.stored;
    out["asked"] = miss.asked;
  }
  return out;
}

/// {"variants": [...], "why": str, "in_parts": str, "entry": key, "miss": {...}}; a variant whose artifact this machine
/// refuses is left out.
py::dict Lookup(Connection& connection, const Components& components, int deadline_ms, bool again) {
  const auto key = MakeKey(components);
  Result<LookupAnswer> answer = [&] {
    const WithoutGil released;
    return connection.Lookup(*key, deadline_ms, again);
  }();
  LookupAnswer found = Unwrap(std::move(answer));
  py::list variants;
  py::dict out;
  out["why"] = found.reply.why;
  out["in_parts"] = found.reply.in_parts;
  out["entry"] = Digest{found.reply.entry_low, found.reply.entry_high}.ToHex();
  if (found.reply.miss != nullptr) out["miss"] = MissDict(*found.reply.miss);
  for (const auto& variant : found.reply.variants) {
    if (variant->descriptor < 0 || static_cast<size_t>(variant->descriptor) >= found.files.size()) continue;
    try {
      py::object record = py::cast(RecordOf(std::move(variant->dependencies)));
      variants.append(VariantDict(*variant, std::move(record), std::move(found.files[variant->descriptor])));
    } catch (py::error_already_set& e) {
      out["why"] = std::string("stored but rejected: ") + py::str(e.value()).cast<std::string>();
      e.restore();
      DropError();
    }
  }
  out["variants"] = variants;
  return out;
}

/// Name, then the recordings in the order of proto/service.fbs.
using Pattern = std::tuple<std::string, py::bytes, py::bytes, py::bytes, py::bytes>;
using Patterns = std::vector<Pattern>;

/// A slot of the recording and how many ranks its group has; 0 ranks: nothing is asked.
using SequenceParallel = std::pair<uint32_t, uint32_t>;

std::unique_ptr<proto::PatternT> MakePattern(const Pattern& pattern) {
  const auto bytes_of = [](const py::bytes& bytes) {
    const std::string_view view(bytes);
    return std::vector<uint8_t>(view.begin(), view.end());
  };
  auto out = std::make_unique<proto::PatternT>();
  out->name = std::get<0>(pattern);
  out->search = bytes_of(std::get<1>(pattern));
  out->replace = bytes_of(std::get<2>(pattern));
  out->varied_search = bytes_of(std::get<3>(pattern));
  out->varied_replace = bytes_of(std::get<4>(pattern));
  return out;
}

proto::CompileT MakeRequest(const Components& components, std::string_view recording, std::string_view signature,
                            const DependencyRecord& dependencies, bool dynamic, bool eager_numerics,
                            const Patterns& patterns, const SequenceParallel& sequence) {
  proto::CompileT request;
  for (const Pattern& pattern : patterns) request.patterns.push_back(MakePattern(pattern));
  request.dynamic = dynamic;
  request.eager_numerics = eager_numerics;
  std::tie(request.sequence_group, request.sequence_ranks) = sequence;
  request.key = MakeKey(components);
  request.recording.assign(recording.begin(), recording.end());
  request.signature.assign(signature.begin(), signature.end());
  for (const DependencyRow& row : dependencies.rows()) {
    auto dependency = std::make_unique<proto::DependencyT>();
    dependency->kind = row.kind;
    dependency->where = row.where;
    dependency->low = row.digest.low;
    dependency->high = row.digest.high;
    dependency->text = row.text;
    request.dependencies.push_back(std::move(dependency));
  }
  return request;
}

py::dict Compile(Connection& connection, const Components& components, const py::bytes& recording,
                 const py::bytes& signature, const py::object& dependencies, bool dynamic, const std::string& rejected,
                 int deadline_ms, const std::string& range, int range_degree, bool prove_only,
                 std::vector<int64_t> gears, const py::bytes& sibling, bool eager_numerics, const std::string& progress,
                 const Patterns& patterns, const SequenceParallel& sequence) {
  proto::CompileT request =
      MakeRequest(components, std::string_view(recording), std::string_view(signature),
                  dependencies.cast<const DependencyRecord&>(), dynamic, eager_numerics, patterns, sequence);
  request.keeps_dependencies = true;
  request.rejected = rejected;
  request.range = range;
  request.range_degree = static_cast<uint8_t>(range_degree);
  request.prove_only = prove_only;
  request.progress = progress;
  // What cannot be there in time is said at once.
  if (deadline_ms > 0) request.wait_max_ms = static_cast<uint32_t>(deadline_ms);
  request.gears = std::move(gears);
  const std::string_view other(sibling);
  request.sibling.assign(other.begin(), other.end());
  Result<CompileAnswer> answer = [&] {
    const WithoutGil released;
    return connection.Compile(request, deadline_ms);
  }();
  CompileAnswer compiled = Unwrap(std::move(answer));
  py::dict out;
  out["outcome"] = static_cast<int>(compiled.reply.outcome);
  out["total_ms"] = compiled.reply.total_ms;
  out["compile_ms"] = compiled.reply.compile_ms;
  if (compiled.reply.variant == nullptr) Throw(Error(Code::kInternal, "the daemon's reply holds no variant"));
  proto::VariantT& variant = *compiled.reply.variant;
  py::object record =
      compiled.reply.own_dependencies ? dependencies : py::cast(RecordOf(std::move(variant.dependencies)));
  out["variant"] = VariantDict(variant, std::move(record), std::move(compiled.file));
  return out;
}

using Request = std::tuple<Components, py::bytes, py::bytes, DependencyRecord, bool, bool, Patterns, SequenceParallel>;

/// The file of captures given as (components, recording, signature, record, dynamic, eager_numerics, patterns,
/// sequence_parallel).
py::bytes CaptureFile(const std::vector<Request>& requests) {
  std::vector<proto::CompileT> captures;
  for (const auto& [components, recording, signature, dependencies, dynamic, eager_numerics, patterns, sequence] :
       requests) {
    captures.push_back(MakeRequest(components, std::string_view(recording), std::string_view(signature), dependencies,
                                   dynamic, eager_numerics, patterns, sequence));
  }
  const Buffer file = proto::PackCaptures(captures);
  return py::bytes(reinterpret_cast<const char*>(file.data()), file.size());
}

std::shared_ptr<LoadedArtifact> FetchArtifact(Connection& connection, const std::string& hex, int deadline_ms) {
  const Digest digest = DigestFromPython(hex);
  Result<UniqueFd> file = [&] {
    const WithoutGil released;
    return connection.Fetch(digest, deadline_ms);
  }();
  return std::const_pointer_cast<LoadedArtifact>(Unwrap(LoadedArtifact::Open(Unwrap(std::move(file)), digest)));
}

std::string Query(Connection& connection, const std::string& verb, const std::string& json, int deadline_ms) {
  Result<std::string> answer = [&] {
    const WithoutGil released;
    return connection.Query(verb, json, deadline_ms);
  }();
  return Unwrap(std::move(answer));
}

}  // namespace

void BindConnection(py::module_& m) {
  m.def(
      "nothing_stored",
      [](const std::string& store_dir, const std::string& socket) {
        const auto endpoint = proto::ResolveEndpoint(store_dir, socket);
        return endpoint && proto::IsUntouched(*endpoint);
      },
      "Whether neither a store nor a daemon of it is there yet.");
  m.def("cpu_features", CpuFeatures, "Names of /proc/cpuinfo.");
  m.def("dependency_subject", &proto::DependencySubject);
  m.def("dependency_words", [](const std::string& kind, const std::string& where, const std::string& text) {
    return proto::DependencyWords(kind, where, text);
  });
  m.attr("build") = std::string(proto::BuildId());
  m.attr("version") = std::string(proto::Version());
  m.def("capture_file", CaptureFile);
  m.def(
      "pattern_recording",
      [](const py::bytes& recording) {
        const std::string_view view(recording);
        const Buffer bytes = Unwrap(PatternRecording(AsBytes(view)));
        return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      "A recording of a function of a pattern, without what differs from process to process.");
  py::class_<Connection, std::shared_ptr<Connection>>(m, "Connection")
      .def_static("open", OpenConnection, py::arg("store_dir"), py::arg("socket"), py::arg("start_ms_max"))
      .def("lookup", Lookup, py::arg("components"), py::arg("deadline_ms"), py::arg("again") = false)
      .def("compile", Compile, py::arg("components"), py::arg("recording"), py::arg("signature"),
           py::arg("dependencies"), py::arg("dynamic"), py::arg("rejected"), py::arg("deadline_ms"),
           py::arg("range") = "", py::arg("range_degree") = 0, py::arg("prove_only") = false,
           py::arg("gears") = std::vector<int64_t>(), py::arg("sibling") = py::bytes(),
           py::arg("eager_numerics") = false, py::arg("progress") = "", py::arg("patterns") = Patterns(),
           py::arg("sequence_parallel") = SequenceParallel())
      .def("fetch", FetchArtifact, py::arg("digest"), py::arg("deadline_ms") = -1)
      .def("query", Query, py::arg("verb"), py::arg("json") = "{}", py::arg("deadline_ms") = -1)
      .def_property_readonly("daemon_pid", &Connection::daemon_pid);
}

}  // namespace ingot::client
