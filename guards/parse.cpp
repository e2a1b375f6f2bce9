// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "guards/guard_set.h"
#include "guards/normalize.h"
#include "guards/ranges.h"

namespace ingot::guards {
namespace {

/// Most guards of one set; more would only come from damage.
constexpr size_t kGuardsMax = 4096;

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool IsOneOf(char c, std::string_view list) { return list.find(c) != std::string_view::npos; }
bool IsWordPart(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

enum class Relation { kEqual, kNotEqual, kAtLeast, kAtMost, kAbove, kBelow };

/// One side of a comparison.
struct Side {
  Dim value;
  int64_t modulus = 0;  ///< 0: not a remainder
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<GuardSet> RunSet() {
    if (AtEnd()) return std::move(set_);
    TRY(Set());
    if (!AtEnd()) return Fail("'and' or the end");
    return std::move(set_);
  }

  /// set ("or" set)*, each over symbols and none empty.
  Result<std::vector<GuardSet>> RunSets(size_t sets_max) {
    std::vector<GuardSet> sets;
    if (AtEnd()) return sets;
    do {
      if (sets.size() == sets_max) return Fail("at most " + std::to_string(sets_max) + " sets");
      const size_t start = at_;
      TRY(Set());
      if (set_.empty() || !set_.IsOverSymbols()) {
        at_ = start;
        return Fail(set_.empty() ? "a condition that some size fails" : "conditions over symbols alone");
      }
      sets.push_back(std::exchange(set_, {}));
    } while (TakeWord("or"));
    if (!AtEnd()) return Fail("'and', 'or' or the end");
    return sets;
  }

 private:
  bool AtEnd() {
    SkipSpaces();
    return at_ == text_.size();
  }

  Status Set() {
    do {
      if (set_.guards().size() >= kGuardsMax) return Fail("at most 4096 guards");
      TRY(Conjunct());
    } while (TakeWord("and"));
    return {};
  }

  Status Conjunct() {
    if (TakeWord("apart")) return Apart();
    const size_t start = at_;
    if (AtName()) {
      TRY_ASSIGN(const std::string name, Name());
      if (TakeText(".dtype")) return ReadDType(name);
      if (TakeText(".device")) return ReadDevice(name);
      if (!Peek('.')) return ReadScalar(name);
      at_ = start;
    }
    return Comparison();
  }

  Status Apart() {
    TRY(Expect("("));
    TRY_ASSIGN(const std::string a, Name());
    TRY(Expect(","));
    TRY_ASSIGN(const std::string b, Name());
    TRY(Expect(")"));
    const uint16_t first = set_.AddInput(a);
    return set_.Add({.kind = Guard::Kind::kApart, .input = first, .other = set_.AddInput(b)});
  }

  Status ReadDType(const std::string& name) {
    TRY(Expect("=="));
    const std::optional<DType> dtype = DTypeFromName(Word(false));
    if (!dtype) return Fail("an element type such as f32");
    return set_.Add({.kind = Guard::Kind::kDType, .input = set_.AddInput(name), .dtype = *dtype});
  }

  Status ReadDevice(const std::string& name) {
    TRY(Expect("=="));
    std::string device(Word(true));
    if (device.empty()) return Fail("a device such as cpu");
    return set_.Add({.kind = Guard::Kind::kDevice, .input = set_.AddInput(name), .text = std::move(device)});
  }

  Status ReadScalar(const std::string& name) {
    TRY(Expect("=="));
    SkipSpaces();
    const size_t start = at_;
    if (Peek('\'')) {
      TRY(Quoted());
    } else {
      while (at_ < text_.size() && (IsWordPart(text_[at_]) || IsOneOf(text_[at_], ".+-"))) ++at_;
    }
    if (at_ == start) return Fail("a Python number, True, False, None or text in quotes");
    std::string literal(text_.substr(start, at_ - start));
    return set_.Add({.kind = Guard::Kind::kScalar, .input = set_.AddScalar(name), .text = std::move(literal)});
  }

  /// side (relation side)+, as Python chains them.
  Status Comparison() {
    TRY_ASSIGN(Side left, ReadSide());
    std::optional<Relation> relation = ReadRelation();
    if (!relation) return Fail("==, !=, >=, <=, > or <");
    for (; relation; relation = ReadRelation()) {
      TRY_ASSIGN(Side right, ReadSide());
      TRY(Compare(left, *relation, right));
      left = std::move(right);
    }
    return {};
  }

  Status Compare(const Side& left, Relation relation, const Side& right) {
    if (left.modulus == 0 && right.modulus == 0) return CompareNumbers(left.value, relation, right.value);
    const Side& side = left.modulus != 0 ? left : right;
    const Side& other = left.modulus != 0 ? right : left;
    const bool equal = relation == Relation::kEqual;
    if (other.modulus != 0 || !other.value.is_const() || (!equal && relation != Relation::kNotEqual)) {
      return Fail("a remainder compared with == or != to a number");
    }
    const int64_t remainder = other.value.const_value();
    const bool possible = remainder >= 0 && remainder < side.modulus;
    if (!possible) return equal ? set_.Add(Never()) : Status();
    return set_.Add({.kind = equal ? Guard::Kind::kModulo : Guard::Kind::kNotModulo,
                     .value = side.value,
                     .modulus = side.modulus,
                     .remainder = remainder});
  }

  Status CompareNumbers(const Dim& left, Relation relation, const Dim& right) {
    const bool turned = relation == Relation::kAtMost || relation == Relation::kBelow;
    TRY_ASSIGN(const Dim minus, Multiply(turned ? left : right, Dim(-1)));
    TRY_ASSIGN(Dim value, Sum(turned ? right : left, minus));
    if (relation == Relation::kAbove || relation == Relation::kBelow) {
      TRY_ASSIGN(value, Sum(value, Dim(-1)));
    }
    const Guard::Kind kind = relation == Relation::kEqual      ? Guard::Kind::kEqual
                             : relation == Relation::kNotEqual ? Guard::Kind::kNotEqual
                                                               : Guard::Kind::kAtLeast;
    return set_.Add({.kind = kind, .value = std::move(value)});
  }

  Result<Side> ReadSide() {
    Side side;
    const bool grouped = TakeText("(");
    size_t products = 0;
    TRY_ASSIGN(side.value, ReadSum(products));
    if (grouped) TRY(Expect(")"));
    if (!TakeText("%")) return side;
    // As in Python, % binds tighter than + and -.
    if (!grouped && products > 1) return Fail("parentheses around the sum before %");
    TRY_ASSIGN(side.modulus, Number());
    if (side.modulus < 1 || side.modulus > kModulusMax) return Fail("a divisor from 1 to 2^31");
    return side;
  }

  Result<Dim> ReadSum(size_t& products) {
    Dim sum;
    bool negative = TakeText("-");
    do {
      TRY_ASSIGN(const Dim product, Product(negative));
      TRY_ASSIGN(sum, Sum(sum, product));
      ++products;
      negative = Peek('-');
    } while (TakeText("+") || TakeText("-"));
    return sum;
  }

  Result<Dim> Arguments(AtomFunction function) {
    if (depth_ == Atom::kDepthMax) return Fail("fewer parentheses within each other");
    ++depth_;
    size_t products = 0;
    TRY_ASSIGN(const Dim a, ReadSum(products));
    TRY(Expect(","));
    TRY_ASSIGN(const Dim b, ReadSum(products));
    TRY(Expect(")"));
    --depth_;
    return function(a, b);
  }

  Result<Dim> Product(bool negative) {
    Dim product(negative ? -1 : 1);
    do {
      TRY_ASSIGN(const Dim factor, Factor());
      TRY_ASSIGN(product, Multiply(product, factor));
    } while (TakeText("*"));
    return product;
  }

  Result<Dim> Factor() {
    SkipSpaces();
    if (at_ < text_.size() && IsDigit(text_[at_])) {
      TRY_ASSIGN(const int64_t number, Number());
      return Dim(number);
    }
    if (AtSymbol()) {
      ++at_;
      TRY_ASSIGN(const int64_t number, Number());
      if (number >= Guard::kFirstProperty) return Fail("a symbol number up to 32767");
      return Dim::Symbol(static_cast<uint16_t>(number));
    }
    if (const AtomFunction function = TakeFunction()) return Arguments(function);
    TRY_ASSIGN(const std::string name, Name());
    Property property;
    if (TakeText(".rank")) {
      property.kind = Property::Kind::kRank;
    } else if (TakeText(".offset")) {
      property.kind = Property::Kind::kOffset;
    } else if (const bool size = TakeText(".size"); size || TakeText(".stride")) {
      property.kind = size ? Property::Kind::kSize : Property::Kind::kStride;
      TRY(Expect("("));
      TRY_ASSIGN(const int64_t dim, Number());
      if (dim > 0xFFFF) return Fail("a dimension up to 65535");
      property.dim = static_cast<uint16_t>(dim);
      TRY(Expect(")"));
    } else {
      return Fail(".rank, .size(dim), .stride(dim), .offset, .dtype or .device");
    }
    if (set_.inputs().size() >= Guard::kFirstProperty - 1u || set_.properties().size() >= Guard::kFirstProperty - 1u) {
      return Fail("fewer inputs");
    }
    property.input = set_.AddInput(name);
    return set_.Of(property);
  }

  Result<int64_t> Number() {
    SkipSpaces();
    int64_t number = 0;
    const char* begin = text_.data() + at_;
    const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (code != std::errc() || number < 0 || number > kCoefMax) return Fail("a number up to 2^53");
    at_ += static_cast<size_t>(end - begin);
    return number;
  }

  /// s and digits only, so that `size` and `s0x` are names.
  bool AtSymbol() const {
    size_t end = at_ + 1;
    if (at_ >= text_.size() || text_[at_] != 's') return false;
    while (end < text_.size() && IsDigit(text_[end])) ++end;
    return end > at_ + 1 && (end == text_.size() || !IsWordPart(text_[end]));
  }
  /// A word that calls something: floordiv, with the parenthesis behind it.
  AtomFunction FunctionAhead() const {
    size_t end = at_;
    while (end < text_.size() && IsWordPart(text_[end])) ++end;
    return end < text_.size() && text_[end] == '(' ? AtomFunctionOf(text_.substr(at_, end - at_)) : nullptr;
  }
  AtomFunction TakeFunction() {
    SkipSpaces();
    const AtomFunction function = FunctionAhead();
    if (function != nullptr) at_ = text_.find('(', at_) + 1;
    return function;
  }
  bool AtName() {
    SkipSpaces();
    if (at_ == text_.size() || AtSymbol() || FunctionAhead() != nullptr) return false;
    return text_[at_] == '\'' || (IsWordPart(text_[at_]) && !IsDigit(text_[at_]));
  }
  Result<std::string> Name() {
    if (!AtName()) return Fail("the name of an input");
    if (text_[at_] == '\'') return Quoted();
    return std::string(Word(false));
  }
  Result<std::string> Quoted() {
    std::string name;
    for (++at_; at_ < text_.size() && text_[at_] != '\''; ++at_) {
      if (text_[at_] == '\\' && ++at_ == text_.size()) break;
      name += text_[at_];
    }
    if (at_ == text_.size()) return Fail("a closing quote");
    ++at_;
    return name;
  }
  std::string_view Word(bool device) {
    SkipSpaces();
    const size_t start = at_;
    while (at_ < text_.size() && (IsWordPart(text_[at_]) || (device && text_[at_] == ':'))) ++at_;
    return text_.substr(start, at_ - start);
  }

  std::optional<Relation> ReadRelation() {
    constexpr std::pair<std::string_view, Relation> kRelations[] = {
        {"==", Relation::kEqual},  {"!=", Relation::kNotEqual}, {">=", Relation::kAtLeast},
        {"<=", Relation::kAtMost}, {">", Relation::kAbove},     {"<", Relation::kBelow}};
    for (const auto& [text, relation] : kRelations) {
      if (TakeText(text)) return relation;
    }
    return std::nullopt;
  }
  bool Peek(char c) {
    SkipSpaces();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool TakeText(std::string_view wanted) {
    SkipSpaces();
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    // `.size` must not be the beginning of another word.
    const size_t end = at_ + wanted.size();
    if (IsWordPart(wanted.back()) && end < text_.size() && IsWordPart(text_[end])) return false;
    at_ = end;
    return true;
  }
  bool TakeWord(std::string_view wanted) { return TakeText(wanted); }
  Status Expect(std::string_view wanted) {
    if (TakeText(wanted)) return {};
    return Fail("'" + std::string(wanted) + "'");
  }
  void SkipSpaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  Error Fail(const std::string& expected) const {
    return Error(Code::kInvalid, "guards '" + std::string(text_.substr(0, 200)) + "': expected " + expected +
                                     " at column " + std::to_string(at_ + 1));
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t depth_ = 0;  ///< of functions within each other
  GuardSet set_;
};

}  // namespace

Result<GuardSet> GuardSet::Parse(std::string_view text) { return Parser(text).RunSet(); }

Result<Ranges> Ranges::Parse(std::string_view text) {
  Ranges ranges;
  TRY_ASSIGN(ranges.sets_, Parser(text).RunSets(kSetsMax));
  return ranges;
}

}  // namespace ingot::guards
