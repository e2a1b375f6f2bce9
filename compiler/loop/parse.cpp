// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include <fmt/format.h>

#include "compiler/loop/ops.h"
#include "compiler/loop/text.h"

namespace ingot::compiler::loop {
namespace {

/// Reads the text from left to right; every failure says line, column and what was expected.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Kernel> Run() {
    TRY(Expect("kernel"));
    const std::string_view name = Word();
    if (name.empty()) return Fail("a kernel name");
    kernel_.name = name;
    TRY(Expect("symbols"));
    TRY_ASSIGN(const int64_t symbols, Integer());
    if (symbols < 0 || symbols > UINT16_MAX) return Fail("a symbol count below 65536");
    kernel_.symbol_count = static_cast<uint16_t>(symbols);
    TRY(Expect("{"));
    while (Accept("param")) TRY(ParseParam());
    while (Accept("buffer")) TRY(ParseRowBuffer());
    TRY(Expect("rows"));
    TRY(Expect("["));
    while (!Accept("]")) {
      if (!kernel_.rows.empty()) TRY(Expect(","));
      TRY_ASSIGN(Dim extent, DimUntil(",]"));
      kernel_.rows.push_back(std::move(extent));
    }
    while (!Accept("}")) TRY(ParseBlock());
    SkipSpace();
    if (at_ != text_.size()) return Fail("the end of the text");
    TRY(Verify(kernel_));
    return std::move(kernel_);
  }

