// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot-compile/program_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/import/import.h"
#include "compiler/ir/text.h"
#include "guards/guard_set.h"

namespace ingot::tools {
namespace {

using client::ArchiveSymbol;
using compiler::Graph;
using Sizes = std::vector<int64_t>;

/// Samples lie this close to the lower bound: they are runs, and small ones are quick.
constexpr int64_t kSpanMax = 97;
/// Unifying guesses from two samples; another pair may guess right.
constexpr int kAttempts = 3;

Result<size_t> FindSymbol(const client::ExportArchive& archive, const std::string& name) {
  const auto& symbols = archive.symbols();
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i].name == name) return i;
  }
  std::string places;
  for (const client::ArchiveInput& input : archive.inputs()) {
    for (size_t dim = 0; dim < input.sizes.size(); ++dim) {
      const auto symbol = input.sizes[dim].lone_symbol();
      if (!symbol) continue;
      const std::string place = fmt::format("{}.{}", input.name, dim);
      if (place == name) return *symbol;
      places += (places.empty() ? "" : ", ") + place;
    }
  }
  return Error(Code::kInvalid,
               fmt::format("'{}' is no dynamic size of this archive; it has {}. Sizes that torch.export fixed "
                           "cannot be freed: export again with dynamic_shapes",
                           name, places.empty() ? "none" : places));
}

class GraphMaker {
 public:
  explicit GraphMaker(client::ExportArchive& archive) : archive_(archive), ranges_(archive.symbols()) {}

  Status Choose(const SizeChoice& choice) {
    TRY_ASSIGN(const size_t symbol, FindSymbol(archive_, choice.name));
    ArchiveSymbol& range = ranges_[symbol];
    const std::optional<int64_t> max = choice.max ? choice.max : range.max;
    const bool outside = choice.min < range.min || (range.max && choice.min > *range.max) ||
                         (max && (*max < choice.min || (range.max && *max > *range.max)));
    if (outside) {
      return Error(Code::kInvalid, fmt::format("'{}' may be {}..{} in this archive", choice.name, range.min,
                                               range.max ? std::to_string(*range.max) : ""));
    }
    range.min = choice.min;
    range.max = max;
    return {};
  }

