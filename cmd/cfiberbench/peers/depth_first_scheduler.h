// A Boost.Fiber scheduler for trees: a thread runs its newest fiber first, and
// one that has none takes the oldest of another. So the depth of a tree is
// finished before its breadth is begun, and a few dozen fibers live at a time;
// with Boost's own schedulers, which are all first in, first out, most of a
// tree lives at once, each node on a stack that was never touched before.
#ifndef DEPTH_FIRST_SCHEDULER_H
#define DEPTH_FIRST_SCHEDULER_H

#include <atomic>
#include <boost/fiber/all.hpp>
#include <deque>
#include <vector>

class depth_first_scheduler : public boost::fibers::algo::algorithm {
public:
  using fiber = boost::fibers::context;

  // Each thread of `threads` makes one; they must all exist before there is
  // work to take.
  depth_first_scheduler(std::vector<depth_first_scheduler *> &threads, unsigned index)
      : threads_(threads), index_(index) {
    threads_[index] = this;
  }

  void awakened(fiber *f) noexcept override {
    if (f->is_context(boost::fibers::type::pinned_context)) { // main, or the dispatcher
      f->ready_link(pinned_);
      return;
    }
    f->detach();
    locked guard(*this);
    ready_.push_back(f);
  }

  // The dispatcher gives back the stacks of fibers that ended and takes in those
  // that other threads woke, so it gets its turn even while there is work.
  fiber *pick_next() noexcept override {
    bool pinned_first = ++picks_ % picks_per_dispatch == 0;
    fiber *f = pinned_first ? take_pinned() : nullptr;
    if (!f)
      f = adopt(take_newest());
    if (!f)
      f = take_pinned();
    return f ? f : adopt(steal());
  }

  bool has_ready_fibers() const noexcept override {
    return !pinned_.empty() || count_.load(std::memory_order_relaxed) > 0;
  }

  // Like work_stealing's default, an idle thread does not sleep.
  void suspend_until(std::chrono::steady_clock::time_point const &) noexcept override {
  }

  void notify() noexcept override {
  }

private:
  static constexpr unsigned picks_per_dispatch = 16;

  // count_ is what others can see without the lock.
  struct locked {
    explicit locked(depth_first_scheduler &s) : s_(s) {
      while (s_.lock_.test_and_set(std::memory_order_acquire))
        ;
    }
    ~locked() {
      s_.count_.store(s_.ready_.size(), std::memory_order_relaxed);
      s_.lock_.clear(std::memory_order_release);
    }
    depth_first_scheduler &s_;
  };

  fiber *take_pinned() noexcept {
    if (pinned_.empty())
      return nullptr;
    fiber *f = &pinned_.front();
    pinned_.pop_front();
    return f;
  }

  fiber *take_newest() noexcept {
    if (count_.load(std::memory_order_relaxed) == 0)
      return nullptr;
    locked guard(*this);
    if (ready_.empty())
      return nullptr;
    fiber *f = ready_.back();
    ready_.pop_back();
    return f;
  }

  fiber *take_oldest() noexcept {
    if (count_.load(std::memory_order_relaxed) == 0)
      return nullptr;
    locked guard(*this);
    if (ready_.empty())
      return nullptr;
    fiber *f = ready_.front();
    ready_.pop_front();
    return f;
  }

  fiber *steal() noexcept {
    for (size_t i = 1; i < threads_.size(); i++)
      if (fiber *f = threads_[(index_ + i) % threads_.size()]->take_oldest())
        return f;
    return nullptr;
  }

  static fiber *adopt(fiber *f) noexcept {
    if (f)
      fiber::active()->attach(f);
    return f;
  }

  std::vector<depth_first_scheduler *> &threads_;
  unsigned index_, picks_ = 0;
  boost::fibers::scheduler::ready_queue_type pinned_;
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::atomic<size_t> count_{0};
  std::deque<fiber *> ready_;
};

#endif
