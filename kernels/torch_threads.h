// Work shared out over PyTorch's own threads, through the C function of its stable interface; none of its headers is needed for that.
#pragma once

#include <cstdint>

struct TorchThreads {
  using ParallelFor = int32_t(int64_t begin, int64_t end, int64_t grain, void (*)(int64_t begin, int64_t end, void* context), void* context);

  ParallelFor* parallel_for;

  // work(begin, end) over 0…count, in parts of at least `grain`.
  template <typename Work>
  void operator()(int64_t count, int64_t grain, Work work) const {
    parallel_for(0, count, grain, [](int64_t begin, int64_t end, void* context) { (*static_cast<Work*>(context))(begin, end); }, &work);
  }
};
