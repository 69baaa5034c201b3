// cfiberbench: name=boost.fiber pkg=libboost-fiber-dev,libboost-dev flags=-std=c++17 -Wl,-Bstatic -lboost_fiber -lboost_context -Wl,-Bdynamic -pthread workloads=yield,spawn,tree,memory,wake,timers,mutex,chan,echo
//
// Boost.Fiber. Linked statically, because the library asks for its thread-local
// data at each step, which costs a call from a shared object. Stacks are of
// 16 KiB and pooled, without guards, as the library's default has none. The
// scheduler is the default, round_robin, but for tree and echo; with threads=N
// yield and spawn have one on each thread and nothing shared.
//
// yield   The scheduler's dispatcher takes part in the round: of two fibers that
//         yield, every third switch goes to it.
// spawn   launch::dispatch, which runs the new fiber at once, is faster than
//         launch::post, which queues it; launch=dispatch|post. mode=cold is
//         post, so that all are there before one runs, and fixedsize_stack,
//         the library's default: the pool would touch a second page of each
//         stack when it cuts it from a chunk, and cold is about such things.
// tree    Each node is a fiber that starts its children, joins them and adds
//         their numbers. depth_first_scheduler.h, for without it most of the
//         tree lives at once: 100 times the time, here. scheduler=stock shows
//         that, with round_robin and work_stealing. Stacks are pooled per
//         thread; the library's pool is for one thread only. Idle threads spin
//         for work, as work_stealing does where nothing is said.
// memory  Fibers wait on a condition variable. stacks=fixed (default, for the
//         same reason)|pooled|protected, stack=BYTES. Of these protected has
//         guards, and two mappings a fiber, of which Linux allows 65,530.
// wake    Two fibers take turns under a mutex with a condition variable. For
//         mode=awake each thread has one more fiber that yields without end;
//         for mode=sleeping the threads wait in round_robin, on a
//         std::condition_variable. pin=1 puts the two threads on two CPUs.
// timers  this_fiber::sleep_until.
// mutex   Two fibers on one thread that hold the mutex over a yield, so that
//         each finds it taken. mode=free: one fiber that finds it free.
// chan    Ping-pong over two unbuffered channels; time of one message.
// echo    asio_scheduler.h: a thread waits in an io_context of its own. A fiber
//         per connection; writes are tried first and wait only if they must.
#include "asio_scheduler.h"
#include "bench.h"
#include "depth_first_scheduler.h"
#include "server.h"
#include "timers.h"
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace this_fiber = boost::this_fiber;

static constexpr size_t many_stack = 16 * 1024;
static constexpr size_t stacks_per_chunk = 1024; // the pool's chunks double up to this

using pool = fibers::pooled_fixedsize_stack;

static pool make_pool(size_t size) {
  return pool(size, 32, stacks_per_chunk);
}

static std::chrono::steady_clock::time_point time_point(uint64_t ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

// on_threads runs work on that many threads, each with its own scheduler.
template <class Work> static void on_threads(unsigned count, Work work) {
  BENCH_CHECK(count > 0);
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < count; i++)
    threads.emplace_back(work);
  work();
  for (auto &thread : threads)
    thread.join();
}

// yield

// yield_on_thread returns the time that it took, without that of starting: all
// fibers have touched their stacks when the clock starts.
static uint64_t yield_on_thread(uint64_t count, uint64_t rounds) {
  pool stacks = make_pool(many_stack);
  std::vector<fibers::fiber> all;
  uint64_t begun = 0, done = 0;
  for (uint64_t i = 0; i < count; i++)
    all.emplace_back(fibers::launch::post, std::allocator_arg, stacks, [&] {
      begun++;
      this_fiber::yield();
      for (uint64_t r = 0; r < rounds; r++)
        this_fiber::yield();
      done += rounds;
    });
  while (begun < count)
    this_fiber::yield();
  uint64_t start = bench_now();
  for (auto &fiber : all)
    fiber.join();
  BENCH_CHECK(done == rounds * count);
  return bench_now() - start;
}

static void run_yield() {
  uint64_t count = bench_number("fibers", 2), n = bench_number("n", 10000000);
  unsigned threads = (unsigned)bench_number("threads", 1);
  bench_arguments_done();
  BENCH_CHECK(threads > 0 && count >= threads && n >= count);
  uint64_t share = count / threads, rounds = n / (share * threads);
  std::mutex mutex;
  uint64_t slowest = 0;
  on_threads(threads, [&] {
    uint64_t took = yield_on_thread(share, rounds);
    std::lock_guard<std::mutex> lock(mutex);
    slowest = std::max(slowest, took);
  });
  bench_metric("time", (double)slowest / (double)(share * threads * rounds), "ns/op");
}