 private:
  Error Fail(std::string_view expected) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    const std::string_view found = text_.substr(std::min(at_, text_.size()), 20);
    return Error(Code::kInvalid, fmt::format("line {}, column {}: expected {}, found \"{}\"", line, column, expected,
                                             found.substr(0, found.find('\n'))));
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  static bool IsWordChar(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  std::string_view Word() {
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  /// A keyword must end where it ends: "row" does not match "rows".
  bool Accept(std::string_view token) {
    SkipSpace();
    if (!text_.substr(at_).starts_with(token)) return false;
    const size_t end = at_ + token.size();
    if (IsWordChar(token.back()) && end < text_.size() && IsWordChar(text_[end])) return false;
    at_ = end;
    return true;
  }
  Status Expect(std::string_view token) {
    if (Accept(token)) return {};
    return Fail(fmt::format("\"{}\"", token));
  }
  Result<int64_t> Integer() {
    SkipSpace();
    int64_t value = 0;
    const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (ec != std::errc()) return Fail("an integer");
    at_ = end - text_.data();
    return value;
  }
  Result<uint32_t> Number(std::string_view prefix) {
    SkipSpace();
    if (!text_.substr(at_).starts_with(prefix)) return Fail(fmt::format("{}<number>", prefix));
    const size_t digits = at_ + prefix.size();
    uint32_t value = 0;
    const auto [end, ec] = std::from_chars(text_.data() + digits, text_.data() + text_.size(), value);
    if (ec != std::errc()) return Fail(fmt::format("{}<number>", prefix));
    at_ = end - text_.data();
    return value;
  }
  Result<Dim> DimUntil(std::string_view ends) {
    SkipSpace();
    size_t end = at_;
    // What a function is given is a part of the size.
    for (int depth = 0; end < text_.size(); ++end) {
      if (depth == 0 && ends.find(text_[end]) != ends.npos) break;
      depth += text_[end] == '(' ? 1 : text_[end] == ')' ? -1 : 0;
    }
    if (end == text_.size()) return Fail("a size");
    auto dim = Dim::Parse(text_.substr(at_, end - at_));
    if (!dim) return Fail("a size such as 4*s0 + 1");
    at_ = end;
    return dim;
  }
  Result<Dim> DimInParentheses() {
    TRY(Expect("("));
    TRY_ASSIGN(Dim dim, DimUntil(")"));
    TRY(Expect(")"));
    return dim;
  }
  Result<DType> Type() {
    const size_t begin = at_;
    const auto dtype = guards::DTypeFromName(Word());
    if (!dtype) {
      at_ = begin;
      return Fail("an element type");
    }
    return *dtype;
  }
  Result<Id> Value() {
    const size_t begin = at_;
    TRY_ASSIGN(const uint32_t id, Number("%"));
    if (id >= kernel_.insts.size()) {
      at_ = begin;
      return Fail("a value defined before");
    }
    return id;
  }

  Status ParseParam() {
    TRY_ASSIGN(const uint32_t number, Number("p"));
    if (number != kernel_.params.size()) return Fail("parameters in order");
    TRY(Expect(":"));
    Param param;
    if (Accept("inout")) {
      param.mode = ParamMode::kInOut;
    } else if (Accept("out")) {
      param.mode = ParamMode::kOut;
    } else {
      TRY(Expect("in"));
    }
    TRY_ASSIGN(param.dtype, Type());
    TRY(Expect("["));
    TRY_ASSIGN(param.elements, DimUntil("]"));
    TRY(Expect("]"));
    kernel_.params.push_back(std::move(param));
    return {};
  }

  Status ParseRowBuffer() {
    TRY_ASSIGN(const uint32_t number, Number("b"));
    if (number != kernel_.row_buffers.size()) return Fail("row buffers in order");
    TRY(Expect(":"));
    RowBuffer buffer;
    TRY_ASSIGN(buffer.dtype, Type());
    TRY(Expect("["));
    TRY_ASSIGN(buffer.extent, DimUntil("]"));
    TRY(Expect("]"));
    kernel_.row_buffers.push_back(std::move(buffer));
    return {};
  }

  Status ParseBlock() {
    Block block;
    if (Accept("row")) {
      block.is_loop = false;
    } else if (Accept("contract")) {
      TRY(Expect("["));
      TRY_ASSIGN(block.extent, DimUntil(","));
      TRY(Expect(","));
      do {
        TRY_ASSIGN(Dim depth, DimUntil(",]"));
        block.depths.push_back(std::move(depth));
      } while (Accept(","));
      TRY(Expect("]"));
      TRY(Expect("into"));
      TRY_ASSIGN(block.into, Number("b"));
      if (block.into >= kernel_.row_buffers.size()) return Fail("a row buffer that is declared above");
    } else {
      TRY(Expect("loop"));
      TRY(Expect("["));
      TRY_ASSIGN(block.extent, DimUntil("]"));
      TRY(Expect("]"));
    }
    if (block.is_loop && Accept("over")) TRY(ParseActiveRange(block));
    TRY(Expect("{"));
    depths_ = block.depths.size();
    while (!Accept("}")) {
      const Id id = static_cast<Id>(kernel_.insts.size());
      TRY_ASSIGN(Inst inst, ParseInst(id));
      block.insts.push_back(id);
      kernel_.insts.push_back(std::move(inst));
    }
    kernel_.blocks.push_back(std::move(block));
    return {};
  }

  /// ('j' | 'k') '[' ('0' | value) ',' value ')'
  Status ParseActiveRange(Block& block) {
    block.active_range.of_depth = block.is_contraction() && Accept("k");
    if (!block.active_range.of_depth) TRY(Expect("j"));
    TRY(Expect("["));
    if (!Accept("0")) {
      TRY_ASSIGN(block.active_range.first, Value());
    }
    TRY(Expect(","));
    TRY_ASSIGN(block.active_range.end, Value());
    return Expect(")");
  }

  Result<Inst> ParseInst(Id id) {
    Inst inst;
    if (Accept("store")) {
      inst.op = ScalarOp::kStore;
      TRY(ParseAccess(inst));
      inst.dtype = BufferType(inst.buffer);
      return inst;
    }
    const size_t begin = at_;
    TRY_ASSIGN(const uint32_t number, Number("%"));
    if (number != id) {
      at_ = begin;
      return Fail(fmt::format("%{}: values are numbered by position, stores included", id));
    }
    TRY(Expect("="));
    SkipSpace();
    const size_t name_at = at_;
    const auto op = OpFromName(Word());
    if (!op || *op == ScalarOp::kStore) {
      at_ = name_at;
      return Fail("an operation");
    }
    inst.op = *op;
    std::string_view literal;
    switch (TraitsOf(*op).cls) {
      case OpClass::kConst: literal = Literal(); break;
      case OpClass::kSize: {
        TRY_ASSIGN(inst.size, DimInParentheses());
        break;
      }
      case OpClass::kIndex: TRY(ParseIndex(inst.index)); break;
      case OpClass::kLoad: TRY(ParseAccess(inst)); break;
      default: TRY(ParseArgs(inst)); break;
    }
    if (Accept("check"))
      inst.check = IndexCheck::kWrap;
    else if (Accept("within"))
      inst.check = IndexCheck::kWithin;
    if (inst.check != IndexCheck::kNone) {
      TRY_ASSIGN(inst.check_dim, DimInParentheses());
    }
    TRY(Expect(":"));
    TRY_ASSIGN(inst.dtype, Type());
    if (*op == ScalarOp::kConst) TRY(ParseLiteral(literal, inst));
    return inst;
  }

  std::string_view Literal() {
    SkipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ' ' && text_[at_] != '\n') ++at_;
    return text_.substr(begin, at_ - begin);
  }

  Status ParseLiteral(std::string_view literal, Inst& inst) {
    const char* end = literal.data() + literal.size();
    const auto parsed = guards::IsFloat(inst.dtype) ? std::from_chars(literal.data(), end, inst.imm_f)
                                                    : std::from_chars(literal.data(), end, inst.imm_i);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return Fail(fmt::format("a {} literal before", guards::NameOf(inst.dtype)));
    }
    return {};
  }

