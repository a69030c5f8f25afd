// Softshrink: x − lambda above lambda, x + lambda below −lambda, else 0. NaN stays NaN and a zero keeps its sign, as in PyTorch.
//
// It is bound by reading x and writing y. So a thread has VECTORS loads of 16 bytes under way before its first store, and neither is kept
// in a cache, since nothing reads them again soon. What isn't aligned, and the rest of the division, goes one by one.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
inline __device__ T shrink(T x, float lambda) {
  const float wide = float(x);
  return T(wide > lambda ? wide - lambda : wide < -lambda ? wide + lambda : wide * 0.0f);  // · 0 keeps what no comparison is true of
}

// x and y [length]; a block takes blockDim.x · VECTORS · 16 bytes.
template <typename T, int VECTORS>
inline __device__ void softshrink(const T* x, T* y, long long length, float lambda) {
  constexpr int SHARE = 16 / sizeof(T);
  const long long block = (long long)blockIdx.x * blockDim.x * VECTORS;
  const bool aligned = (reinterpret_cast<size_t>(x) | reinterpret_cast<size_t>(y)) % 16 == 0;
  if (aligned && (block + blockDim.x * VECTORS) * SHARE <= length) {
    uint4 loaded[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      loaded[v] = __ldcs(reinterpret_cast<const uint4*>(x) + block + v * blockDim.x + threadIdx.x);
    }
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      T* share = reinterpret_cast<T*>(&loaded[v]);
#pragma unroll
      for (int i = 0; i < SHARE; ++i) {
        share[i] = shrink(share[i], lambda);
      }
      __stcs(reinterpret_cast<uint4*>(y) + block + v * blockDim.x + threadIdx.x, loaded[v]);
    }
  } else {
    const long long end = min(length, (block + blockDim.x * VECTORS) * SHARE);
    for (long long i = block * SHARE + threadIdx.x; i < end; i += blockDim.x) {
      y[i] = shrink(x[i], lambda);
    }
  }
}
