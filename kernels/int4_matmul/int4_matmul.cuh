// out = x · Wᵀ for few rows of x, where W[r, i] = codes[r, i] · scale + offset has 4-bit codes, and a scale and an offset for every GROUP
// weights of a row. x [m, k] and out [m, n] in T: float, __half or __nv_bfloat16; k a multiple of GROUP, x aligned to 16 bytes.
//
// With few rows this is bound by reading W, and next by unpacking it. So the codes lie in memory as the tensor cores take them: a warp
// reads 16 rows × 64 columns of W as 512 bytes one after the other, a lane 16 of them, and each word is the lane's share of one
// mma.m16n8k16, whose 8 columns are rows of x. The next reads are under way while one is multiplied. Tensor cores multiply 16-bit
// numbers exactly and add in float32; float32 activations are three bfloat16 terms that add up to them.
//
// A code isn't converted: two at once are put into the mantissas of two numbers MAGIC, whose last place is 1, and what that adds is
// taken out of the group's offset. Sums over a group are scaled as sums, not as weights:
//   scale · Σ (MAGIC + code) · x + (offset − scale · MAGIC) · Σ x,   with Σ x from a second product, by ones.
// The warps of a block share out k and add their sums in the end.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int TILE_ROWS = 16;  // of W
constexpr int TILE_K = 64;
constexpr int COLUMNS = 8;  // of one mma

using Word = unsigned int;

// How activations of type T go through the tensor cores, in TERMS columns each.
template <typename T>
struct Operand;

template <>
struct Operand<__half> {
  static constexpr int TERMS = 1;
  static constexpr float MAGIC = 1024;
  static constexpr Word MAGICS = 0x64006400, ONES = 0x3C003C00;
  static __device__ void multiply(float (&sums)[4], const Word (&w)[4], Word x0, Word x1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x0), "r"(x1));
  }
};

template <>
struct Operand<__nv_bfloat16> {
  static constexpr int TERMS = 1;
  static constexpr float MAGIC = 128;
  static constexpr Word MAGICS = 0x43004300, ONES = 0x3F803F80;
  static __device__ void multiply(float (&sums)[4], const Word (&w)[4], Word x0, Word x1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(x0), "r"(x1));
  }
};

template <>
struct Operand<float> : Operand<__nv_bfloat16> {
  static constexpr int TERMS = 3;
};

// The lane's 8 neighbouring activations of half a tile, as the mma wants them: two words a step.
template <typename T>
inline __device__ uint4 activations(const T* x, int) {
  return __ldg(reinterpret_cast<const uint4*>(x));
}

// The one of the three terms of each that this column multiplies.
inline __device__ uint4 activations(const float* x, int term) {
  uint4 pairs;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float2 rest = __ldg(reinterpret_cast<const float2*>(x) + i);
    __nv_bfloat162 found = __float22bfloat162_rn(rest);
    for (int t = 0; t < term; ++t) {
      rest.x -= __low2float(found);
      rest.y -= __high2float(found);
      found = __float22bfloat162_rn(rest);
    }
    (&pairs.x)[i] = *reinterpret_cast<Word*>(&found);
  }
  return pairs;
}

// (word & mask) | magic in one instruction, which the compiler makes two of.
inline __device__ Word code_pair(Word word, Word magic) {
  Word out;
  asm("lop3.b32 %0, %1, 0x000F000F, %2, 0xEA;" : "=r"(out) : "r"(word), "r"(magic));
  return out;
}

template <typename T>
struct alignas(2 * sizeof(T)) Parameters {
  T scale, offset;
};

// What a warp reads at once: DEPTH tiles of codes, and the parameters of their groups for the lane's two rows. Zeros past the end.
template <typename T, int DEPTH, int GROUPS>
struct Batch {
  uint4 codes[DEPTH];
  Parameters<T> upper[GROUPS], lower[GROUPS];

  inline __device__ void read(const uint4* from, const Parameters<T>* of, int batch, int tiles, int groups) {
#pragma unroll
    for (int d = 0; d < DEPTH; ++d) {
      const int tile = batch * DEPTH + d;
      codes[d] = tile < tiles ? __ldcs(from + size_t(tile) * 32) : uint4{};
    }
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      const int group = batch * GROUPS + g;
      upper[g] = lower[g] = Parameters<T>{T(0.0f), T(0.0f)};
      if (group < groups) {
        upper[g] = of[size_t(group) * TILE_ROWS];
        lower[g] = of[size_t(group) * TILE_ROWS + 8];
      }
    }
  }
};