  Status ParseArgs(Inst& inst) {
    const uint8_t count = TraitsOf(inst.op).args;
    for (uint8_t i = 0; i < count; ++i) {
      if (i > 0) TRY(Expect(","));
      TRY_ASSIGN(const Id arg, Value());
      inst.args.push_back(arg);
    }
    return {};
  }

  DType BufferType(uint32_t buffer) const {
    const size_t params = kernel_.params.size();
    return buffer < params ? kernel_.params[buffer].dtype : kernel_.row_buffers[buffer - params].dtype;
  }

  Status ParseAccess(Inst& inst) {
    SkipSpace();
    const bool is_row = at_ < text_.size() && text_[at_] == 'b';
    TRY_ASSIGN(const uint32_t number, Number(is_row ? "b" : "p"));
    const size_t known = is_row ? kernel_.row_buffers.size() : kernel_.params.size();
    if (number >= known) return Fail("a buffer that is declared above");
    inst.buffer = number + (is_row ? static_cast<uint32_t>(kernel_.params.size()) : 0);
    TRY(ParseIndex(inst.index));
    if (inst.op == ScalarOp::kStore) {
      TRY(Expect("="));
      TRY(ParseArgs(inst));
    }
    if (Accept("if")) {
      TRY_ASSIGN(inst.predicate, Value());
    }
    return {};
  }

  Status ParseIndex(Index& index) {
    index.coefs.assign(kernel_.rows.size() + 1 + depths_, Dim());
    TRY(Expect("["));
    do {
      TRY(ParseTerm(index));
    } while (Accept("+"));
    return Expect("]");
  }

  /// [coef '*'] ('i'N | 'j' | 'k' | 'k'N | '%'N), or a coefficient alone, which is the offset.
  Status ParseTerm(Index& index) {
    SkipSpace();
    Dim coef = 1;
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    if (first == '(' || (first >= '0' && first <= '9')) {
      if (first == '(') {
        TRY_ASSIGN(coef, DimInParentheses());
      } else {
        TRY_ASSIGN(const int64_t value, Integer());
        coef = value;
      }
      if (!Accept("*")) {
        index.offset = index.offset + coef;
        return {};
      }
      SkipSpace();
    }
    const size_t j = kernel_.rows.size();
    if (Accept("j")) {
      index.coefs[j] = index.coefs[j] + coef;
      return {};
    }
    if (depths_ == 1 && Accept("k")) {
      index.coefs[j + 1] = index.coefs[j + 1] + coef;
      return {};
    }
    if (depths_ > 1 && at_ < text_.size() && text_[at_] == 'k') {
      TRY_ASSIGN(const uint32_t number, Number("k"));
      if (number >= depths_) return Fail("one of the contraction's k");
      index.coefs[j + 1 + number] = index.coefs[j + 1 + number] + coef;
      return {};
    }
    if (at_ < text_.size() && text_[at_] == '%') {
      TRY_ASSIGN(const Id value, Value());
      index.gathered.push_back({value, std::move(coef)});
      return {};
    }
    TRY_ASSIGN(const uint32_t row, Number("i"));
    if (row >= kernel_.rows.size()) return Fail("a row variable that \"rows\" declares");
    index.coefs[row] = index.coefs[row] + coef;
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t depths_ = 0;  // Of the block that is being read: indices have so many k.
  Kernel kernel_;
};

}  // namespace

Result<Kernel> Parse(std::string_view text) {
  // Sizes of real kernels are a few kilobytes; the bound keeps hostile text from filling memory.
  constexpr size_t kTextBytesMax = 4 << 20;
  if (text.size() > kTextBytesMax) {
    return Error(Code::kInvalid,
                 fmt::format("kernel text of {} bytes, at most {} are read", text.size(), kTextBytesMax));
  }
  auto kernel = Parser(text).Run();
  if (!kernel && kernel.error().code() == Code::kInternal) {
    return Error(Code::kInvalid, kernel.error().message());
  }
  return kernel;
}

}  // namespace ingot::compiler::loop
