// Softshrink: x − lambda above lambda, x + lambda below −lambda, else 0. NaN stays NaN.
//
// It is bound by reading x and writing y. Python puts what a framework calls after this.

#include "../vectors.h"

inline Floats shrink(Floats x, float lambda) {
  return x > lambda ? x - lambda : x < -lambda ? x + lambda : x * 0.0f;  // · 0 keeps what no comparison is true of
}

// x and y [length]. `threads` shares out the work.
template <typename T, typename Threads>
void softshrink(const T* x, T* y, int64_t length, float lambda, Threads threads) {
  constexpr int64_t GRAIN = 1 << 15;  // elements that are worth a thread
  threads(length, GRAIN, [=](int64_t begin, int64_t end) {
    int64_t at = begin;
    for (; at + LANES <= end; at += LANES) narrow(shrink(widen(x + at), lambda), y + at);
    if (at < end) narrow(shrink(widen(x + at, end - at), lambda), y + at, end - at);
  });
}
