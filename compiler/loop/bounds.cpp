// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop/bounds.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "compiler/loop/facts.h"
#include "compiler/loop/ops.h"
#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

// What stands under more comparisons than this is tried with the first of them.
constexpr size_t kComparisonsMax = 8;
// Ways to combine the comparisons above an access that are tried.
constexpr int kTriesMax = 200;

/// offset + sum(coef * variable). Variables are the row dims, then j, then all k, then values read from tensors.
struct Linear {
  Dim offset;
  std::map<size_t, Dim> coefs;
};

/// A lower bound of an access' distance from an end of its buffer: `least`, where all `signs` hold.
struct Bound {
  Dim least;
  Dims signs;
};

class Prover {
 public:
  explicit Prover(const Kernel& kernel) : kernel_(kernel), samples_(Samples(kernel.symbol_count)) {}

  Result<Conditions> Run() {
    const Facts none;
    for (const Dim& extent : kernel_.rows) TRY(NeedExtent(none, extent, "number of rows"));
    for (const RowBuffer& buffer : kernel_.row_buffers) TRY(NeedExtent(none, buffer.extent, "size of a row buffer"));
    for (const Block& block : kernel_.blocks) {
      for (Id id : block.insts) {
        const ScalarOp op = kernel_.insts[id].op;
        if (op == ScalarOp::kLoad || op == ScalarOp::kStore) TRY(ProveAccess(block, id));
      }
    }
    if (sum_.overflowed()) return Refuse("");
    return std::move(conditions_);
  }

 private:
  Error Refuse(std::string_view why) const {
    if (sum_.overflowed()) why = "sizes too large to reason about";
    return Error(Code::kUnsupported, fmt::format("kernel {}: {}", kernel_.name, why));
  }

  void Need(const Dim& condition) {
    if (std::find(conditions_.begin(), conditions_.end(), condition) == conditions_.end()) {
      conditions_.push_back(condition);
    }
  }

  Status NeedExtent(const Facts& facts, const Dim& extent, std::string_view what) {
    if (facts.Imply(extent)) return {};
    if (HoldsSomewhere(extent) == 0) return Refuse(fmt::format("{} {} is negative", what, extent.ToText()));
    Need(extent);
    return {};
  }

  /// How many of some typical sizes make the polynomial 0 or more: a condition that none satisfies
  /// would be code that never runs.
  size_t HoldsSomewhere(const Dim& condition) const {
    return static_cast<size_t>(std::count_if(samples_.begin(), samples_.end(),
                                             [&](const auto& symbols) { return condition.Eval(symbols) >= 0; }));
  }

  static std::vector<std::vector<int64_t>> Samples(uint16_t count) {
    std::vector<std::vector<int64_t>> samples;
    for (const int64_t equal : {1, 2, 5, 16, 97}) samples.emplace_back(count, equal);
    for (const int64_t step : {3, 7, 11}) {
      std::vector<int64_t> rising, falling;
      for (uint16_t i = 0; i < count; ++i) {
        rising.push_back(2 + step * i);
        falling.push_back(2 + step * (count - i));
      }
      samples.push_back(std::move(rising));
      samples.push_back(std::move(falling));
    }
    return samples;
  }

  // What is known where an access happens.

  size_t J() const { return kernel_.rows.size(); }
  size_t K() const { return J() + 1; }
  /// The first variable that stands for a value read from a tensor.
  size_t FirstValue() const {
    size_t depths = 0;
    for (const Block& block : kernel_.blocks) depths = std::max(depths, block.depths.size());
    return K() + depths;
  }

