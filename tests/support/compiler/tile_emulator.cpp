// SPDX-License-Identifier: Apache-2.0
#include "tests/support/compiler/tile_emulator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace ingot::compiler::x86 {
namespace {

constexpr size_t kTiles = 8, kRowBytes = 64, kRows = 16;

struct Tile {
  size_t rows = 0, row_bytes = 0;
  std::array<std::array<uint8_t, kRowBytes>, kRows> bytes = {};
};

/// Denormals are zeros, of the sign they have, wherever they come from.
float Flushed(float value) {
  return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0F, value) : value;
}

float ReadBF16(const Tile& tile, size_t row, size_t place) {
  uint16_t bits;
  std::memcpy(&bits, &tile.bytes[row][2 * place], sizeof(bits));
  return Flushed(std::bit_cast<float>(uint32_t{bits} << 16));
}

/// The even and the odd elements make a chain each, which are added together and then to the sum.
void AddPairs(Tile& c, const Tile& a, const Tile& b, size_t m, size_t n) {
  float chains[2] = {0, 0};
  for (size_t p = 0; p < a.row_bytes / 4; ++p) {
    for (size_t i = 0; i < 2; ++i) {
      chains[i] = Flushed(std::fma(ReadBF16(a, m, 2 * p + i), ReadBF16(b, p, 2 * n + i), chains[i]));
    }
  }
  float before;
  std::memcpy(&before, &c.bytes[m][4 * n], sizeof(before));
  const float after = Flushed(Flushed(before) + Flushed(chains[0] + chains[1]));
  std::memcpy(&c.bytes[m][4 * n], &after, sizeof(after));
}

void AddBytes(TileProduct product, Tile& c, const Tile& a, const Tile& b, size_t m, size_t n) {
  const bool left_signed = product == TileProduct::kI8I8 || product == TileProduct::kI8U8;
  const bool right_signed = product == TileProduct::kI8I8 || product == TileProduct::kU8I8;
  const auto read = [](uint8_t byte, bool is_signed) {
    return is_signed ? int32_t{static_cast<int8_t>(byte)} : int32_t{byte};
  };
  uint32_t sum;
  std::memcpy(&sum, &c.bytes[m][4 * n], sizeof(sum));
  for (size_t p = 0; p < a.row_bytes / 4; ++p) {
    for (size_t i = 0; i < 4; ++i) {
      const int32_t term = read(a.bytes[m][4 * p + i], left_signed) * read(b.bytes[p][4 * n + i], right_signed);
      sum += static_cast<uint32_t>(term);
    }
  }
  std::memcpy(&c.bytes[m][4 * n], &sum, sizeof(sum));
}

/// The state of one thread.
class Registers {
 public:
  static Registers& Own() {
    static thread_local Registers registers;
    return registers;
  }

  void Configure(const void* from) {
    std::array<uint8_t, 64> bytes;
    std::memcpy(bytes.data(), from, bytes.size());
    const auto is_zero = [&](size_t first, size_t end) {
      return std::all_of(bytes.begin() + first, bytes.begin() + end, [](uint8_t byte) { return byte == 0; });
    };
    is_configured = false;
    if (bytes[0] != 1 || !is_zero(1, 16) || !is_zero(32, 48) || !is_zero(56, 64)) {
      return Note("a configuration that faults");
    }
    std::array<Tile, kTiles> tiles;
    for (size_t i = 0; i < kTiles; ++i) {
      tiles[i].row_bytes = bytes[16 + 2 * i] | bytes[17 + 2 * i] << 8;
      tiles[i].rows = bytes[48 + i];
      const bool is_shape = tiles[i].rows <= kRows && tiles[i].row_bytes <= kRowBytes &&
                            (tiles[i].rows == 0) == (tiles[i].row_bytes == 0);
      if (!is_shape) return Note("a register of another shape than there is");
    }
    tiles_ = tiles;
    is_configured = true;
  }

  void Zero(int32_t number) {
    if (Tile* tile = Find(number)) tile->bytes = {};
  }

  void Load(int32_t number, const void* at, int64_t stride) {
    Tile* tile = Find(number);
    if (tile == nullptr) return;
    tile->bytes = {};
    const auto* from = static_cast<const uint8_t*>(at);
    for (size_t r = 0; r < tile->rows; ++r, from += stride) std::memcpy(tile->bytes[r].data(), from, tile->row_bytes);
  }

  void Store(int32_t number, void* at, int64_t stride) {
    const Tile* tile = Find(number);
    if (tile == nullptr) return;
    auto* to = static_cast<uint8_t*>(at);
    for (size_t r = 0; r < tile->rows; ++r, to += stride) std::memcpy(to, tile->bytes[r].data(), tile->row_bytes);
  }

  void Multiply(TileProduct product, int32_t sum, int32_t left, int32_t right) {
    Tile* c = Find(sum);
    const Tile *a = Find(left), *b = Find(right);
    if (c == nullptr || a == nullptr || b == nullptr) return;
    if (sum == left || sum == right || left == right) return Note("one register twice");
    const bool fits =
        c->rows == a->rows && c->row_bytes == b->row_bytes && a->row_bytes == 4 * b->rows && c->row_bytes % 4 == 0;
    if (!fits) return Note("registers whose shapes do not fit");
    ++products;
    for (size_t m = 0; m < c->rows; ++m) {
      for (size_t n = 0; n < c->row_bytes / 4; ++n) {
        product == TileProduct::kBF16 ? AddPairs(*c, *a, *b, m, n) : AddBytes(product, *c, *a, *b, m, n);
      }
    }
  }

  bool is_configured = false;
  std::vector<std::string> misuse;
  int64_t products = 0;

 private:
  void Note(const char* what) { misuse.emplace_back(what); }
  /// Null, and noted, where there is none.
  Tile* Find(int32_t number) {
    if (!is_configured) {
      Note("no configuration");
    } else if (number < 0 || static_cast<size_t>(number) >= kTiles) {
      Note("no such register");
    } else if (tiles_[static_cast<size_t>(number)].rows == 0) {
      Note("a register that was not configured");
    } else {
      return &tiles_[static_cast<size_t>(number)];
    }
    return nullptr;
  }

  std::array<Tile, kTiles> tiles_;
};

}  // namespace

const TileFunctions& TileEmulator::Functions() {
  static constexpr TileFunctions functions = {
      [](const void* from) { Registers::Own().Configure(from); },
      [] { Registers::Own().is_configured = false; },
      [](int32_t tile) { Registers::Own().Zero(tile); },
      [](int32_t tile, const void* at, int64_t stride) { Registers::Own().Load(tile, at, stride); },
      [](int32_t tile, void* at, int64_t stride) { Registers::Own().Store(tile, at, stride); },
      [](int32_t product, int32_t sum, int32_t left, int32_t right) {
        Registers::Own().Multiply(static_cast<TileProduct>(product), sum, left, right);
      }};
  return functions;
}

std::vector<std::string> TileEmulator::TakeMisuse() { return std::exchange(Registers::Own().misuse, {}); }
bool TileEmulator::IsConfigured() { return Registers::Own().is_configured; }
int64_t TileEmulator::TakeProducts() { return std::exchange(Registers::Own().products, 0); }

}  // namespace ingot::compiler::x86
