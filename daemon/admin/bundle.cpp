// SPDX-License-Identifier: Apache-2.0
#include "daemon/admin/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "daemon/cluster/signed_graph.h"
#include "daemon/cluster/signed_variant.h"
#include "daemon/compile/graph_record.h"
#include "daemon/state/convert.h"
#include "daemon/state/variants.h"
#include "proto/cluster_generated.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

Bytes Payload(const flatbuffers::Vector<uint8_t>& field) { return {field.data(), field.size()}; }

void AddRow(const Core& core, BundleReport& report, BundledEntry row) {
  if (report.rows.size() < core.config.list_entries_max) report.rows.push_back(std::move(row));
}

/// Bytes of the local store, past the memory files: what is only copied is not what is served next.
Task<SealedRef> LocalBlob(Core& core, Digest digest, Until until) {
  if (SealedRef open = core.artifacts.Peek(digest)) co_return open;
  co_return co_await core.blobs.Get(digest, until);
}

/// One entry on its way out: its record, and what that names.
struct PackedEntry {
  proto::ClusterEntryT record;
  struct Blob {
    Digest digest;
    SealedRef file;
  };
  std::vector<Blob> blobs;
  struct Graph {
    Digest key;
    proto::ClusterGraphT record;
  };
  std::vector<Graph> graphs;
  /// Variants that nobody vouches for, left out of what is signed.
  size_t unsigned_count = 0;
};

/// What the graph key of a variant came to, where that is stored and is the variant's artifact.
Task<void> PackGraph(Core& core, PackedEntry& out, const proto::StoredVariantT& stored, SealedRef artifact,
                     const std::optional<Voucher>& voucher, Until until) {
  const Digest key{stored.graph_key_low, stored.graph_key_high};
  CO_TRY_ASSIGN(const std::optional<proto::GraphRecordT> record, co_await ReadGraphRecord(core.index, key, until));
  if (!record || record->failure || (voucher && IsUnsigned(*record))) co_return Status();
  if (Digest{record->artifact_low, record->artifact_high} != ArtifactOf(*stored.variant)) co_return Status();
  PackedEntry::Graph graph{.key = key, .record = {}};
  const Buffer shared = SharedBytesOf(*record);
  graph.record.record.assign(shared.begin(), shared.end());
  std::optional<Buffer> envelope = EnvelopeOf(*record, shared);
  if (!envelope && voucher) {
    CO_TRY_ASSIGN(envelope, SignGraph(*voucher, key, *record, shared, artifact->bytes()));
  }
  if (envelope) graph.record.envelope.assign(envelope->begin(), envelope->end());
  out.graphs.push_back(std::move(graph));
  co_return Status();
}

/// `voucher` none: nobody signs.
Task<PackedEntry> PackEntry(Core& core, EntryRef entry, const std::optional<Voucher>& voucher, Until until) {
  PackedEntry out;
  out.record.key = std::make_unique<proto::EntryKeyT>(*entry->record.key);
  for (const auto& stored : entry->record.variants) {
    const Digest artifact = ArtifactOf(*stored->variant);
    const Result<SealedRef> file = co_await LocalBlob(core, artifact, until);
    if (!file && file.error().code() != Code::kNotFound) co_return file.error();
    if (!file) continue;
    if (voucher && IsUnsigned(*stored)) {
      ++out.unsigned_count;
      continue;
    }
    const Buffer variant = proto::PackMessage<proto::StoredVariant>(WithoutOrigins(*stored));
    auto one = std::make_unique<proto::SignedVariantT>();
    one->variant.assign(variant.begin(), variant.end());
    // What another has said of it goes on by its word.
    std::optional<Buffer> envelope = EnvelopeOf(*stored, variant);
    if (!envelope && voucher) {
      CO_TRY_ASSIGN(envelope, SignVariant(*voucher, *entry, *stored, variant, (*file)->bytes()));
    }
    if (envelope) one->envelope.assign(envelope->begin(), envelope->end());
    out.record.variants.push_back(std::move(one));
    out.blobs.push_back({artifact, *file});
    const Digest text{stored->text_low, stored->text_high};
    const Result<SealedRef> graph = co_await LocalBlob(core, text, until);
    // Without it a later size is compiled instead of proved.
    if (graph) out.blobs.push_back({text, *graph});
    CO_TRY(co_await PackGraph(core, out, *stored, *file, voucher, until));
  }
  co_return out;
}

