// out = x · Wᵀ for few rows of x, where W[c, i] = codes[c, i] · scales[c, i / GROUP] + offsets[c, i / GROUP] has 4-bit codes.
//
//   x [m, k], out [m, n] in T; codes [n, k / 2], two a byte, the even one in the low half; scales, offsets [n, k / GROUP] in T.
//
// With few rows this is bound by reading W. So W is read once for a tile of ROWS rows, in pieces that neighbouring lanes read next to
// each other, and is unpacked in registers. A threadgroup computes ROWS × COLUMNS outputs; all its lanes share out k, rather than the
// columns, which keeps the machine busy also where n is small. A piece lies within one group, so that its contribution is
//   scale · Σ code · x + offset · Σ x,
// one multiplication by scale and one by offset a piece instead of one a weight; Σ x serves all columns. Sums are in float32.
//
// One source for two frameworks. MLX takes this file as the header of its own kernel function, whose body calls int4_matmul();
// PyTorch compiles it with an instance of int4_matmul_of_tensors() after it. The numbers behind an instance come from Python, where
// the grid that fits them is made.

#include <metal_stdlib>
using namespace metal;

constant constexpr int LANES = 32;           // of a SIMD group
constant constexpr int CODES_A_WORD = 8;

// Pieces are wide where there are registers left: they hold COLUMNS + 1 of them, beside ROWS · COLUMNS sums.
template <int ROWS>
constexpr int piece_length() {
  return ROWS == 1 ? 2 * CODES_A_WORD : CODES_A_WORD;
}

// codes must be aligned to a word of 4 bytes. Rows and columns past the end repeat the last one, and are not stored: every lane does the
// same and reads only what is there. MLX puts scales and offsets into `constant` memory where they are few: hence Parameters, a pointer.
template <typename T, int GROUP, int ROWS, int COLUMNS, int SIMDGROUPS, typename Parameters>
inline void int4_matmul(
    device const T* x,
    device const uchar* codes,
    Parameters scales,
    Parameters offsets,
    device T* out,
    int m,
    int n,
    int k,
    threadgroup float* partial,  // [SIMDGROUPS, ROWS, COLUMNS]
    uint2 tile,
    uint simdgroup,
    uint lane) {
  constexpr int PIECE = piece_length<ROWS>();
  constexpr int WORDS = PIECE / CODES_A_WORD;
  const int first_row = int(tile.y) * ROWS;
  const int first_column = int(tile.x) * COLUMNS;
  float sums[ROWS][COLUMNS] = {};

  for (int at = (int(simdgroup) * LANES + int(lane)) * PIECE; at < k; at += SIMDGROUPS * LANES * PIECE) {
    uint words[COLUMNS][WORDS];
    float scale[COLUMNS], offset[COLUMNS];
    for (int c = 0; c < COLUMNS; ++c) {
      const long column = min(first_column + c, n - 1);
      device const uint* row_of_codes = reinterpret_cast<device const uint*>(codes + (column * k + at) / 2);
      for (int w = 0; w < WORDS; ++w) {
        words[c][w] = row_of_codes[w];
      }
      const long group = column * (k / GROUP) + at / GROUP;
      scale[c] = float(scales[group]);
      offset[c] = float(offsets[group]);
    }
    for (int r = 0; r < ROWS; ++r) {
      device const T* piece = x + long(min(first_row + r, m - 1)) * k + at;
      float values[PIECE], whole = 0;
      for (int i = 0; i < PIECE; ++i) {
        values[i] = float(piece[i]);
        whole += values[i];
      }
      for (int c = 0; c < COLUMNS; ++c) {
        float product = 0;
        for (int i = 0; i < PIECE; ++i) {
          const uint code = (words[c][i / CODES_A_WORD] >> (4 * (i % CODES_A_WORD))) & 15;
          product = fma(float(code), values[i], product);  // the compiler unpacks once for all rows, since c and i are unrolled
        }
        sums[r][c] = fma(scale[c], product, fma(offset[c], whole, sums[r][c]));
      }
    }
  }

  for (int r = 0; r < ROWS; ++r) {
    for (int c = 0; c < COLUMNS; ++c) {
      const float sum = simd_sum(sums[r][c]);
      if (lane == 0) {
        partial[(int(simdgroup) * ROWS + r) * COLUMNS + c] = sum;
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  const int own = int(simdgroup) * LANES + int(lane);  // of the tile's outputs
  const int row = first_row + own / COLUMNS;
  const int column = first_column + own % COLUMNS;
  if (own < ROWS * COLUMNS && row < m && column < n) {
    float sum = 0;
    for (int s = 0; s < SIMDGROUPS; ++s) {
      sum += partial[s * ROWS * COLUMNS + own];
    }
    out[long(row) * n + column] = T(sum);
  }
}

template <typename T, int GROUP, int ROWS, int COLUMNS, int SIMDGROUPS>
[[kernel]] void int4_matmul_of_tensors(
    device const T* x [[buffer(0)]],
    device const uchar* codes [[buffer(1)]],
    device const T* scales [[buffer(2)]],
    device const T* offsets [[buffer(3)]],
    device T* out [[buffer(4)]],
    constant long& m [[buffer(5)]],
    constant long& n [[buffer(6)]],
    constant long& k [[buffer(7)]],
    uint2 tile [[threadgroup_position_in_grid]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float partial[SIMDGROUPS * ROWS * COLUMNS];
  int4_matmul<T, GROUP, ROWS, COLUMNS, SIMDGROUPS>(x, codes, scales, offsets, out, m, n, k, partial, tile, simdgroup, lane);
}
