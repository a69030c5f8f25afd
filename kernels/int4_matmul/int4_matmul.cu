// Starts int4_matmul() on a stream. Python puts an instance of launch() after this, with the numbers it was compiled for.

#include "int4_matmul.cuh"

template <typename T, int GROUP, int SETS, int WARPS, int DEPTH>
__global__ void __launch_bounds__(WARPS * 32)
    kernel(const T* x, const uint4* codes, const Parameters<T>* parameters, T* out, int m, int n, int k) {
  int4_matmul<T, GROUP, SETS, WARPS, DEPTH>(x, codes, parameters, out, m, n, k);
}

template <typename T, int GROUP, int SETS, int WARPS, int DEPTH>
int launch(const void* x, const void* codes, const void* parameters, void* out, int m, int n, int k, cudaStream_t stream) {
  constexpr int ROWS = SETS * COLUMNS / Operand<T>::TERMS;
  const dim3 grid((n + TILE_ROWS - 1) / TILE_ROWS, (m + ROWS - 1) / ROWS);
  kernel<T, GROUP, SETS, WARPS, DEPTH><<<grid, WARPS * 32, 0, stream>>>(
      static_cast<const T*>(x), static_cast<const uint4*>(codes), static_cast<const Parameters<T>*>(parameters), static_cast<T*>(out), m, n, k);
  return cudaGetLastError();
}
