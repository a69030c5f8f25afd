// The grid of softshrink.cuh on the CPU. Threads share nothing, so that they may run one after the other.

#include "softshrink.cuh"

template <typename T>
void grid(const T* x, T* y, long long length, float lambda, unsigned blocks, unsigned threads) {
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) softshrink(x, y, length, lambda);
}

extern "C" void of_float32(const float* x, float* y, long long n, float lambda, unsigned b, unsigned t) { grid(x, y, n, lambda, b, t); }
extern "C" void of_float16(const __half* x, __half* y, long long n, float lambda, unsigned b, unsigned t) { grid(x, y, n, lambda, b, t); }
extern "C" void of_bfloat16(const __nv_bfloat16* x, __nv_bfloat16* y, long long n, float lambda, unsigned b, unsigned t) {
  grid(x, y, n, lambda, b, t);
}
