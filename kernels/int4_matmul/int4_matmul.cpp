// x [m, k] times weights [n, k] transposed, where a weight is code · scale + offset: codes of 4 bits, a scale and an offset for each group
// along k. Sums are in float32. Python packs the weights and puts what a framework calls after this.
//
// A lane has a column of the product. Its word holds eight codes that follow each other along k, the first in the lowest bits; a vector of
// words is followed by that of the next eight codes, so that weights are read in the order in which they lie. Scale and offset are
// applied to a group's sums, Σ code · x and Σ x, and not to its weights.

#include <algorithm>
#include <vector>

#include "../vectors.h"

constexpr int MOST_ROWS = 8, CODES = 8;

// How many vectors of columns are summed up together: sums enough to hide the latency of an addition, in half of the registers.
constexpr int vectors(int rows) { return std::min(4, REGISTERS / 2 / rows); }

template <typename T>
struct Weights {
  const uint32_t* words;  // [n / LANES, k / CODES, LANES], n rounded up
  const T *scales, *offsets;  // [n / LANES, k / group, LANES]
  int64_t n, k, group;
};

// out[·, column…] of ROWS rows, from x [k, ROWS] and its sums [k / group, ROWS].
template <int ROWS, int VECTORS, typename T>
inline void tile(const float* x, const float* sums, const Weights<T>& weights, int64_t vector, T* out) {
  const int64_t groups = weights.k / weights.group, steps = weights.group / CODES;
  const uint32_t* words = weights.words + vector * (weights.k / CODES) * LANES;
  const int64_t parameters = vector * groups * LANES;
  Floats total[ROWS][VECTORS] = {};
  for (int64_t group = 0; group < groups; ++group, sums += ROWS) {
    Floats partial[ROWS][VECTORS] = {};
    for (int64_t step = 0; step < steps; ++step, words += LANES) {
      Words word[VECTORS];
      for (int v = 0; v < VECTORS; ++v) word[v] = load<Words>(words + v * (weights.k / CODES) * LANES);
#pragma GCC unroll 8
      for (int i = 0; i < CODES; ++i, x += ROWS) {
        for (int v = 0; v < VECTORS; ++v) {
          const Floats code = __builtin_convertvector((Ints)(word[v] >> (4 * i) & 15), Floats);
          for (int r = 0; r < ROWS; ++r) partial[r][v] += code * x[r];
        }
      }
    }
    for (int v = 0; v < VECTORS; ++v) {
      const int64_t at = parameters + (v * groups + group) * LANES;
      const Floats scale = widen(weights.scales + at), offset = widen(weights.offsets + at);
      for (int r = 0; r < ROWS; ++r) total[r][v] += scale * partial[r][v] + offset * sums[r];
    }
  }
  for (int v = 0; v < VECTORS; ++v) {
    const int64_t column = (vector + v) * LANES, count = std::min<int64_t>(LANES, weights.n - column);
    for (int r = 0; r < ROWS; ++r) narrow(total[r][v], out + r * weights.n + column, count);
  }
}

template <int ROWS, typename T, typename Threads>
void rows(const T* x, const Weights<T>& weights, T* out, Threads& threads) {
  const int64_t k = weights.k, groups = k / weights.group;
  std::vector<float> across(k * ROWS), sums(groups * ROWS);
  for (int r = 0; r < ROWS; ++r) {
    for (int64_t at = 0; at < k; at += LANES) {  // a group is a multiple of LANES
      const Floats wide = widen(x + r * k + at);
      float sum = 0;
      for (int i = 0; i < LANES; ++i) {
        across[(at + i) * ROWS + r] = wide[i];
        sum += wide[i];
      }
      sums[at / weights.group * ROWS + r] += sum;
    }
  }
  constexpr int VECTORS = vectors(ROWS);
  const int64_t grain = 1 + (1 << 16) / (k * ROWS);
  threads((weights.n + LANES - 1) / LANES, grain, [&](int64_t begin, int64_t end) {
    int64_t vector = begin;
    for (; vector + VECTORS <= end; vector += VECTORS) tile<ROWS, VECTORS>(across.data(), sums.data(), weights, vector, out);
    for (; vector < end; ++vector) tile<ROWS, 1>(across.data(), sums.data(), weights, vector, out);
  });
}

// Right for any m and n and for a group that is a multiple of 32; `threads` shares out the work. Weights are read once for MOST_ROWS rows.
template <typename T, typename Threads>
void int4_matmul(const T* x, const Weights<T>& weights, T* out, int64_t m, Threads threads) {
  using Rows = void (*)(const T*, const Weights<T>&, T*, Threads&);
  constexpr Rows OF[MOST_ROWS] = {rows<1>, rows<2>, rows<3>, rows<4>, rows<5>, rows<6>, rows<7>, rows<8>};
  const int64_t tiles = (m + MOST_ROWS - 1) / MOST_ROWS;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t begin = t * m / tiles, end = (t + 1) * m / tiles;
    OF[end - begin - 1](x + begin * weights.k, weights, out + begin * weights.n, threads);
  }
}

extern "C" int lanes() { return LANES; }