// spawn

static void spawn_warm(uint64_t n, fibers::launch launch) {
  pool stacks = make_pool(many_stack);
  fibers::fiber(std::allocator_arg, stacks, [&] {
    uint64_t ran = 0;
    for (uint64_t i = 0; i < n; i++)
      fibers::fiber(launch, std::allocator_arg, stacks, [&] { ran++; }).join();
    BENCH_CHECK(ran == n);
  }).join();
}

static void spawn_cold(uint64_t n) {
  fibers::fixedsize_stack stacks(many_stack);
  std::vector<fibers::fiber> all;
  all.reserve(n);
  uint64_t begun = 0, ran = 0;
  for (uint64_t i = 0; i < n; i++)
    all.emplace_back(fibers::launch::post, std::allocator_arg, stacks, [&] {
      begun++;
      this_fiber::yield();
      BENCH_CHECK(begun == n);
      ran++;
    });
  for (auto &fiber : all)
    fiber.join();
  BENCH_CHECK(ran == n);
}

static void run_spawn() {
  bool cold = bench_choice("mode", "warm|cold") == 1;
  auto launch = bench_choice("launch", "dispatch|post") == 1 ? fibers::launch::post
                                                             : fibers::launch::dispatch;
  uint64_t n = bench_number("n", cold ? 20000 : 2000000);
  unsigned threads = (unsigned)bench_number("threads", 1);
  bench_arguments_done();
  uint64_t share = n / std::max(threads, 1u), start = bench_now();
  on_threads(threads, [=] { cold ? spawn_cold(share) : spawn_warm(share, launch); });
  bench_time(start, share * threads);
}

// tree

// A stack goes back to the thread that its fiber ended on. Fibers move between
// threads, so the pool has to be found anew at each call and not be inlined
// into code that suspends.
class thread_pool_stack {
public:
  __attribute__((noinline)) boost::context::stack_context allocate() {
    std::vector<void *> &kept = pool_of_thread();
    boost::context::stack_context stack;
    void *bottom;
    if (kept.empty()) {
      bottom = std::malloc(many_stack);
      BENCH_CHECK(bottom);
    } else {
      bottom = kept.back();
      kept.pop_back();
    }
    stack.size = many_stack;
    stack.sp = static_cast<char *>(bottom) + many_stack;
    return stack;
  }

  __attribute__((noinline)) void deallocate(boost::context::stack_context &stack) noexcept {
    pool_of_thread().push_back(static_cast<char *>(stack.sp) - stack.size);
  }

private:
  static std::vector<void *> &pool_of_thread() {
    static thread_local std::vector<void *> kept;
    return kept;
  }
};

static uint64_t tree_fanout;
static constexpr uint64_t max_fanout = 64;

static uint64_t tree_sum(uint64_t first, uint64_t leaves) {
  if (leaves == 1)
    return first;
  uint64_t sums[max_fanout], count = std::min(tree_fanout, leaves);
  fibers::fiber children[max_fanout];
  for (uint64_t i = 0; i < count; i++) {
    uint64_t share = leaves / count + (i < leaves % count);
    uint64_t *sum = &sums[i];
    children[i] = fibers::fiber(fibers::launch::post, std::allocator_arg, thread_pool_stack(),
                                [=] { *sum = tree_sum(first, share); });
    first += share;
  }
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; i++) {
    children[i].join();
    total += sums[i];
  }
  return total;
}

static bool tree_stock; // Boost's schedulers

static void use_tree_scheduler(std::vector<depth_first_scheduler *> &schedulers, unsigned index) {
  if (!tree_stock)
    fibers::use_scheduling_algorithm<depth_first_scheduler>(schedulers, index);
  else if (schedulers.size() > 1)
    fibers::use_scheduling_algorithm<fibers::algo::work_stealing>((uint32_t)schedulers.size());
}

// The threads that do not start the tree have a main fiber that waits for ever;
// their schedulers steal meanwhile. They stay until the process ends: a
// scheduler must not end while another may still look into it. Nor may it be
// looked into before it is there, so the threads first wait for one another as
// threads do.
struct tree_threads {
  explicit tree_threads(unsigned count) : schedulers(count) {
    for (unsigned i = 1; i < count; i++)
      std::thread([this, i] {
        begin(i);
        fibers::promise<void>().get_future().wait();
      }).detach();
    begin(0);
  }