  /// False: a value is not checked to lie in a dimension.
  bool AddIndex(const Index& index, Linear& into) {
    into.offset = sum_.Add(into.offset, index.offset);
    for (size_t k = 0; k < index.coefs.size(); ++k) {
      if (!index.coefs[k].is_zero()) AddTerm(into, k, index.coefs[k]);
    }
    for (const Index::Gathered& g : index.gathered) {
      const Inst& value = kernel_.insts[g.value];
      if (value.check == IndexCheck::kNone) return false;
      const size_t variable = FirstValue() + g.value;
      lasts_[variable] = sum_.Subtract(value.check_dim, Dim(1));
      AddTerm(into, variable, g.coef);
    }
    return true;
  }
  void AddTerm(Linear& into, size_t variable, const Dim& coef) {
    Dim& slot = into.coefs[variable];
    slot = sum_.Add(slot, coef);
    if (slot.is_zero()) into.coefs.erase(variable);
  }
  Linear Minus(const Linear& a, const Linear& b, const Dim& factor) {
    Linear out = a;
    const Dim negative = sum_.Multiply(factor, Dim(-1));
    out.offset = sum_.Add(out.offset, sum_.Multiply(b.offset, negative));
    for (const auto& [variable, coef] : b.coefs) AddTerm(out, variable, sum_.Multiply(coef, negative));
    return out;
  }

  /// The integer that an instruction gives, where it is linear in the loop variables.
  std::optional<Linear> LinearOf(Id id) {
    const Inst& inst = kernel_.insts[id];
    if (inst.dtype != DType::kI64) return std::nullopt;
    Linear out;
    switch (inst.op) {
      case ScalarOp::kConst: out.offset = Dim(inst.imm_i); return out;
      case ScalarOp::kSize: out.offset = inst.size; return out;
      case ScalarOp::kIndex: return AddIndex(inst.index, out) ? std::optional(out) : std::nullopt;
      default: return std::nullopt;
    }
  }

  /// Adds to `comparisons` what is 0 or more where the bool value is `truth`. A value that says
  /// nothing about the loop variables adds nothing.
  void Compare(Id id, bool truth, std::vector<Linear>& comparisons) {
    const Inst& inst = kernel_.insts[id];
    if (inst.op == ScalarOp::kNot) return Compare(inst.args[0], !truth, comparisons);
    if (inst.op == (truth ? ScalarOp::kAnd : ScalarOp::kOr)) {
      Compare(inst.args[0], truth, comparisons);
      return Compare(inst.args[1], truth, comparisons);
    }
    if (inst.op < ScalarOp::kLt || inst.op > ScalarOp::kGe) return;
    std::optional<Linear> a = LinearOf(inst.args[0]), b = LinearOf(inst.args[1]);
    if (!a || !b) return;
    const bool is_less = inst.op == ScalarOp::kLt || inst.op == ScalarOp::kLe;
    const bool is_strict = inst.op == ScalarOp::kLt || inst.op == ScalarOp::kGt;
    // a < b is b - a - 1 >= 0, and its negation a - b >= 0.
    Linear gap = is_less == truth ? Minus(*b, *a, Dim(1)) : Minus(*a, *b, Dim(1));
    if (is_strict == truth) gap.offset = sum_.Subtract(gap.offset, Dim(1));
    comparisons.push_back(std::move(gap));
  }

  /// Extents of the loops around it are 1 or more, or it would not happen.
  Facts FactsOf(const Block& block, const std::vector<Linear>& comparisons) {
    Facts facts;
    for (size_t k = 0; k < kernel_.rows.size(); ++k) {
      lasts_[k] = sum_.Subtract(kernel_.rows[k], Dim(1));
    }
    lasts_[J()] = block.is_loop ? sum_.Subtract(block.extent, Dim(1)) : Dim();
    for (size_t n = 0; n < block.depths.size(); ++n) lasts_[K() + n] = sum_.Subtract(block.depths[n], Dim(1));
    for (const auto& [variable, last] : lasts_) facts.Add(last);
    for (const Linear& comparison : comparisons) {
      if (comparison.coefs.empty()) facts.Add(comparison.offset);
    }
    return facts;
  }

  // Proof.