  Result<ProgramGraph> Make() {
    TRY(CheckPlaces());
    std::string why;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const auto near = Near(Sample(attempt, 1, 2));
      const auto other_near = near ? Near(Sample(attempt, 4, 6), {}, *near) : std::nullopt;
      if (!other_near) {
        return Error(Code::kInvalid,
                     fmt::format("no two sizes were found that the program is for: {}{}",
                                 archive_.conditions().ToText(), IsOpen() ? "; give sizes with --static" : ""));
      }
      const Sizes &first = *near, &second = *other_near;
      TRY_ASSIGN(Graph one, Import(first));
      // Where nothing is free, all samples are the same.
      if (!IsOpen()) return ProgramGraph{std::move(one), {}, {}, {}, {}};
      TRY_ASSIGN(const Graph other, Import(second));
      Result<Graph> both = compiler::Unify(one, other);
      if (!both) {
        why = both.error().message();
        continue;
      }
      ProgramGraph made{*std::move(both), {}, {}, {}, {}};
      TRY(NameSymbols(made));
      TRY(NameConditions(made));
      for (const Graph* run : {static_cast<const Graph*>(&one), &other}) {
        TRY_ASSIGN(Sizes values, compiler::SymbolsOf(made.graph, *run));
        made.proven.push_back(std::move(values));
      }
      TRY_ASSIGN(const bool holds, Check(made, first, second, why));
      if (holds) return made;
    }
    return Error(Code::kUnsupported,
                 fmt::format("no graph with symbolic sizes is this program: {}; give sizes with --static", why));
  }

 private:
  /// A range can be checked at a call only where the size itself is one of an input.
  Status CheckPlaces() const {
    std::vector<std::string> found(ranges_.size()), others(ranges_.size());
    for (const client::ArchiveInput& input : archive_.inputs()) {
      for (size_t dim = 0; dim < input.sizes.size(); ++dim) {
        const std::string place = fmt::format("{}.{}", input.name, dim);
        if (const auto symbol = input.sizes[dim].lone_symbol()) {
          found[*symbol] = place;
        } else if (const uint16_t count = input.sizes[dim].SymbolCount(); count > 0) {
          others[count - 1] = fmt::format("size {} follows from it", place);
        }
      }
    }
    for (size_t i = 0; i < ranges_.size(); ++i) {
      if (ranges_[i].min == ranges_[i].max || !found[i].empty() || others[i].empty()) continue;
      const std::string& name = ranges_[i].name;
      return Error(Code::kUnsupported,
                   fmt::format("'{}' is no size of an input by itself ({}); give it a value: --static {}=N", name,
                               others[i], name));
    }
    return {};
  }

  /// Symbol i at its own distance from its lower bound, so that no size is mistaken for another.
  Sizes Sample(int attempt, int64_t base, int64_t step) const {
    Sizes values;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const int64_t low = Low(i);
      const int64_t span = ranges_[i].max ? std::min(*ranges_[i].max - low + 1, kSpanMax) : kSpanMax;
      const int64_t distance = base + step * static_cast<int64_t>(i) + attempt * (base + 2);
      // A narrow range still gives two samples that differ.
      values.push_back(low + (span > 2 ? distance % span : base > 1 ? span - 1 : 0));
    }
    return values;
  }

  /// Sizes 0 and 1 behave unlike all others; what holds for those is checked apart.
  int64_t Low(size_t symbol) const {
    const ArchiveSymbol& range = ranges_[symbol];
    return range.max ? std::min(*range.max, std::max<int64_t>(range.min, 2)) : std::max<int64_t>(range.min, 2);
  }

  bool IsOpen() const {
    return std::ranges::any_of(ranges_, [](const ArchiveSymbol& symbol) { return symbol.max != symbol.min; });
  }

  /// Sizes that the program is for, and are in their ranges: these, or others that are as different from each other.
  /// Symbol `kept` stays as it is; each open one is another than in `others`.
  std::optional<Sizes> Near(const Sizes& wanted, std::optional<size_t> kept = std::nullopt,
                            const Sizes& others = {}) const {
    constexpr uint64_t kTries = 4096, kMoved = 64;
    uint64_t drawn = 1;
    for (uint64_t turn = 0; turn < kTries; ++turn) {
      Sizes values = wanted;
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t low = Low(i), high = std::min(ranges_[i].max.value_or(INT64_MAX), low + kSpanMax);
        drawn = drawn * 6364136223846793005u + 1442695040888963407u;
        const int64_t moved = turn < kMoved
                                  ? values[i] + static_cast<int64_t>(turn)
                                  : low + static_cast<int64_t>((drawn >> 33) % static_cast<uint64_t>(high - low + 1));
        if (i != kept) values[i] = std::clamp(moved, std::min(low, values[i]), std::max(high, values[i]));
      }
      bool fits = archive_.conditions().Holds(values);
      for (size_t i = 0; i < others.size(); ++i) {
        fits &= values[i] != others[i] || ranges_[i].min == ranges_[i].max;
      }
      if (fits) return values;
    }
    return std::nullopt;
  }

  /// The conditions of the archive over the symbols of the graph.
  Status NameConditions(ProgramGraph& made) const {
    std::vector<guards::Dim> by(ranges_.size());
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const ArchiveSymbol& range = ranges_[i];
      const auto is_it = [&range](const GraphSymbol& symbol) { return symbol.archive_name == range.name; };
      const auto found = std::ranges::find_if(made.symbols, is_it);
      const auto uses = [i](const guards::Guard& guard) { return guard.value.Uses(static_cast<uint16_t>(i)); };
      if (found != made.symbols.end()) {
        by[i] = guards::Dim::Symbol(static_cast<uint16_t>(found - made.symbols.begin()));
      } else if (range.min == range.max) {
        by[i] = range.min;
      } else if (std::ranges::any_of(archive_.conditions().guards(), uses)) {
        return Error(Code::kUnsupported, fmt::format("the program is guarded by '{}', which is no size of its graph; "
                                                     "give it a value: --static {}=N",
                                                     range.name, range.name));
      }
    }
    TRY_ASSIGN(const guards::GuardSet conditions,
               archive_.conditions().Substitute(by, [](const guards::Property&) { return guards::Dim(); }));
    made.conditions = conditions.ToText();
    return {};
  }

  Result<Graph> Import(const Sizes& values) {
    TRY_ASSIGN(const Buffer recording, archive_.Record(values, IsOpen()));
    return compiler::ImportRecording(recording);
  }

  Status NameSymbols(ProgramGraph& made) const {
    for (const compiler::SymbolSource& source : made.graph.symbols) {
      if (source.input >= archive_.inputs().size()) return Error(Code::kInternal, "a symbol of no input");
      const client::ArchiveInput& input = archive_.inputs()[source.input];
      const std::string place = fmt::format("{}.{}", input.name, source.dim);
      const auto symbol = input.sizes[source.dim].lone_symbol();
      if (!symbol) {
        return Error(Code::kUnsupported, fmt::format("size {} comes before the size it follows from", place));
      }
      made.symbols.push_back({ranges_[*symbol].name, place, ranges_[*symbol].min, ranges_[*symbol].max});
    }
    return {};
  }

  /// Runs at the smallest sizes, at each size alone, and at others; a run that differs at sizes below
  /// 2 narrows the range, any other refutes the template.
  Result<bool> Check(ProgramGraph& made, const Sizes& first, const Sizes& second, std::string& why) {
    std::vector<Sizes> samples{Sample(0, 7, 3), Sample(1, 11, 5)};
    samples.emplace_back();
    for (size_t i = 0; i < ranges_.size(); ++i) samples.back().push_back(Low(i));
    for (size_t i = 0; i < ranges_.size() && ranges_.size() > 1; ++i) {
      samples.push_back(first);
      samples.back()[i] = second[i];
    }
    for (const Sizes& wanted : samples) {
      const auto sample = Near(wanted);
      if (!sample) continue;
      TRY_ASSIGN(const bool same, IsInstance(made, *sample));
      if (same) continue;
      why = fmt::format("runs at sizes {} do not fit those at others", TextOf(*sample));
      return false;
    }
    return CheckSmall(made, first);
  }

  Result<bool> CheckSmall(ProgramGraph& made, const Sizes& first) {
    for (GraphSymbol& symbol : made.symbols) {
      TRY_ASSIGN(const size_t index, FindSymbol(archive_, symbol.archive_name));
      for (int64_t size = 1; size >= symbol.min; --size) {
        Sizes wanted = first;
        wanted[index] = size;
        const auto sample = Near(wanted, index);
        const Result<bool> same = sample ? IsInstance(made, *sample) : Result<bool>(false);
        if (same && *same) continue;
        symbol.min = size + 1;
        break;
      }
    }
    return true;
  }

  Result<bool> IsInstance(ProgramGraph& made, const Sizes& sample) {
    TRY_ASSIGN(const Graph run, Import(sample));
    TRY_ASSIGN(Sizes values, compiler::SymbolsOf(made.graph, run));
    if (compiler::GraphDigest(compiler::Instantiate(made.graph, values)) != compiler::GraphDigest(run)) return false;
    if (std::find(made.proven.begin(), made.proven.end(), values) == made.proven.end()) {
      made.proven.push_back(std::move(values));
    }
    return true;
  }

  std::string TextOf(const Sizes& sample) const {
    std::string text;
    for (size_t i = 0; i < sample.size(); ++i) {
      text += fmt::format("{}{}={}", i == 0 ? "" : ", ", ranges_[i].name, sample[i]);
    }
    return text;
  }

  client::ExportArchive& archive_;
  std::vector<ArchiveSymbol> ranges_;
};

}  // namespace