  void begin(unsigned index) {
    use_tree_scheduler(schedulers, index);
    begun++;
    while (begun < schedulers.size())
      std::this_thread::yield();
  }

  std::vector<depth_first_scheduler *> schedulers;
  std::atomic<size_t> begun{0};
};

static void run_tree() {
  uint64_t n = bench_number("n", 1000000);
  tree_fanout = bench_number("fanout", 10);
  unsigned threads = (unsigned)bench_number("threads", 1);
  tree_stock = bench_choice("scheduler", "depth_first|stock") == 1;
  bench_arguments_done();
  BENCH_CHECK(n > 0 && tree_fanout >= 2 && tree_fanout <= max_fanout && threads > 0);
  new tree_threads(threads);
  uint64_t start = bench_now(), sum = 0;
  fibers::fiber(std::allocator_arg, thread_pool_stack(), [&] { sum = tree_sum(0, n); }).join();
  bench_time(start, n);
  BENCH_CHECK(sum == n * (n - 1) / 2);
}

// memory

template <class Stacks> static void park_all(uint64_t n, Stacks stacks) {
  fibers::mutex mutex;
  fibers::condition_variable never;
  uint64_t parked = 0;
  try {
    for (uint64_t i = 0; i < n; i++)
      fibers::fiber(fibers::launch::dispatch, std::allocator_arg, stacks, [&] {
        std::unique_lock<fibers::mutex> lock(mutex);
        parked++;
        never.wait(lock);
      }).detach();
  } catch (std::bad_alloc &) {
    bench_unsupported("no stack after %" PRIu64 " fibers", parked);
  }
  BENCH_CHECK(parked == n);
  bench_parked();
}

static void run_memory() {
  uint64_t n = bench_number("n", 1000);
  int kind = bench_choice("stacks", "fixed|pooled|protected");
  size_t size = bench_number("stack", many_stack);
  bench_arguments_done();
  if (kind == 0)
    park_all(n, fibers::fixedsize_stack(size));
  else if (kind == 1)
    park_all(n, make_pool(size));
  else
    park_all(n, fibers::protected_fixedsize_stack(size));
}

// wake

class turns {
public:
  explicit turns(uint64_t rounds) : rounds_(rounds) {
  }

  void play(int self) {
    for (uint64_t i = 0; i < rounds_; i++) {
      std::unique_lock<fibers::mutex> lock(mutex_);
      changed_[self].wait(lock, [&] { return turn_ == self; });
      turn_ = !self;
      changed_[!self].notify_one();
    }
    ended++;
  }

  std::atomic<int> ended{0};

private:
  uint64_t rounds_;
  fibers::mutex mutex_;
  fibers::condition_variable changed_[2];
  int turn_ = 0;
};

static void play_on_this_thread(turns &game, int self, bool awake) {
  fibers::fiber player([&, self] { game.play(self); });
  if (awake)
    fibers::fiber([&] {
      while (game.ended < 2)
        this_fiber::yield();
    }).join();
  player.join();
}

static void run_wake() {
  int mode = bench_choice("mode", "same|awake|sleeping");
  uint64_t n = bench_number("n", mode == 0 ? 2000000 : 200000);
  bool pin = bench_number("pin", 0) != 0;
  bench_arguments_done();
  turns game(n / 2);
  uint64_t start = bench_now();
  if (mode == 0) {
    fibers::fiber first([&] { game.play(0); }), second([&] { game.play(1); });
    first.join();
    second.join();
  } else {
    std::thread other([&] {
      if (pin)
        bench_pin(1);
      play_on_this_thread(game, 1, mode == 1);
    });
    if (pin)
      bench_pin(0);
    play_on_this_thread(game, 0, mode == 1);
    other.join();
  }
  bench_time(start, n / 2 * 2);
  BENCH_CHECK(game.ended == 2);
}

// timers

static void run_timers() {
  timers t;
  timers_init(&t, 1000);
  pool stacks = make_pool(many_stack);
  for (uint64_t i = 0; i < t.sleepers; i++)
    fibers::fiber(fibers::launch::dispatch, std::allocator_arg, stacks, [&t, i] {
      sleeper s;
      for (uint64_t deadline = timers_begin(&t, &s, i);; deadline = timers_woke(&t, &s))
        this_fiber::sleep_until(time_point(deadline));
    }).detach();
  for (;; timers_edge(&t))
    this_fiber::sleep_until(time_point(timers_next_edge(&t)));
}

// mutex

