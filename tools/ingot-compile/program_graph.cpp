// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot-compile/program_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/import/generalize.h"
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
/// Graphs of one file: ways that sizes of 1, odd sizes and the like take.
constexpr size_t kArchiveGraphsMax = 8;

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

  /// The most general graph first. Others serve sizes that take another way: 1, 0, what a condition of the first leaves
  /// out.
  Result<std::vector<ProgramGraph>> Make() {
    TRY(CheckPlaces());
    std::optional<Sizes> first = Near(Sample(1, 2));
    if (!first) {
      return Error(Code::kInvalid,
                   fmt::format("no sizes were found that the program is for: {}{}", archive_.conditions().ToText(),
                               IsOpen() ? "; give sizes with --static" : ""));
    }
    if (!IsOpen()) {
      TRY_ASSIGN(const Buffer recording, archive_.Record(*first));
      TRY_ASSIGN(Graph graph, compiler::ImportRecording(recording));
      graphs_.push_back({std::move(graph), {}, {}, {}});
      return std::move(graphs_);
    }
    Status opened = AddFirst(*first);
    if (!opened) {
      // What a recording that follows its sizes refuses, one that does not would take for a number.
      if (!runs_ || !archive_.HasPolynomialSizes()) return std::move(opened).error();
      TRY_ASSIGN(const bool is_one, Unify());
      if (!is_one) return std::move(opened).error();
      return std::move(graphs_);
    }
    for (const Sizes& sample : OtherSamples(*first)) {
      // Where the program does not run, no call is served.
      const Result<Buffer> other = archive_.Record(sample, ranges_);
      if (!other) continue;
      TRY_ASSIGN(const bool is_known, IsKnown(*other, sample));
      if (!is_known && graphs_.size() < kArchiveGraphsMax) TRY(Add(*other));
    }
    return std::move(graphs_);
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
  Sizes Sample(int64_t base, int64_t step) const {
    Sizes values;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const int64_t low = Low(i);
      const int64_t span = ranges_[i].max ? std::min(*ranges_[i].max - low + 1, kSpanMax) : kSpanMax;
      const int64_t distance = base + step * static_cast<int64_t>(i);
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
  /// Symbol `kept` stays as it is.
  std::optional<Sizes> Near(const Sizes& wanted, std::optional<size_t> kept = std::nullopt) const {
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
      if (archive_.conditions().Holds(values)) return values;
    }
    return std::nullopt;
  }

  /// Larger ones, each size alone, and the smallest, which are ways of their own.
  std::vector<Sizes> OtherSamples(const Sizes& first) const {
    std::vector<Sizes> samples;
    const auto add = [&](const Sizes& wanted, std::optional<size_t> kept = std::nullopt) {
      const auto sample = Near(wanted, kept);
      if (sample && std::ranges::find(samples, *sample) == samples.end()) samples.push_back(*sample);
    };
    add(Sample(4, 6));
    add(Sample(7, 3));
    add(Sample(24, 5));
    Sizes lowest;
    for (size_t i = 0; i < ranges_.size(); ++i) lowest.push_back(Low(i));
    add(lowest);
    for (size_t i = 0; i < ranges_.size(); ++i) {
      Sizes sample = first;
      sample[i] = Sample(4, 6)[i];
      add(sample);
    }
    for (size_t i = 0; i < ranges_.size(); ++i) {
      for (int64_t size = 1; size >= ranges_[i].min && ranges_[i].min != ranges_[i].max; --size) {
        Sizes sample = first;
        sample[i] = size;
        add(sample, i);
      }
    }
    Sizes ones = first;
    for (size_t i = 0; i < ranges_.size(); ++i) ones[i] = ranges_[i].min <= 1 ? std::min<int64_t>(ones[i], 1) : ones[i];
    if (archive_.conditions().Holds(ones)) add(ones);
    return samples;
  }

  /// The template of a recording, or its graph where no size may differ.
  Status Add(Bytes recording) {
    Result<compiler::Generalized> generalized = compiler::Generalize(recording);
    if (!generalized && generalized.error().code() != Code::kUnsupported) return std::move(generalized).error();
    if (!generalized) {
      why_fixed_ = generalized.error().message();
      TRY_ASSIGN(Graph graph, compiler::ImportRecording(recording));
      graphs_.push_back({std::move(graph), {}, {}, {}});
      return {};
    }
    for (const std::string& why : generalized->fixed) why_fixed_ = why_fixed_.empty() ? why : why_fixed_;
    ProgramGraph made{std::move(generalized->graph), {}, {std::move(generalized->seen)}, generalized->range.ToText()};
    TRY(NameSymbols(made));
    graphs_.push_back(std::move(made));
    return {};
  }

  /// What a few small sizes leave of a net may be 1, which is a way of its own, or nothing: then larger ones are tried.
  Status AddFirst(Sizes& first) {
    const auto added = [this](const Sizes& sample) -> Status {
      TRY_ASSIGN(const Buffer recording, archive_.Record(sample, ranges_));
      runs_ = true;
      graphs_.clear();
      TRY(Add(recording));
      return CheckOpen();
    };
    Status status = added(first);
    for (const int64_t base : {int64_t{24}, int64_t{80}}) {
      const auto larger = status ? std::nullopt : Near(Sample(base, 5));
      if (!larger || !added(*larger)) continue;
      first = *larger;
      status = {};
    }
    return status;
  }

  /// Every size that is open in the archive is open in its first graph.
  Status CheckOpen() const {
    for (const ArchiveSymbol& range : ranges_) {
      if (range.min == range.max || !IsOfInput(range)) continue;
      const auto is_it = [&](const GraphSymbol& symbol) { return symbol.archive_name == range.name; };
      if (std::ranges::any_of(graphs_.front().symbols, is_it)) continue;
      return Error(Code::kUnsupported,
                   fmt::format("no graph with symbolic sizes is this program: '{}' is fixed by what it does ({}); give "
                               "it a value: --static {}=N",
                               range.name, why_fixed_.empty() ? "it is tied to others" : why_fixed_, range.name));
    }
    return {};
  }

  /// torch.export also names bounds of what follows from sizes ("2*s77").
  bool IsOfInput(const ArchiveSymbol& symbol) const {
    const auto number = static_cast<uint16_t>(&symbol - ranges_.data());
    return std::ranges::any_of(archive_.inputs(), [&](const client::ArchiveInput& input) {
      return std::ranges::any_of(input.sizes, [&](const guards::Dim& size) { return size.Uses(number); });
    });
  }

  // -- of two runs --------------------------------------------------------------------------------------

  /// The template that two runs have in common, where an operator has no rule for sizes: all sizes of the program are
  /// polynomials, which few runs tell. False: none is.
  Result<bool> Unify() {
    const auto first = Near(Sample(24, 5)), second = Near(Sample(33, 7));
    if (!first || !second) return false;
    TRY_ASSIGN(const Graph one, Import(*first));
    TRY_ASSIGN(const Graph other, Import(*second));
    Result<Graph> both = compiler::Unify(one, other);
    if (!both) return false;
    ProgramGraph made{*std::move(both), {}, {}, {}};
    TRY(NameSymbols(made));
    for (const Graph* run : {&one, &other}) {
      TRY_ASSIGN(Sizes values, compiler::SymbolsOf(made.graph, *run));
      made.proven.push_back(std::move(values));
    }
    TRY_ASSIGN(made.range, RangeOf(made));
    graphs_.clear();
    graphs_.push_back(std::move(made));
    if (!CheckOpen()) return false;
    std::vector<Sizes> samples{Sample(4, 6), Sample(61, 3), Sample(90, 2)};
    samples.emplace_back();
    for (size_t i = 0; i < ranges_.size(); ++i) samples.back().push_back(Low(i));
    for (size_t i = 0; i < ranges_.size(); ++i) {
      samples.push_back(*first);
      samples.back()[i] = (*second)[i];
    }
    for (const Sizes& wanted : samples) {
      const auto sample = Near(wanted);
      const Result<Buffer> recording = sample ? archive_.Record(*sample) : Result<Buffer>(Buffer());
      // Where the program does not run at so small a size, no call is served.
      if (!sample || (!recording && recording.error().code() == Code::kInvalid)) continue;
      TRY(recording);
      const Result<bool> is_known = IsKnown(*recording, *sample);
      if (!is_known || !*is_known) return false;
    }
    return true;
  }

  Result<Graph> Import(const Sizes& values) {
    TRY_ASSIGN(const Buffer recording, archive_.Record(values));
    return compiler::ImportRecording(recording);
  }

  /// The bounds of its symbols, and the conditions of the archive over them.
  Result<std::string> RangeOf(const ProgramGraph& made) const {
    std::string text;
    for (size_t i = 0; i < made.symbols.size(); ++i) {
      text += fmt::format("{}s{} >= {}", text.empty() ? "" : " and ", i, made.symbols[i].min);
      if (made.symbols[i].max) text += fmt::format(" and s{} <= {}", i, *made.symbols[i].max);
    }
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
    const std::string others = conditions.ToText();
    return others.empty() ? text : text + (text.empty() ? "" : " and ") + others;
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
      const ArchiveSymbol& range = ranges_[*symbol];
      made.symbols.push_back({range.name, place, std::max<int64_t>(range.min, 2), range.max});
    }
    return {};
  }

  /// Whether a graph that is there serves these sizes. One that does has to be what was recorded.
  Result<bool> IsKnown(Bytes recording, const Sizes& sample) const {
    TRY_ASSIGN(const Graph exact, compiler::ImportRecording(recording));
    for (const ProgramGraph& made : graphs_) {
      Sizes values;
      for (const compiler::SymbolSource& source : made.graph.symbols) {
        values.push_back(archive_.inputs()[source.input].sizes.at(source.dim).Eval(sample));
      }
      TRY_ASSIGN(const guards::GuardSet range, guards::GuardSet::Parse(made.Range()));
      if (!range.Holds(values)) continue;
      Graph instance = compiler::Instantiate(made.graph, values);
      // What is not a symbol is a number that the range does not speak of.
      bool same_sizes = true;
      for (size_t i = 0; i < archive_.inputs().size(); ++i) {
        same_sizes =
            same_sizes && instance.type(instance.inputs[i].value).sizes == exact.type(exact.inputs[i].value).sizes;
      }
      if (!same_sizes) continue;
      if (ComparableText(std::move(instance)) == ComparableText(exact)) return true;
      return Error(Code::kUnsupported,
                   fmt::format("no graph with symbolic sizes is this program: runs at sizes {} do not fit those at "
                               "others; give sizes with --static",
                               TextOf(sample)));
    }
    return false;
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
  std::vector<ProgramGraph> graphs_;
  bool runs_ = false;  ///< at open sizes
  std::string why_fixed_;
};

}  // namespace

std::string ComparableText(Graph graph) {
  for (compiler::ValueId id = 0; id < graph.value_count(); ++id) {
    compiler::Type& type = graph.value(id).type;
    const auto is_zero = [](const guards::Dim& size) { return size == guards::Dim(0); };
    const bool is_empty = std::any_of(type.sizes.begin(), type.sizes.end(), is_zero);
    for (size_t d = 0; d < type.rank(); ++d) {
      if (is_empty || type.sizes[d].is_one()) type.strides[d] = guards::Dim(0);
    }
  }
  return compiler::Print(graph);
}

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

Result<std::vector<ProgramGraph>> MakeProgramGraph(client::ExportArchive& archive,
                                                   const std::vector<SizeChoice>& choices) {
  GraphMaker maker(archive);
  for (const SizeChoice& choice : choices) TRY(maker.Choose(choice));
  return maker.Make();
}

}  // namespace ingot::tools
