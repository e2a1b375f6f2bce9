// SPDX-License-Identifier: Apache-2.0
#include "tools/ingot-compile/onnx_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/import/generalize.h"
#include "compiler/import/import.h"
#include "compiler/ir/text.h"
#include "guards/guard_set.h"

namespace ingot::tools {
namespace {

using compiler::Graph;
using onnx::ModelInput;
using onnx::ModelSymbol;
using Sizes = std::vector<int64_t>;
using Way = std::vector<bool>;   ///< the truths of conditions that data decides

/// Graphs of one file: ways that sizes of 1, odd sizes and the like take.
constexpr size_t kGraphsMax = 8;
/// Symbols of which each combination of 1 and other sizes is tried.
constexpr size_t kCombinedMax = 3;
/// Graphs more for each size that may be 0: where it is that, and where it is 1, all of these combinations.
constexpr size_t kWaysOfEmpty = 2 << kCombinedMax;
/// Ways that data decides: each is a graph for all sizes.
constexpr size_t kWaysMax = 8;
/// Where samples begin, the smallest first: runs at small sizes are quick, but a convolution net needs larger ones.
constexpr int64_t kScales[] = {5, 37, 224, 517};

std::string PlaceOf(const ModelInput& input, size_t dim) { return fmt::format("{}.{}", input.name, dim); }

/// The first lines in which two texts differ.
std::string FirstDifference(const std::string& a, const std::string& b) {
  const size_t at = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const auto line = [at](const std::string& text) {
    const size_t start = text.rfind('\n', at == 0 ? 0 : at - 1);
    const size_t first = start == text.npos ? 0 : start + 1;
    return text.substr(first, text.find('\n', first) - first);
  };
  return fmt::format("'{}' instead of '{}'", line(b), line(a));
}

class OnnxGraphMaker {
 public:
  explicit OnnxGraphMaker(onnx::OnnxModel& model) : model_(model), ranges_(model.symbols()) {}

  Status Choose(const SizeChoice& choice) {
    TRY_ASSIGN(const size_t symbol, Find(choice.name));
    ModelSymbol& range = ranges_[symbol];
    if (choice.max && *choice.max < choice.min) {
      return Error(Code::kInvalid, fmt::format("'{}' from {} to {}", choice.name, choice.min, *choice.max));
    }
    range.min = choice.min;
    range.max = choice.max;
    if (choice.min == 0 && choice.max != 0) may_be_empty_.push_back(symbol);
    return {};
  }

  Result<std::vector<ProgramGraph>> Make() {
    TRY_ASSIGN(const Sizes first, MakeFirst());
    // The other answers of each condition that data decides, at the same sizes; those found by them join the list.
    for (size_t i = 0; i < ways_.size(); ++i) TRY(AddTurns(i, first));
    if (ranges_.empty() || !IsOpen()) return std::move(graphs_);
    const size_t most = ways_.size() * (kGraphsMax + kWaysOfEmpty * may_be_empty_.size());
    for (const Sizes& sample : OtherSamples(first)) {
      for (const Way& way : std::vector<Way>(ways_)) {
        // Where the model does not run, no call is served.
        Way taken;
        Result<Buffer> recording = model_.Record(sample, ranges_, way, &taken);
        if (!recording) continue;
        TRY_ASSIGN(const bool is_known, IsKnown(*recording, sample, taken));
        if (!is_known && graphs_.size() < most) TRY(Add(*recording, sample, taken));
      }
    }
    return std::move(graphs_);
  }

 private:
  Result<size_t> Find(const std::string& name) const {
    std::string known;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      if (ranges_[i].name == name) return i;
      known += (known.empty() ? "" : ", ") + ranges_[i].name;
    }
    for (const ModelInput& input : model_.inputs()) {
      for (size_t dim = 0; dim < input.sizes.size(); ++dim) {
        if (!input.sizes[dim].is_const() && PlaceOf(input, dim) == name) return *input.sizes[dim].lone_symbol();
      }
    }
    return Error(
        Code::kInvalid,
        fmt::format("'{}' is no open size of this model; it has {}. Sizes that the model fixes cannot be freed: "
                    "export it again with dynamic axes",
                    name, known.empty() ? "none" : known));
  }

  bool IsOpen() const {
    return std::ranges::any_of(ranges_, [](const ModelSymbol& range) { return range.max != range.min; });
  }

