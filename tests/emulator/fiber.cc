#include "tests/emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace fathom::kernels::emulator {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
// Guard pages below the stack, so that an overflow is a fault.
constexpr std::size_t kGuardBytes = std::size_t{64} << 10;
// Stacks begin at different offsets in their pages. Otherwise all would use the same cache sets and
// evict each other.
constexpr std::size_t kOffsets = 61;
constexpr std::size_t kOffsetBytes = 192;

}  // namespace

// The state of a stack that is not running: the state that a switch saves and restores.
#if defined(__x86_64__)
using Context = void*;  // the stack pointer; the registers are stored above it

// Saves the callee-saved registers, and the stack pointer in *from; continues with `to`.
asm(R"(
.pushsection .text
.type fathom_switch_stack, @function
fathom_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fathom_switch_stack, . - fathom_switch_stack
.type fathom_enter_stack, @function
fathom_enter_stack:
  movq %r12, %rdi
  call *%r13
  ud2
.size fathom_enter_stack, . - fathom_enter_stack
.popsection
)");
extern "C" void fathom_switch_stack(void** from, void* to);
extern "C" void fathom_enter_stack();  // reached by the return of the first switch
#else
using Context = ucontext_t;
#endif

struct Fiber::State {
  State() {
    void* memory = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    Check(memory != MAP_FAILED, "addresses for the stack of a fiber");
    guard = static_cast<std::byte*>(memory);
    stack = guard + kGuardBytes;
    Check(::mprotect(stack, kStackBytes, PROT_READ | PROT_WRITE) == 0, "the stack of a fiber");
#if defined(__SANITIZE_THREAD__)
    tsan_fiber = __tsan_create_fiber(0);
#endif
  }
  ~State() {
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(tsan_fiber);
#endif
    UnpoisonStack();  // other memory may get these addresses
    ::munmap(guard, kGuardBytes + kStackBytes);
  }

  static void Enter(State* state) {
    state->HasArrived(nullptr);
    state->body(state->argument);
    state->Leave(/*ends=*/true);
  }
#if !defined(__x86_64__)
  static void EnterFromSwitch(unsigned low, unsigned high) {
    Enter(reinterpret_cast<State*>(static_cast<std::uintptr_t>(high) << 32 | low));
  }
#endif

  // Unpoisons frames that were left without a return. They are above the stack pointer of the last
  // switch: unpoisoning the whole stack would be a thousand times as much.
  void UnpoisonStack() {
#if defined(__SANITIZE_ADDRESS__) && defined(__x86_64__)
    if (inside == nullptr) return;
    ASAN_UNPOISON_MEMORY_REGION(inside, stack + kStackBytes - static_cast<std::byte*>(inside));
#elif defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(stack, kStackBytes);
#endif
  }

  void Prepare() {
    UnpoisonStack();
#if defined(__x86_64__)
    const std::size_t number =
        reinterpret_cast<std::uintptr_t>(stack) / (kGuardBytes + kStackBytes);
    auto* top = reinterpret_cast<void**>(stack + kStackBytes - number % kOffsets * kOffsetBytes);
    *--top = reinterpret_cast<void*>(&fathom_enter_stack);
    *--top = nullptr;                          // rbp
    *--top = nullptr;                          // rbx
    *--top = this;                             // r12
    *--top = reinterpret_cast<void*>(&Enter);  // r13
    *--top = nullptr;                          // r14
    *--top = nullptr;                          // r15
    inside = top;
#else
    ::getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = kStackBytes;
    inside.uc_link = nullptr;
    const auto bits = reinterpret_cast<std::uintptr_t>(this);
    ::makecontext(&inside, reinterpret_cast<void (*)()>(&EnterFromSwitch), 2,
                  static_cast<unsigned>(bits), static_cast<unsigned>(bits >> 32));
#endif
  }

  static void Switch(Context& from, Context& to) {
#if defined(__x86_64__)
    fathom_switch_stack(&from, to);
#else
    ::swapcontext(&from, &to);
#endif
  }

  void Come() {
    Context here{};
    outside = &here;
#if defined(__SANITIZE_THREAD__)
    tsan_outside = __tsan_get_current_fiber();
#endif
    learns_outside = true;
    void* fake = nullptr;
    BeginSwitch(*this, &fake);
    Switch(here, inside);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  void Leave([[maybe_unused]] bool ends) {
    void* fake = nullptr;
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan_outside, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(ends ? nullptr : &fake, outside_stack, outside_bytes);
#endif
    Switch(inside, *outside);
    HasArrived(fake);
  }

  void GoTo(State& next) {
    next.outside = outside;
#if defined(__SANITIZE_ADDRESS__)
    next.outside_stack = outside_stack;
    next.outside_bytes = outside_bytes;
#endif
#if defined(__SANITIZE_THREAD__)
    next.tsan_outside = tsan_outside;
#endif
    next.learns_outside = false;
    void* fake = nullptr;
    BeginSwitch(next, &fake);
    Switch(inside, next.inside);
    HasArrived(fake);
  }

  // Tells sanitizers which stack runs next.
  static void BeginSwitch([[maybe_unused]] const State& next, [[maybe_unused]] void** fake) {
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(next.tsan_fiber, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(fake, next.stack, kStackBytes);
#endif
  }

  // Tells AddressSanitizer that the switch has happened, and gets the stack of Resume from it.
  void HasArrived([[maybe_unused]] void* fake) {
#if defined(__SANITIZE_ADDRESS__)
    const void* left = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake, &left, &bytes);
    if (learns_outside) {
      outside_stack = left;
      outside_bytes = bytes;
    }
#endif
  }

  std::byte* guard = nullptr;
  std::byte* stack = nullptr;
  Context inside{};
  Context* outside = nullptr;   // the context of the Resume that began the switches
  bool learns_outside = false;  // the switch to this stack came from there
  void (*body)(void*) = nullptr;
  void* argument = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  const void* outside_stack = nullptr;
  std::size_t outside_bytes = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_fiber = nullptr;
  void* tsan_outside = nullptr;
#endif
};

Fiber::Fiber() : state_(std::make_unique<State>()) {}
Fiber::~Fiber() = default;

void Fiber::Start(void (*body)(void*), void* argument) {
  state_->body = body;
  state_->argument = argument;
  state_->Prepare();
}
void Fiber::Resume() { state_->Come(); }
void Fiber::Pause() { state_->Leave(/*ends=*/false); }
void Fiber::SwitchTo(Fiber& next) { state_->GoTo(*next.state_); }

}  // namespace fathom::kernels::emulator