/// A record of a bundle that has been read and judged, without its artifacts.
struct Incoming {
  cache::Key key;
  proto::EntryKeyT stored_key;
  std::vector<ClaimedVariant> variants;
  BundledEntry row;
};

/// kCorrupt: the record is not what its name says.
Result<Incoming> ReadEntry(const BundleReader& reader, const BundleMember& member, const VariantDoor& door) {
  Buffer bytes(member.bytes);
  TRY(reader.Read(member, bytes.data()));
  const auto* shared = proto::ReadMessage<proto::ClusterEntry>(bytes);
  if (shared == nullptr) return Error(Code::kCorrupt, member.Path() + " is no record of an entry");
  Incoming in;
  in.key = ToKey(*shared->key());
  if (in.key.ToDigest() != member.name) {
    return Error(Code::kCorrupt,
                 fmt::format("{} is the record of another key, {}", member.Path(), in.key.ToDigest().ToHex()));
  }
  shared->key()->UnPackTo(&in.stored_key);
  in.row = {.key = member.name, .function = FunctionOf(in.key), .bytes = member.bytes};
  if (shared->variants() == nullptr) return in;
  for (const proto::SignedVariant* one : *shared->variants()) {
    Result<ClaimedVariant> claimed = JudgeVariant(door, in.key, Payload(*one->variant()), Payload(*one->envelope()));
    if (!claimed) return std::move(claimed).error().Wrap(member.Path());
    const proto::StoredVariantT& stored = claimed->stored;
    const BundleMember* const artifact = reader.FindBlob(claimed->received.artifact);
    if (artifact == nullptr) {
      return Error(Code::kCorrupt, fmt::format("{} names the artifact {}, which is not in the bundle", member.Path(),
                                               claimed->received.artifact.ToHex()));
    }
    in.row.bytes += artifact->bytes;
    if (const BundleMember* text = reader.FindBlob({stored.text_low, stored.text_high})) in.row.bytes += text->bytes;
    ++in.row.variants;
    if (claimed->judgement.provenance) in.row.signer = claimed->judgement.provenance->builder.ToHex();
    in.variants.push_back(std::move(claimed).value());
  }
  return in;
}

/// kCorrupt: the record is not what its name says, or of no artifact of the bundle.
Result<ClaimedGraph> ReadGraph(const BundleReader& reader, const BundleMember& member, const VariantDoor& door) {
  Buffer bytes(member.bytes);
  TRY(reader.Read(member, bytes.data()));
  const auto* shared = proto::ReadMessage<proto::ClusterGraph>(bytes);
  if (shared == nullptr) return Error(Code::kCorrupt, member.Path() + " is no record of a graph");
  Result<ClaimedGraph> claimed =
      JudgeGraph(door, std::nullopt, member.name, Payload(*shared->record()), Payload(*shared->envelope()));
  if (!claimed) return std::move(claimed).error().Wrap(member.Path());
  if (claimed->record.failure) return Error(Code::kCorrupt, member.Path() + " says of no artifact what it came to");
  if (reader.FindBlob(claimed->received.artifact) == nullptr) {
    return Error(Code::kCorrupt, fmt::format("{} names the artifact {}, which is not in the bundle", member.Path(),
                                             claimed->received.artifact.ToHex()));
  }
  return claimed;
}

