// The part of CUDA C++ that softshrink.cuh uses, for a compiler that has both 16-bit types: one thread after another, in any order.
#pragma once

#include <algorithm>
#include <cstddef>

#define __device__

using std::min;
using __half = _Float16;

struct Index {
  unsigned x;
};
inline Index blockIdx, blockDim, threadIdx;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

// Wide accesses need an address aligned as the hardware wants it.
inline uint4 __ldcs(const uint4* from) {
  if (reinterpret_cast<size_t>(from) % 16) __builtin_trap();
  return *from;
}
inline void __stcs(uint4* to, uint4 value) {
  if (reinterpret_cast<size_t>(to) % 16) __builtin_trap();
  *to = value;
}