  Status ProveAccess(const Block& block, Id id) {
    const Inst& inst = kernel_.insts[id];
    const size_t params = kernel_.params.size();
    const bool is_param = inst.buffer < params;
    const Dim& elements =
        is_param ? kernel_.params[inst.buffer].elements : kernel_.row_buffers[inst.buffer - params].extent;
    lasts_.clear();
    const auto refuse = [&](std::string_view why) {
      return Refuse(fmt::format("{} {} of {}{}: {} {} elements", TraitsOf(inst.op).name, id, is_param ? 'p' : 'b',
                                is_param ? inst.buffer : inst.buffer - params, why, elements.ToText()));
    };
    Linear at;
    if (!AddIndex(inst.index, at)) return refuse("takes an index that nothing keeps within");
    std::vector<Linear> comparisons;
    if (inst.predicate != kNone) Compare(inst.predicate, true, comparisons);
    const Facts facts = FactsOf(block, comparisons);
    std::erase_if(comparisons, [](const Linear& c) { return c.coefs.empty(); });
    if (comparisons.size() > kComparisonsMax) comparisons.resize(kComparisonsMax);

    Linear behind;  // What is left behind it: elements - 1 - at.
    behind.offset = sum_.Subtract(elements, Dim(1));
    if (!ProveNotNegative(facts, comparisons, at)) return refuse("may lie before");
    if (!ProveNotNegative(facts, comparisons, Minus(behind, at, Dim(1)))) return refuse("may lie behind");
    return {};
  }

  /// Adds the conditions under which `distance` is never negative; false: none would do.
  bool ProveNotNegative(const Facts& facts, const std::vector<Linear>& comparisons, const Linear& distance) {
    std::vector<Bound> bounds;
    tries_ = 0;
    if (Search(facts, comparisons, distance, 0, bounds)) return true;
    // Each bound is one; the greatest asks least of the sizes.
    const Bound* best = nullptr;
    size_t best_count = 0;
    int64_t best_least = 0;
    for (const Bound& bound : bounds) {
      size_t count = HoldsSomewhere(bound.least);
      for (const Dim& sign : bound.signs) count = std::min(count, HoldsSomewhere(sign));
      const int64_t least = bound.least.Eval(samples_.back());
      if (count == 0 || std::pair(count, least) <= std::pair(best_count, best_least)) continue;
      best = &bound;
      best_count = count;
      best_least = least;
    }
    if (best == nullptr) return false;
    if (!facts.Imply(best->least)) Need(best->least);
    for (const Dim& sign : best->signs) Need(sign);
    return true;
  }

  /// Takes multiples of comparisons, which are 0 or more, away from `distance` until what is left is
  /// so at all corners of the loops; notes the bounds met on the way.
  bool Search(const Facts& facts, const std::vector<Linear>& comparisons, const Linear& distance, size_t first,
              std::vector<Bound>& bounds) {
    Bound bound = LeastOver(facts, distance);
    if (bound.signs.empty() && facts.Imply(bound.least)) return true;
    bounds.push_back(std::move(bound));
    for (size_t c = first; c < comparisons.size(); ++c) {
      for (const auto& [variable, coef] : comparisons[c].coefs) {
        const auto mine = distance.coefs.find(variable);
        if (mine == distance.coefs.end() || ++tries_ > kTriesMax) continue;
        const std::optional<Dim> factor = mine->second.DivideExactly(coef);
        if (!factor || !facts.Imply(*factor)) continue;
        if (Search(facts, comparisons, Minus(distance, comparisons[c], *factor), c + 1, bounds)) return true;
      }
    }
    return false;
  }

  /// The least value over all loop variables, each at the end that its coefficient's sign says.
  Bound LeastOver(const Facts& facts, const Linear& distance) {
    Bound bound{distance.offset, {}};
    for (const auto& [variable, coef] : distance.coefs) {
      if (facts.Imply(coef)) continue;
      const Dim opposite = sum_.Multiply(coef, Dim(-1));
      if (!facts.Imply(opposite)) {
        const bool is_positive = HoldsSomewhere(coef) >= HoldsSomewhere(opposite);
        bound.signs.push_back(is_positive ? coef : opposite);
        if (is_positive) continue;
      }
      bound.least = sum_.Add(bound.least, sum_.Multiply(coef, lasts_.at(variable)));
    }
    return bound;
  }

  const Kernel& kernel_;
  Arithmetic sum_;
  std::vector<std::vector<int64_t>> samples_;
  std::map<size_t, Dim> lasts_;  // The last value of each variable of the access at hand.
  int tries_ = 0;
  Conditions conditions_;
};

}  // namespace

Result<Conditions> ProveBounds(const Kernel& kernel) { return Prover(kernel).Run(); }

}  // namespace ingot::compiler::loop
