// Boost.Fiber over Boost.Asio: a scheduler whose threads wait in their
// io_context, and reads and writes that suspend the fiber.
#ifndef ASIO_SCHEDULER_H
#define ASIO_SCHEDULER_H

#include <boost/asio.hpp>
#include <boost/fiber/all.hpp>

namespace fibers = boost::fibers;
namespace asio = boost::asio;

// Fibers run in the order in which they became ready. The io_context runs when
// no fiber is ready, and is looked at once in a while when some always are, so
// that busy fibers do not keep the others' events from them.
class asio_scheduler : public fibers::algo::algorithm {
public:
  explicit asio_scheduler(asio::io_context &context) : context_(context) {
  }

  void awakened(fibers::context *fiber) noexcept override {
    fiber->ready_link(ready_);
  }

  fibers::context *pick_next() noexcept override {
    if (++picks_ % picks_per_poll == 0)
      context_.poll();
    if (ready_.empty())
      return nullptr;
    fibers::context *next = &ready_.front();
    ready_.pop_front();
    return next;
  }

  bool has_ready_fibers() const noexcept override {
    return !ready_.empty();
  }

  void suspend_until(std::chrono::steady_clock::time_point const &deadline) noexcept override {
    if (deadline == (std::chrono::steady_clock::time_point::max)())
      context_.run_one();
    else
      context_.run_one_until(deadline);
    context_.poll(); // what else came with the same wait
  }

  void notify() noexcept override { // from other threads
    asio::post(context_, [] {});
  }

private:
  static constexpr unsigned picks_per_poll = 256;
  asio::io_context &context_;
  fibers::scheduler::ready_queue_type ready_;
  unsigned picks_ = 0;
};

// wait_for starts an operation of Asio and suspends the fiber until the
// handler, which runs on the fiber's own thread, makes it ready again.
template <class Result, class Start>
Result wait_for(Start start, boost::system::error_code &error) {
  fibers::context *self = fibers::context::active();
  Result result{};
  start([&, self](boost::system::error_code const &e, Result r) {
    error = e;
    result = std::move(r);
    fibers::context::active()->schedule(self);
  });
  self->suspend();
  return result;
}

#endif