/// Brings the artifact of a graph, and then its record, unless something is known of it here. Whether it came.
Task<bool> TakeGraph(Core& core, const VariantDoor& door, ClaimedGraph& claimed, Until until) {
  const Digest key = claimed.received.graph_key;
  CO_TRY_ASSIGN(const std::optional<proto::GraphRecordT> here, co_await ReadGraphRecord(core.index, key, until));
  if (here && !here->failure) co_return false;
  CO_TRY(co_await BringArtifact(door, claimed, claimed.record.compile_s, until));
  if (!claimed.is_welcome) co_return false;
  CO_TRY(co_await PutGraphRecord(core.index, key, claimed.record, until));
  co_return true;
}

/// What is said of an entry by its variants: how many may come, and of the others why not.
void SayOutcome(Incoming& in) {
  const auto welcome = std::ranges::count_if(in.variants, [](const ClaimedVariant& one) { return one.is_welcome; });
  for (const ClaimedVariant& one : in.variants) {
    if (one.is_welcome) continue;
    in.row.why = fmt::format("{}: {}", NameOf(one.judgement.verdict), one.judgement.text);
    const size_t refused = in.variants.size() - static_cast<size_t>(welcome);
    if (welcome != 0) in.row.why = fmt::format("{} of {} variants: {}", refused, in.variants.size(), in.row.why);
  }
  if (welcome == 0) in.row.outcome = "refused";
  if (in.variants.empty()) in.row.why = "it has no variants";
}

/// Whether the local entry has all of `taken`.
Task<bool> IsKnown(Core& core, const Digest& digest, const proto::EntryRecordT& taken, Until until) {
  const Result<EntryRef> here = co_await core.entries.Get(digest, until);
  if (!here) co_return false;
  proto::EntryRecordT record = (*here)->record;
  for (const auto& variant : taken.variants) {
    if (MergeVariant(record, *variant, core.config)) co_return false;
  }
  co_return true;
}

/// Brings the artifacts of one entry, and then its record.
Task<void> TakeEntry(Core& core, const VariantDoor& door, Incoming& in, Until until) {
  proto::EntryRecordT taken;
  for (ClaimedVariant& claimed : in.variants) {
    CO_TRY(co_await TakeVariant(door, claimed, taken, until));
  }
  SayOutcome(in);
  if (taken.variants.empty()) co_return Status();
  CO_TRY_ASSIGN(const bool is_known, co_await IsKnown(core, in.row.key, taken, until));
  in.row.outcome = is_known ? "known" : "new";
  if (is_known) co_return Status();
  Entries::Change change = [&](proto::EntryRecordT& record) {
    for (const auto& variant : taken.variants) MergeVariant(record, *variant, core.config);
  };
  CO_TRY(co_await core.entries.Update(in.row.key, in.stored_key, std::move(change), until));
  co_return Status();
}

/// Bytes of a bundle as memory that can be served; what is here already is not read again.
Task<SealedRef> BundledBlob(Core& core, const BundleReader& reader, Digest digest, Until until) {
  Result<SealedRef> here = co_await core.artifacts.Get(digest, until);
  if (here) co_return here;
  const BundleMember* const member = reader.FindBlob(digest);
  if (member == nullptr) co_return Error(Code::kNotFound, "no blob " + digest.ToHex() + " in the bundle");
  CO_TRY_ASSIGN(cache::SealedRoom room, cache::SealedRoom::Make(member->bytes));
  CO_TRY(reader.Read(*member, room.data()));
  co_return std::move(room).Seal();
}

/// Counts what became of an entry.
void AddOutcome(const Core& core, BundleReport& report, BundledEntry row) {
  report.refused += row.outcome == "refused";
  report.known += row.outcome == "known";
  report.added += row.outcome == "new";
  AddRow(core, report, std::move(row));
}