  /// Symbol i at a distance of its own from where samples begin, so that no size is mistaken for another.
  Sizes Sample(int64_t scale, int64_t base, int64_t step) const {
    Sizes values;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const int64_t low = std::max<int64_t>(ranges_[i].min, 2), high = ranges_[i].max.value_or(INT64_MAX);
      // Few samples at once, however large each is: the first size is how many.
      const int64_t from = i == 0 ? kScales[0] : scale;
      values.push_back(std::min(std::max(low, from + base + step * static_cast<int64_t>(i)), high));
    }
    return values;
  }

  /// The ways that part from a known one where the run that found it was free to decide.
  Status AddTurns(size_t number, const Sizes& first) {
    const Way way = ways_[number];
    for (size_t i = free_from_[number]; i < way.size(); ++i) {
      if (ways_.size() == kWaysMax) {
        return Error(Code::kUnsupported, fmt::format("more than {} ways that data decides; a condition that is an "
                                                     "input of the model may be given a value: --value NAME=0",
                                                     kWaysMax));
      }
      Way other(way.begin(), way.begin() + static_cast<ptrdiff_t>(i));
      other.push_back(!way[i]);
      Way taken;
      TRY_ASSIGN(const Buffer recording, model_.Record(first, ranges_, other, &taken));
      TRY(Add(recording, first, taken));
      ways_.push_back(std::move(taken));
      free_from_.push_back(i + 1);
    }
    return {};
  }

  Result<Sizes> MakeFirst() {
    std::optional<Error> why;
    Sizes tried;
    for (const int64_t scale : kScales) {
      const Sizes sample = Sample(scale, 0, 2);
      Way taken;
      Result<Buffer> recording = model_.Record(sample, ranges_, {}, &taken);
      if (recording) {
        TRY(Add(*recording, sample, taken));
        ways_.push_back(std::move(taken));
        free_from_.push_back(0);
        TRY(CheckOpen());
        return sample;
      }
      if (!why) {
        why = recording.error();
        tried = sample;
      }
      // Only an operator that refuses its arguments may take larger ones.
      if (recording.error().code() != Code::kInvalid || !IsOpen()) break;
    }
    if (!IsOpen() || why->code() != Code::kInvalid) return std::move(*why);
    std::string sizes;
    for (size_t i = 0; i < ranges_.size(); ++i)
      sizes += fmt::format("{}{}={}", i == 0 ? "" : ", ", ranges_[i].name, tried[i]);
    return Error(why->code(), fmt::format("run at {}: {}. Where a size has to be a certain one: --static '{}=N'", sizes,
                                          why->message(), ranges_.front().name));
  }

  std::vector<Sizes> OtherSamples(const Sizes& first) const {
    std::vector<Sizes> samples;
    const auto takes = [this](size_t i, int64_t size) {
      return ranges_[i].min <= size && size <= ranges_[i].max.value_or(INT64_MAX);
    };
    const auto add_ones = [&](uint64_t which) {
      Sizes sample = first;
      for (size_t i = 0; i < sample.size(); ++i) {
        if ((which >> i & 1) != 0 && takes(i, 1)) sample[i] = 1;
      }
      if (sample != first && std::ranges::find(samples, sample) == samples.end()) samples.push_back(std::move(sample));
    };
    // Another size of each alone first: it is the one that checks the template.
    for (const int64_t by : {int64_t{3}, int64_t{6}}) {
      Sizes sample = first;
      for (size_t i = 0; i < sample.size(); ++i) {
        if (takes(i, first[i] + by + static_cast<int64_t>(i))) sample[i] += by + static_cast<int64_t>(i);
      }
      samples.push_back(std::move(sample));
    }
    const size_t count = std::min(ranges_.size(), kCombinedMax);
    for (uint64_t which = 1; which < uint64_t{1} << count; ++which) add_ones(which);
    for (size_t i = count; i < ranges_.size(); ++i) add_ones(uint64_t{1} << i);
    // Nothing or one of what may be empty, where each of the first sizes is 1 or not: a cache, and its first token.
    for (const size_t empty : may_be_empty_) {
      for (uint64_t which = 0; which < kWaysOfEmpty / 2; ++which) {
        Sizes sample = first;
        for (size_t i = 0; i < sample.size(); ++i) {
          if ((which >> i & 1) != 0 && takes(i, 1)) sample[i] = 1;
        }
        for (const int64_t size : {0, 1}) {
          sample[empty] = size;
          if (takes(empty, size) && std::ranges::find(samples, sample) == samples.end()) samples.push_back(sample);
        }
      }
    }
    return samples;
  }