Result<SizeChoice> SizeChoice::Parse(const std::string& text) {
  const auto bad = [&text] {
    return Error(Code::kInvalid, fmt::format("'{}': write NAME=SIZE or NAME=MIN..MAX, where NAME is an input and its "
                                             "dimension (x.0)",
                                             text));
  };
  const size_t equals = text.find('=');
  if (equals == text.npos || equals == 0) return bad();
  SizeChoice choice{text.substr(0, equals)};
  std::string_view rest = std::string_view(text).substr(equals + 1);
  const auto number = [&rest](int64_t& value) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc() || value < 0) return false;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return true;
  };
  if (!number(choice.min)) return bad();
  choice.max = choice.min;
  if (rest.empty()) return choice;
  if (!rest.starts_with("..")) return bad();
  rest.remove_prefix(2);
  choice.max.reset();
  if (rest.empty()) return choice;
  int64_t max = 0;
  if (!number(max) || !rest.empty()) return bad();
  choice.max = max;
  return choice;
}

std::string ProgramGraph::Range() const {
  if (!range.empty()) return range;
  std::string text;
  for (size_t i = 0; i < symbols.size(); ++i) {
    text += fmt::format("{}s{} >= {}", text.empty() ? "" : " and ", i, symbols[i].min);
    if (symbols[i].max) text += fmt::format(" and s{} <= {}", i, *symbols[i].max);
  }
  if (!conditions.empty()) text += (text.empty() ? "" : " and ") + conditions;
  return text;
}

Result<ProgramGraph> MakeProgramGraph(client::ExportArchive& archive, const std::vector<SizeChoice>& choices) {
  GraphMaker maker(archive);
  for (const SizeChoice& choice : choices) TRY(maker.Choose(choice));
  return maker.Make();
}

}  // namespace ingot::tools