/// All records before any: what is no record is damage, and then nothing comes.
Task<void> JudgeRecords(Core& core, const BundleReader& reader, const VariantDoor& door, const ImportOptions& options,
                        BundleReport& report, const Progress& progress, Until until) {
  for (const BundleMember& member : reader.entries()) {
    CO_TRY(until.Check());
    progress.Say("judges entries", report.entries, reader.entries().size());
    CO_TRY_ASSIGN(Incoming in, ReadEntry(reader, member, door));
    ++report.entries;
    report.variants += in.variants.size();
    if (!options.dry_run) continue;
    SayOutcome(in);
    // Of what may come it is not known before its artifact is looked at.
    if (in.row.outcome.empty()) {
      const Result<EntryRef> here = co_await core.entries.Get(member.name, until);
      in.row.outcome = here && !(*here)->record.variants.empty() ? "known" : "new";
    }
    AddOutcome(core, report, std::move(in.row));
  }
  for (const BundleMember& member : reader.graphs()) {
    CO_TRY(until.Check());
    CO_TRY_ASSIGN(const ClaimedGraph claimed, ReadGraph(reader, member, door));
    ++report.graphs;
    if (options.dry_run && !claimed.is_welcome) ++report.graphs_refused;
  }
  co_return Status();
}

Task<void> StoreEntries(Core& core, const BundleReader& reader, const VariantDoor& door, BundleReport& report,
                        const Progress& progress, Until until) {
  size_t done = 0;
  for (const BundleMember& member : reader.entries()) {
    CO_TRY(until.Check());
    progress.Say("stores entries", done++, reader.entries().size());
    CO_TRY_ASSIGN(Incoming in, ReadEntry(reader, member, door));
    const Status took = co_await TakeEntry(core, door, in, until);
    if (!took) {
      co_return Error(report.added == 0 ? took.error().code() : Code::kHalfDone,
                      fmt::format("{}: {}; {} entries before it are imported, and importing again goes on from there",
                                  member.Path(), took.error().message(), report.added));
    }
    if (in.row.outcome == "refused") {
      LogWarn("took nothing from a bundle", {{"function", in.row.function}, {"reason", in.row.why}});
    }
    AddOutcome(core, report, std::move(in.row));
  }
  co_return Status();
}

Task<void> StoreGraphs(Core& core, const BundleReader& reader, const VariantDoor& door, BundleReport& report,
                       Until until) {
  for (const BundleMember& member : reader.graphs()) {
    CO_TRY(until.Check());
    CO_TRY_ASSIGN(ClaimedGraph claimed, ReadGraph(reader, member, door));
    Result<bool> took = co_await TakeGraph(core, door, claimed, until);
    if (!took) co_return std::move(took).error().Wrap(member.Path());
    report.graphs_added += *took;
    report.graphs_refused += !claimed.is_welcome;
    if (claimed.is_welcome) continue;
    LogWarn("took no graph from a bundle", {{"function", claimed.received.function},
                                            {"verdict", NameOf(claimed.judgement.verdict)},
                                            {"reason", claimed.judgement.text}});
  }
  co_return Status();
}

}  // namespace

BundleLimits BundleLimitsOf(const Config& config) {
  return {.bytes_max = config.bundle_bytes_max,
          .members_max = config.bundle_members_max,
          .record_bytes_max = cache::kRecordBytesMax,
          .blob_bytes_max = config.store_value_bytes_max};
}