// codes [n / 16, k / 64, 32 lanes] of four words, parameters [n / 16, k / GROUP, 16], both padded with zeros to whole tiles.
// blockIdx.x: 16 rows of W. blockIdx.y: as many rows of x as SETS · 8 columns have room for. A warp reads DEPTH tiles at once.
template <typename T, int GROUP, int SETS, int WARPS, int DEPTH>
inline __device__ void int4_matmul(const T* x, const uint4* codes, const Parameters<T>* parameters, T* out, int m, int n, int k) {
  using Op = Operand<T>;
  constexpr int WIDTH = SETS * COLUMNS, ROWS = WIDTH / Op::TERMS;
  constexpr int GROUPS = DEPTH * TILE_K / GROUP;  // of a batch of tiles
  static_assert(GROUPS >= 1 && DEPTH * TILE_K % GROUP == 0, "a batch is whole groups");
  __shared__ float partial[WARPS][TILE_ROWS][WIDTH + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = lane / 4, quarter = lane % 4;
  const int tiles = (k + TILE_K - 1) / TILE_K, groups = tiles * TILE_K / GROUP;
  const int batches = (tiles + DEPTH - 1) / DEPTH;

  const T* rows_of_x[SETS];
  int terms[SETS];
#pragma unroll
  for (int set = 0; set < SETS; ++set) {
    const int column = set * COLUMNS + row, row_of_x = int(blockIdx.y) * ROWS + column / Op::TERMS;
    terms[set] = column % Op::TERMS;
    rows_of_x[set] = column < ROWS * Op::TERMS && row_of_x < m ? x + size_t(row_of_x) * k + quarter * 8 : nullptr;
  }
  codes += size_t(blockIdx.x) * tiles * 32 + lane;
  parameters += size_t(blockIdx.x) * groups * TILE_ROWS + row;

  float totals[SETS][4] = {}, sums[SETS][4] = {}, wholes[SETS][4] = {};
  const Word ones[4] = {Op::ONES, Op::ONES, Op::ONES, Op::ONES};
  Word magics;
  asm volatile("mov.b32 %0, %1;" : "=r"(magics) : "n"(Op::MAGICS));

  Batch<T, DEPTH, GROUPS> next;
  next.read(codes, parameters, warp, tiles, groups);
#pragma unroll 2
  for (int batch = warp; batch < batches; batch += WARPS) {
    const Batch<T, DEPTH, GROUPS> now = next;
    next.read(codes, parameters, batch + WARPS, tiles, groups);
    uint4 pairs[2 * DEPTH][SETS];
#pragma unroll
    for (int half = 0; half < 2 * DEPTH; ++half) {
      const int first = (batch * 2 * DEPTH + half) * (TILE_K / 2);
#pragma unroll
      for (int set = 0; set < SETS; ++set) {
        pairs[half][set] = rows_of_x[set] != nullptr && first < k ? activations(rows_of_x[set] + first, terms[set]) : uint4{};
      }
    }
#pragma unroll
    for (int half = 0; half < 2 * DEPTH; ++half) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const uint4 four_words = now.codes[half / 2];
        const Word word = half % 2 ? (step ? four_words.w : four_words.z) : (step ? four_words.y : four_words.x);
        Word weights[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          weights[i] = code_pair(word >> (4 * i), magics);
        }
#pragma unroll
        for (int set = 0; set < SETS; ++set) {
          const uint4 four = pairs[half][set];
          Op::multiply(sums[set], weights, step ? four.z : four.x, step ? four.w : four.y);
          Op::multiply(wholes[set], ones, step ? four.z : four.x, step ? four.w : four.y);
        }
      }
      if ((half + 1) * (TILE_K / 2) % GROUP == 0) {
        const int g = half * (TILE_K / 2) / GROUP;
        const float scales[2] = {float(now.upper[g].scale), float(now.lower[g].scale)};
        const float offsets[2] = {float(now.upper[g].offset) - Op::MAGIC * scales[0], float(now.lower[g].offset) - Op::MAGIC * scales[1]};
#pragma unroll
        for (int set = 0; set < SETS; ++set) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            totals[set][i] += scales[i / 2] * sums[set][i] + offsets[i / 2] * wholes[set][i];
            sums[set][i] = wholes[set][i] = 0;
          }
        }
      }
    }
  }

#pragma unroll
  for (int set = 0; set < SETS; ++set) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      partial[warp][row + 8 * (i / 2)][set * COLUMNS + 2 * quarter + i % 2] = totals[set][i];
    }
  }
  __syncthreads();
  for (int own = threadIdx.x; own < TILE_ROWS * ROWS; own += WARPS * 32) {
    const int r = own % TILE_ROWS, c = own / TILE_ROWS;
    const int row_of_x = int(blockIdx.y) * ROWS + c, row_of_w = int(blockIdx.x) * TILE_ROWS + r;
    if (row_of_x < m && row_of_w < n) {
      float sum = 0;
      for (int w = 0; w < WARPS; ++w) {
        for (int term = 0; term < Op::TERMS; ++term) {
          sum += partial[w][r][c * Op::TERMS + term];
        }
      }
      out[size_t(row_of_x) * n + row_of_w] = T(sum);
    }
  }
}