  Status Add(Bytes recording, const Sizes& sample, const Way& way) {
    TRY_ASSIGN(const Graph exact, compiler::ImportRecording(recording));
    Result<compiler::Generalized> generalized = compiler::Generalize(recording);
    if (!generalized && generalized.error().code() != Code::kUnsupported) return std::move(generalized).error();
    if (!generalized) {
      graphs_.push_back({exact, {}, {}, ""});
      way_of_.push_back(way);
      why_fixed_ = generalized.error().message();
      return {};
    }
    for (const std::string& why : generalized->fixed) why_fixed_ = why_fixed_.empty() ? why : why_fixed_;
    ProgramGraph made{std::move(generalized->graph), {}, {std::move(generalized->seen)}, generalized->range.ToText()};
    for (const compiler::SymbolSource& source : made.graph.symbols) {
      const ModelInput& input = model_.inputs()[source.input];
      const guards::Dim& dim = input.sizes.at(source.dim);
      if (dim.is_const()) return Error(Code::kInternal, "a size that is fixed became a symbol");
      const ModelSymbol& range = ranges_[*dim.lone_symbol()];
      made.symbols.push_back({range.name, PlaceOf(input, source.dim), std::max<int64_t>(range.min, 2), range.max});
    }
    // One that serves these sizes alone.
    if (made.symbols.empty()) return Error(Code::kInternal, fmt::format("no symbols at [{}]", fmt::join(sample, ", ")));
    graphs_.push_back(std::move(made));
    way_of_.push_back(way);
    return {};
  }

  /// Every size that is open in the model is open in its first graph.
  Status CheckOpen() const {
    for (const ModelSymbol& range : ranges_) {
      if (range.min == range.max) continue;
      const auto is_it = [&](const GraphSymbol& symbol) { return symbol.archive_name == range.name; };
      if (std::ranges::any_of(graphs_.front().symbols, is_it)) continue;
      return Error(Code::kUnsupported,
                   fmt::format("size '{}' is open in the model, but fixed by its nodes ({}); give it a "
                               "value: --static {}=N",
                               range.name, why_fixed_.empty() ? "they tie it to others" : why_fixed_, range.name));
    }
    return {};
  }

  /// Whether a graph that is there serves these sizes. One that does has to be what was recorded.
  Result<bool> IsKnown(Bytes recording, const Sizes& sample, const Way& way) const {
    TRY_ASSIGN(const Graph exact, compiler::ImportRecording(recording));
    for (size_t number = 0; number < graphs_.size(); ++number) {
      const ProgramGraph& made = graphs_[number];
      if (way_of_[number] != way) continue;
      if (made.graph.symbols.empty()) {
        if (compiler::GraphDigest(made.graph) == compiler::GraphDigest(exact)) return true;
        continue;
      }
      Sizes values;
      for (const compiler::SymbolSource& source : made.graph.symbols) {
        values.push_back(model_.inputs()[source.input].sizes.at(source.dim).Eval(sample));
      }
      TRY_ASSIGN(const guards::GuardSet range, guards::GuardSet::Parse(made.Range()));
      if (!range.Holds(values)) continue;
      // What is not a symbol is a number that the range does not speak of.
      bool same_sizes = true;
      Graph instance = compiler::Instantiate(made.graph, values);
      for (size_t i = 0; i < model_.inputs().size(); ++i) {
        same_sizes =
            same_sizes && instance.type(instance.inputs[i].value).sizes == exact.type(exact.inputs[i].value).sizes;
      }
      if (!same_sizes) continue;
      const std::string expected = ComparableText(std::move(instance)), found = ComparableText(exact);
      if (expected == found) return true;
      return Error(Code::kInternal, fmt::format("a template of its sizes is not the model at [{}]: {}",
                                                fmt::join(sample, ", "), FirstDifference(expected, found)));
    }
    return false;
  }

  onnx::OnnxModel& model_;
  std::vector<ModelSymbol> ranges_;
  std::vector<size_t> may_be_empty_;  ///< symbols that the caller has said to begin at 0
  std::vector<ProgramGraph> graphs_;
  std::vector<Way> way_of_;  ///< by graph: how data decided
  std::vector<Way> ways_;  ///< all that there are
  std::vector<size_t> free_from_;  ///< by way: from which condition on its other answers are still to be tried
  std::string why_fixed_;
};

}  // namespace

Result<std::vector<ProgramGraph>> MakeOnnxGraphs(onnx::OnnxModel& model, const std::vector<SizeChoice>& choices) {
  OnnxGraphMaker maker(model);
  for (const SizeChoice& choice : choices) TRY(maker.Choose(choice));
  return maker.Make();
}

}  // namespace ingot::tools
