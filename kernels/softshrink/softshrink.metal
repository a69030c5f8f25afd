// Softshrink: x − lambda above lambda, x + lambda below −lambda, else 0. NaN stays NaN and a zero keeps its sign, as in PyTorch.
//
// One source for two frameworks. MLX takes this file as the header of its own kernel function, whose body calls softshrink();
// PyTorch compiles it with an instance of softshrink_of_tensors() after it. The numbers behind an instance, such as SHARE, come from
// Python, where the grid that fits them is made.

#include <metal_stdlib>
using namespace metal;

template <typename T>
inline T shrink(T x, float lambda) {
  const float wide = float(x);
  return T(wide > lambda ? wide - lambda : wide < -lambda ? wide + lambda : wide * 0.0f);  // · 0 keeps what no comparison is true of
}

// One thread's SHARE neighbouring elements of x, which MLX puts into `constant` memory where it is short: hence Source, a pointer to T.
// Nothing here asks for more than an element's own alignment: Apple's GPUs load and store four at once from any element on.
template <int SHARE, typename T, typename Source>
inline void softshrink(Source x, device T* y, long length, float lambda, uint thread_index) {
  const long first = long(thread_index) * SHARE;
  if (first + SHARE <= length) {
    T share[SHARE];  // all loads before the first store, since for all the compiler knows y may overlap x
    for (int i = 0; i < SHARE; ++i) {
      share[i] = x[first + i];
    }
    for (int i = 0; i < SHARE; ++i) {
      y[first + i] = shrink(share[i], lambda);
    }
  } else {
    for (long i = first; i < length; ++i) {
      y[i] = shrink(T(x[i]), lambda);
    }
  }
}

template <typename T, int SHARE>
[[kernel]] void softshrink_of_tensors(
    device const T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    constant long& length [[buffer(2)]],
    constant float& lambda [[buffer(3)]],
    uint thread_index [[thread_position_in_grid]]) {
  softshrink<SHARE>(x, y, length, lambda, thread_index);
}
