// Vectors of float32 as wide as the CPU has them, and the 16-bit types that are read into them and written from them.
//
// Written in the vector extensions that GCC and Clang share, so that one source serves AVX2, AVX-512 and NEON. No address need be aligned
// to more than an element.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#elif defined(__AVX2__)
constexpr int LANES = 8, REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int LANES = 4, REGISTERS = 32;
#else
constexpr int LANES = 4, REGISTERS = 16;
#endif

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
typedef uint16_t Shorts __attribute__((vector_size(2 * LANES)));

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <typename Vector, typename T>
inline Vector load(const T* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

inline Floats widen(const float* from) { return load<Floats>(from); }

inline Floats widen(const BFloat16* from) { return (Floats)(__builtin_convertvector(load<Shorts>(from), Words) << 16); }

// Halves go through the CPU's own instructions: they round to the nearest even, and keep what is subnormal in whatever mode the thread is.
inline Floats widen(const Half* from) {
#if defined(__AVX512F__)
  return (Floats)_mm512_cvtph_ps(load<__m256i>(from));
#elif defined(__F16C__)
  return (Floats)_mm256_cvtph_ps(load<__m128i>(from));
#else
  typedef _Float16 Halves __attribute__((vector_size(2 * LANES)));
  return __builtin_convertvector(load<Halves>(from), Floats);
#endif
}

inline void narrow(Floats values, float* to) { std::memcpy(to, &values, sizeof values); }

inline void narrow(Floats values, BFloat16* to) {
  const Words bits = (Words)values, nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  const Shorts shorts = __builtin_convertvector(values == values ? nearest : nan, Shorts);
  std::memcpy(to, &shorts, sizeof shorts);
}

inline void narrow(Floats values, Half* to) {
#if defined(__AVX512F__)
  const __m256i halves = _mm512_cvtps_ph((__m512)values, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__F16C__)
  const __m128i halves = _mm256_cvtps_ph((__m256)values, _MM_FROUND_TO_NEAREST_INT);
#else
  typedef _Float16 Halves __attribute__((vector_size(2 * LANES)));
  const Halves halves = __builtin_convertvector(values, Halves);
#endif
  std::memcpy(to, &halves, sizeof halves);
}

// The first `count` lanes only, for the end of a row; other lanes read as 0.
template <typename T>
inline Floats widen(const T* from, int64_t count) {
  T padded[LANES] = {};
  std::memcpy(padded, from, count * sizeof(T));
  return widen(padded);
}

template <typename T>
inline void narrow(Floats values, T* to, int64_t count) {
  T padded[LANES];
  narrow(values, padded);
  std::memcpy(to, padded, count * sizeof(T));
}