static void run_mutex() {
  bool free = bench_choice("mode", "contended|free") == 1;
  uint64_t n = bench_number("n", free ? 20000000 : 2000000), count = 0;
  bench_arguments_done();
  fibers::mutex mutex;
  auto hold = [&](uint64_t times) {
    for (uint64_t i = 0; i < times; i++) {
      std::lock_guard<fibers::mutex> lock(mutex);
      count++;
      if (!free)
        this_fiber::yield();
    }
  };
  uint64_t start = bench_now();
  if (free) {
    fibers::fiber([&] { hold(n); }).join();
  } else {
    fibers::fiber first([&] { hold(n / 2); }), second([&] { hold(n - n / 2); });
    first.join();
    second.join();
  }
  bench_time(start, n);
  BENCH_CHECK(count == n);
}

// chan

static void run_chan() {
  uint64_t rounds = bench_number("n", 2000000) / 2, sum = 0;
  bench_arguments_done();
  fibers::unbuffered_channel<uint64_t> there, back;
  uint64_t start = bench_now();
  fibers::fiber echoer([&] {
    for (uint64_t value : there)
      back.push(value);
  });
  fibers::fiber asker([&] {
    for (uint64_t i = 0; i < rounds; i++) {
      there.push(i);
      sum += back.value_pop();
    }
    there.close();
  });
  asker.join();
  echoer.join();
  bench_time(start, 2 * rounds);
  BENCH_CHECK(sum == rounds * (rounds - 1) / 2);
}

// echo

using tcp = asio::ip::tcp;
using boost::system::error_code;

static size_t read_some(tcp::socket &socket, asio::mutable_buffer buffer, error_code &error) {
  return wait_for<size_t>([&](auto done) { socket.async_read_some(buffer, done); }, error);
}

static void write_all(tcp::socket &socket, asio::const_buffer rest, error_code &error) {
  while (rest.size() > 0) {
    rest += socket.write_some(rest, error);
    if (error == asio::error::would_block)
      rest += wait_for<size_t>([&](auto done) { socket.async_write_some(rest, done); }, error);
    if (error)
      return;
  }
}

static void serve(tcp::socket socket, unsigned thread) {
  error_code error;
  socket.set_option(tcp::no_delay(true), error);
  socket.non_blocking(true, error);
  char bytes[SERVER_BUFFER];
  for (;;) {
    size_t n = read_some(socket, asio::buffer(bytes), error);
    if (error)
      return;
    server_request(thread);
    write_all(socket, asio::buffer(bytes, n), error);
    if (error)
      return;
  }
}

struct server_thread {
  asio::io_context context{1}; // one thread runs it: fewer locks
  pool stacks = make_pool(many_stack);
};

static void accept_all(tcp::acceptor &acceptor, std::vector<server_thread> &threads) {
  for (unsigned next = 0;; next++) {
    unsigned index = next % threads.size();
    server_thread &thread = threads[index];
    error_code error;
    auto socket = std::make_shared<tcp::socket>(thread.context);
    wait_for<int>(
        [&](auto done) {
          acceptor.async_accept(*socket, [done](error_code const &e) mutable { done(e, 0); });
        },
        error);
    if (error)
      continue;
    asio::post(thread.context, [&thread, socket, index] {
      fibers::fiber(std::allocator_arg, thread.stacks, [socket, index] {
        serve(std::move(*socket), index);
      }).detach();
    });
  }
}

static void run_thread(server_thread &thread) {
  fibers::use_scheduling_algorithm<asio_scheduler>(thread.context);
  auto work = asio::make_work_guard(thread.context);
  fibers::promise<void> never;
  never.get_future().wait();
}

static void run_echo() {
  unsigned count;
  uint16_t port = server_arguments(&count);
  std::vector<server_thread> threads(count);
  tcp::acceptor acceptor(threads[0].context, tcp::v4(), server_bind(port, 0));
  server_announce(acceptor.native_handle());
  for (unsigned i = 1; i < count; i++)
    std::thread([&threads, i] { run_thread(threads[i]); }).detach();
  fibers::fiber([&] { accept_all(acceptor, threads); }).detach();
  run_thread(threads[0]);
}

int main(int argc, char **argv) {
  static const bench_workload table[] = {
      {"yield", run_yield}, {"spawn", run_spawn},   {"tree", run_tree},   {"memory", run_memory},
      {"wake", run_wake},   {"timers", run_timers}, {"mutex", run_mutex}, {"chan", run_chan},
      {"echo", run_echo},   {nullptr, nullptr}};
  bench_main(argc, argv, table);
}
