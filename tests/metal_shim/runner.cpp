// Runs the kernel in a shared library over one grid: a job from standard input, its buffers back on standard output. See README.md.

#include <dlfcn.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "metal_stdlib"
#undef device
#undef constant
#undef threadgroup
#undef thread
#undef kernel

namespace {

constexpr std::size_t STACK = 64 << 10, WIDEST = 16;  // bytes of a fibre's stack, and of a value exchanged between lanes

[[noreturn]] void fail(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::_Exit(3);
}

struct Fibre {
  enum { READY, AT_BARRIER, AT_SIMD, DONE } state = READY;
  shim::Thread thread;
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[STACK]};
};

// What lanes bring is kept twice: a lane may bring its next value while others still read the last ones.
struct SimdGroup {
  alignas(WIDEST) char brought[2][shim::LANES * WIDEST];
  uint lanes[2] = {0, 0}, turn = 0;
  int site;  // the line at which they meet
};

std::mt19937 draw;
ucontext_t scheduler;
Fibre* running;
std::vector<std::unique_ptr<Fibre>> fibres;
std::vector<SimdGroup> simdgroups;
std::vector<uint> order;  // of SIMD groups: the first that can go on does
std::set<void*> filled;  // threadgroup memory in use by this threadgroup
void* const* arguments;
void (*call)(void* const* buffers);  // the kernel, in one thread

void wait(decltype(Fibre::state) state) {
  running->state = state;
  swapcontext(&running->context, &scheduler);
}

void body() {
  call(arguments);
  wait(Fibre::DONE);
}

// Lets those go on that have all come to the point where ``last`` waits. Lanes that have ended are not waited for by a SIMD operation,
// but by a barrier they are: Metal wants every thread there.
void release(Fibre& last) {
  std::size_t there = 0, members = 0;
  const bool everywhere = last.state == Fibre::AT_BARRIER;
  const auto together = [&](const Fibre& other) {
    return everywhere || other.thread.simdgroup_index_in_threadgroup == last.thread.simdgroup_index_in_threadgroup;
  };
  for (const auto& fibre : fibres) {
    members += together(*fibre) && (everywhere || fibre->state != Fibre::DONE);
    there += together(*fibre) && fibre->state == last.state;
  }
  if (there < members) return;
  if (!everywhere) {
    SimdGroup& group = simdgroups[last.thread.simdgroup_index_in_threadgroup];
    group.turn ^= 1;
    group.lanes[group.turn] = 0;
  }
  for (const auto& fibre : fibres) {
    if (together(*fibre) && fibre->state == last.state && fibre.get() != &last) fibre->state = Fibre::READY;
  }
  last.state = Fibre::READY;
  if (everywhere) std::shuffle(order.begin(), order.end(), draw);
}

void run_threadgroup() {
  filled.clear();
  order.resize(simdgroups.size());
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), draw);
  for (auto& fibre : fibres) {
    getcontext(&fibre->context);
    fibre->context.uc_stack.ss_sp = fibre->stack.get();
    fibre->context.uc_stack.ss_size = STACK;
    makecontext(&fibre->context, body, 0);
  }
  for (;;) {
    std::vector<Fibre*> ready;
    for (std::size_t place = 0; ready.empty() && place < order.size(); ++place) {
      const std::size_t first = order[place] * shim::LANES;
      for (std::size_t i = first; i < std::min(first + shim::LANES, fibres.size()); ++i) {
        if (fibres[i]->state == Fibre::READY) ready.push_back(fibres[i].get());
      }
    }
    if (std::all_of(fibres.begin(), fibres.end(), [](const auto& fibre) { return fibre->state == Fibre::DONE; })) return;
    if (ready.empty()) fail("threads wait for others that never come: not all of a threadgroup reach the same barrier or SIMD operation");
    running = ready[draw() % ready.size()];
    swapcontext(&scheduler, &running->context);
    for (auto& fibre : fibres) {  // who ends may be the one that others of its SIMD group waited for
      const bool concerned = running->state == Fibre::DONE && fibre->state == Fibre::AT_SIMD;
      if (fibre.get() == running ? running->state != Fibre::DONE : concerned) release(*fibre);
    }
  }
}

void run_grid(uint3 grid, uint3 group) {
  const uint3 groups = (grid + group - 1) / group;
  for (uint index = 0; index < groups.x * groups.y * groups.z; ++index) {
    const uint3 at = {index % groups.x, index / groups.x % groups.y, index / groups.x / groups.y};
    uint3 size = group;  // smaller at the grid's end
    for (int axis = 0; axis < 3; ++axis) size[axis] = metal::min(group[axis], grid[axis] - at[axis] * group[axis]);
    const uint count = size.x * size.y * size.z;
    fibres.resize(count);
    simdgroups.assign((count + shim::LANES - 1) / shim::LANES, {});
    for (uint i = 0; i < count; ++i) {
      const uint3 place = {i % size.x, i / size.x % size.y, i / size.x / size.y};
      if (!fibres[i]) fibres[i] = std::make_unique<Fibre>();
      fibres[i]->state = Fibre::READY;
      fibres[i]->thread = {at * group + place, place, at, grid, size, groups, i, i % shim::LANES, i / shim::LANES,
                               uint(simdgroups.size()), shim::LANES};
    }
    run_threadgroup();
  }
}

template <typename T>
T read() {
  T value;
  if (std::fread(&value, sizeof value, 1, stdin) != 1) fail("the job ends early");
  return value;
}

}  // namespace

const shim::Thread& shim::here() { return running->thread; }

void shim::barrier() { wait(Fibre::AT_BARRIER); }

const void* shim::meet(const void* value, std::size_t size, int site, uint& lanes) {
  SimdGroup& group = simdgroups[running->thread.simdgroup_index_in_threadgroup];
  const uint turn = group.turn, lane = running->thread.thread_index_in_simdgroup;
  if (size > WIDEST) fail("lanes exchange values of 16 bytes at most");
  if (group.lanes[turn] == 0) group.site = site;
  if (group.site != site) fail("lanes of a SIMD group are at different SIMD operations");
  group.lanes[turn] |= 1u << lane;
  std::memcpy(group.brought[turn] + lane * size, value, size);
  wait(Fibre::AT_SIMD);
  lanes = group.lanes[turn];
  return group.brought[turn];
}

void shim::fresh(void* memory, std::size_t size) {
  if (filled.insert(memory).second) std::memset(memory, 0xff, size);
}

int main(int, char** names) {
  void* library = dlopen(names[1], RTLD_NOW);
  if (!library) fail(dlerror());
  call = reinterpret_cast<decltype(call)>(dlsym(library, "shim_call"));
  draw.seed(read<uint>());
  uint sizes[6];
  for (uint& size : sizes) size = read<uint>();
  std::vector<std::vector<char>> memory(read<uint>());
  std::vector<std::size_t> starts;
  std::vector<void*> buffers;
  for (auto& block : memory) {
    const auto size = read<std::uint64_t>();
    const auto offset = read<std::uint64_t>();  // from an address divisible by 16
    block = std::vector<char>(offset + size);
    block.shrink_to_fit();
    starts.push_back(offset);
    buffers.push_back(block.data() + offset);
    if (std::fread(buffers.back(), 1, size, stdin) != size) fail("the job ends early");
  }
  arguments = buffers.data();
  run_grid(uint3{sizes[0], sizes[1], sizes[2]}, uint3{sizes[3], sizes[4], sizes[5]});
  for (std::size_t i = 0; i < memory.size(); ++i) std::fwrite(buffers[i], 1, memory[i].size() - starts[i], stdout);
}
