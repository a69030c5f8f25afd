// Softshrink: x − lambda above lambda, x + lambda below −lambda, else 0. NaN stays NaN and a zero keeps its sign, as in PyTorch.
//
// It is bound by reading x and writing y. So a thread loads 16 bytes at once, and neither x nor y is kept in a cache, since nothing reads
// them again soon. What isn't aligned, and the rest of the division, goes one by one.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
inline __device__ T shrink(T x, float lambda) {
  const float wide = float(x);
  return T(wide > lambda ? wide - lambda : wide < -lambda ? wide + lambda : wide * 0.0f);  // · 0 keeps what no comparison is true of
}

// x and y [length]; a block takes blockDim.x · 16 bytes.
template <typename T>
inline __device__ void softshrink(const T* x, T* y, long long length, float lambda) {
  constexpr int SHARE = 16 / sizeof(T);
  const long long begin = (long long)blockIdx.x * blockDim.x * SHARE;
  const long long end = begin + blockDim.x * SHARE;
  const bool aligned = (reinterpret_cast<size_t>(x) | reinterpret_cast<size_t>(y)) % 16 == 0;
  if (aligned && end <= length) {
    uint4 loaded = __ldcs(reinterpret_cast<const uint4*>(x + begin) + threadIdx.x);
    T* share = reinterpret_cast<T*>(&loaded);
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
      share[i] = shrink(share[i], lambda);
    }
    __stcs(reinterpret_cast<uint4*>(y + begin) + threadIdx.x, loaded);
  } else {
    for (long long i = begin + threadIdx.x; i < min(length, end); i += blockDim.x) {
      y[i] = shrink(x[i], lambda);
    }
  }
}
