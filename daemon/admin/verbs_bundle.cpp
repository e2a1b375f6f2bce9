// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "daemon/admin/bundle.h"
#include "daemon/admin/selection.h"
#include "daemon/admin/verbs.h"

namespace ingot::daemon {
namespace {

Json ReportJson(const BundleReport& report) {
  Json rows = Json::array();
  for (const BundledEntry& row : report.rows) {
    rows.push_back({{"key", row.key.ToHex()},
                    {"function", row.function},
                    {"variants", row.variants},
                    {"bytes", row.bytes},
                    {"signer", row.signer},
                    {"outcome", row.outcome},
                    {"why", row.why}});
  }
  return {{"entries", report.entries},
          {"variants", report.variants},
          {"blobs", report.blobs},
          {"bytes", report.bytes},
          {"new", report.added},
          {"known", report.known},
          {"refused", report.refused},
          {"graphs", report.graphs},
          {"graphs_new", report.graphs_added},
          {"graphs_refused", report.graphs_refused},
          {"rows", rows}};
}

}  // namespace

Task<Json> ExportVerb(const VerbCall& call) {
  CO_TRY_ASSIGN(UniqueFd file, call.File());
  CO_TRY_ASSIGN(std::vector<Digest> entries, co_await SelectEntries(call));
  CO_TRY_ASSIGN(const TrustFiles files, OpenTrustFiles(call.core.config));
  const bool is_unsigned = call.Flag("unsigned");
  if (files.key == nullptr && !is_unsigned) {
    co_return Error(Code::kNotFound,
                    "there is no private key to sign the bundle with: `ingot trust keygen NAME` makes "
                    "one; --unsigned writes a bundle that nobody vouches for, which others take only "
                    "where they say --allow-unsigned");
  }
  const Progress progress(call.Text("progress"));
  const cache::SigningKey* const key = is_unsigned ? nullptr : files.key.get();
  CO_TRY_ASSIGN(const BundleReport report, co_await ExportBundle(call.core, std::move(entries), std::move(file), key,
                                                                 files.host, progress, call.until));
  Json out = {{"signer", key == nullptr ? "" : key->public_key().id().ToHex()},
              {"signer_name", key == nullptr ? "" : key->public_key().name}};
  Json counts = ReportJson(report);
  for (const char* name : {"entries", "variants", "blobs", "graphs", "bytes"}) out[name] = counts[name];
  out["left_out"] = std::move(counts["rows"]);
  co_return out;
}

Task<Json> ImportVerb(const VerbCall& call) {
  CO_TRY_ASSIGN(UniqueFd file, call.File());
  CO_TRY_ASSIGN(const TrustFiles files, OpenTrustFiles(call.core.config));
  Ignore(files.trust->Refresh(), "each record is then refused for it, by name");
  const ImportOptions options{.allow_unsigned = call.Flag("allow_unsigned"), .dry_run = call.Flag("dry_run")};
  const Progress progress(call.Text("progress"));
  CO_TRY_ASSIGN(const BundleReport report,
                co_await ImportBundle(call.core, std::move(file), *files.trust, options, progress, call.until));
  Json out = {{"dry_run", options.dry_run}};
  out.update(ReportJson(report));
  co_return out;
}

}  // namespace ingot::daemon
