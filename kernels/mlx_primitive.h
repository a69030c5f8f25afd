// A function of arrays as a primitive of MLX: a node of its graph, run on its stream when it is evaluated. For MLX's CPU streams.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "mlx/backend/cpu/encoder.h"
#include "mlx/mlx.h"
#include "mlx/primitives.h"
#include "mlx/threadpool.h"
#include "shares.h"
#include "vectors.h"

namespace mx = mlx::core;

// MLX lends no threads, but the class that it makes its own of.
struct MlxThreads {
  template <typename Work>
  void operator()(int64_t count, int64_t grain, Work work) {
    static const size_t threads = std::max(1u, std::thread::hardware_concurrency());
    static ThreadPool pool(threads);
    share_out(count, grain, threads, [](auto task) { pool.enqueue(std::move(task)); }, work);
  }
};

// function(T(), inputs, out), for T the output's type: float, Half or BFloat16.
template <typename Function>
class Called : public mx::UnaryPrimitive {
 public:
  Called(mx::Stream stream, Function function) : mx::UnaryPrimitive(stream), function_(std::move(function)) {}

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    out.set_data(mx::allocator::malloc(out.nbytes()));
    std::vector<mx::array> kept;
    for (const mx::array& input : inputs) kept.push_back(mx::array::unsafe_weak_copy(input));
    mx::cpu::get_command_encoder(stream()).dispatch([kept, out = mx::array::unsafe_weak_copy(out), function = function_]() mutable {
      if (out.dtype() == mx::float32) {
        function(float(), kept, out);
      } else if (out.dtype() == mx::float16) {
        function(Half(), kept, out);
      } else {
        function(BFloat16(), kept, out);
      }
    });
  }

  void eval_gpu(const std::vector<mx::array>&, mx::array&) override { throw std::runtime_error("this kernel is for the CPU"); }

  const char* name() const override { return "Called"; }

 private:
  Function function_;
};

template <typename Function>
mx::array called(const std::vector<mx::array>& inputs, mx::Shape shape, mx::Dtype dtype, Function function) {
  if (dtype != mx::float32 && dtype != mx::float16 && dtype != mx::bfloat16) throw std::invalid_argument("float32, float16 or bfloat16");
  std::vector<mx::array> contiguous;
  for (const mx::array& input : inputs) contiguous.push_back(mx::contiguous(input));
  auto primitive = std::make_shared<Called<Function>>(mx::default_stream(mx::Device::cpu), std::move(function));
  return mx::array(std::move(shape), dtype, std::move(primitive), std::move(contiguous));
}
