// Ref: a counted pointer to an object. One thread at a time uses the object and all its owners, so
// counts are plain integers: a mask copies thousands of them.
#pragma once

#include <cstdint>
#include <utility>

namespace fathom::constraint {

// The count of an object; derive from it. A new object, or a copy, has no owners.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) {}
  RefCounted& operator=(const RefCounted&) { return *this; }

 private:
  template <class T>
  friend class Ref;
  mutable std::uint32_t n_owners_ = 0;
};

template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) ++object_->n_owners_;
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr && --object_->n_owners_ == 0) delete object_;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  // True if no other owner exists.
  bool IsOnlyOwner() const { return object_ != nullptr && object_->n_owners_ == 1; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace fathom::constraint