Task<BundleReport> ExportBundle(Core& core, std::vector<Digest> entries, UniqueFd file, const cache::SigningKey* key,
                                std::string host, const Progress& progress, Until until) {
  std::optional<Voucher> voucher;
  if (key != nullptr) {
    CO_TRY_ASSIGN(const CompilerFacts facts, core.compilers.Facts());
    voucher.emplace(
        Voucher{*key, std::move(host), core.config.cluster_group, facts.identity, facts.level, core.clock.now_s()});
  }
  CO_TRY_ASSIGN(BundleWriter writer, BundleWriter::Create(std::move(file), BundleLimitsOf(core.config)));
  BundleReport report;
  for (size_t i = 0; i < entries.size(); ++i) {
    CO_TRY(until.Check());
    progress.Say("writes entries", i, entries.size());
    const Result<EntryRef> entry = co_await core.entries.Get(entries[i], until);
    if (!entry && entry.error().code() != Code::kNotFound && entry.error().code() != Code::kCorrupt) {
      co_return entry.error();
    }
    PackedEntry out;
    if (entry) {
      CO_TRY_ASSIGN(out, co_await PackEntry(core, *entry, voucher, until));
    }
    if (out.record.variants.empty()) {
      BundledEntry row{.key = entries[i], .outcome = "left out"};
      if (entry) row.function = (*entry)->function;
      row.why = !entry                     ? entry.error().message()
                : out.unsigned_count != 0  ? "nobody vouches for it: it was imported unsigned, and is exported "
                                             "as such alone (--unsigned)"
                : (*entry)->record.failure ? "its compile failed"
                : (*entry)->record.variants.empty() ? "it has no artifact"
                                                    : "its artifacts are gone";
      AddRow(core, report, std::move(row));
      continue;
    }
    // As in a cluster: bytes before the record that names them.
    for (const PackedEntry::Blob& blob : out.blobs) {
      if (writer.Has(BundleKind::kBlob, blob.digest)) continue;
      CO_TRY(writer.Add(BundleKind::kBlob, blob.digest, blob.file->bytes()));
      ++report.blobs;
    }
    for (const PackedEntry::Graph& graph : out.graphs) {
      if (writer.Has(BundleKind::kGraph, graph.key)) continue;
      const Buffer record = proto::PackMessage<proto::ClusterGraph>(graph.record);
      CO_TRY(writer.Add(BundleKind::kGraph, graph.key, record));
      ++report.graphs;
    }
    const Buffer record = proto::PackMessage<proto::ClusterEntry>(out.record);
    CO_TRY(writer.Add(BundleKind::kEntry, entries[i], record));
    ++report.entries;
    report.variants += out.record.variants.size();
  }
  if (report.entries == 0) {
    co_return Error(Code::kNotFound, fmt::format("nothing to export: {} entries were asked for, and none has an "
                                                 "artifact here; `ingot list` shows what is stored",
                                                 entries.size()));
  }
  CO_TRY(writer.Finish());
  report.bytes = writer.bytes();
  LogInfo("exported", {{"entries", report.entries}, {"bytes", report.bytes}, {"signed", voucher.has_value()}});
  co_return report;
}

Task<BundleReport> ImportBundle(Core& core, UniqueFd file, const cache::Trust& trust, ImportOptions options,
                                const Progress& progress, Until until) {
  BundleReader::Progress checked = [&](uint64_t done, uint64_t all) {
    progress.Say("checks bytes", done, all);
    return until.Check();
  };
  CO_TRY_ASSIGN(const BundleReader reader, BundleReader::Open(std::move(file), BundleLimitsOf(core.config), checked));
  VariantDoor door{core.config, core.artifacts, trust, {}};
  door.allow_unsigned = options.allow_unsigned;
  door.target = [&core] { return core.target(); };
  door.blob = [&](Digest digest, Until by) { return BundledBlob(core, reader, digest, by); };
  BundleReport report;
  report.blobs = reader.blobs();
  report.bytes = reader.bytes();
  CO_TRY(co_await JudgeRecords(core, reader, door, options, report, progress, until));
  if (options.dry_run) co_return report;
  CO_TRY(co_await StoreEntries(core, reader, door, report, progress, until));
  CO_TRY(co_await StoreGraphs(core, reader, door, report, until));
  core.sweeper.Wrote();
  LogInfo("imported", {{"entries", report.entries}, {"new", report.added}, {"refused", report.refused}});
  co_return report;
}

}  // namespace ingot::daemon
