// Starts softshrink() on a stream: a function for each type, of so many blocks of so many threads.

#include "softshrink.cuh"

template <typename T>
__global__ void kernel(const T* x, T* y, long long length, float lambda) {
  softshrink(x, y, length, lambda);
}

#define STARTED(NAME, T)                                                                                                          \
  extern "C" int NAME(const T* x, T* y, long long length, float lambda, unsigned blocks, unsigned threads, cudaStream_t stream) { \
    kernel<<<blocks, threads, 0, stream>>>(x, y, length, lambda);                                                                 \
    return cudaGetLastError();                                                                                                    \
  }
STARTED(of_float32, float)
STARTED(of_float16, __half)
STARTED(of_bfloat16, __nv_bfloat16)
