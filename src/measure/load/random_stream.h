// RandomStream: random numbers for a load, equal on every machine for one seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace fathom::load {

// The purpose of a stream: streams of one seed with different purpose or index are independent.
enum class RandomPurpose : std::uint32_t { kArrivals, kPrefix, kRequest };

// The standard specifies the numbers of mt19937_64 but not the numbers of its distributions, so
// this class has its own distributions. One thread.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t index) {
    std::seed_seq words = {Low(seed), High(seed), static_cast<std::uint32_t>(purpose), Low(index),
                           High(index)};
    engine_.seed(words);
  }

  // Draws from the open interval (0, 1).
  double Uniform() { return (static_cast<double>(engine_() >> 12) + 0.5) * 0x1p-52; }

  // Draws from [low, high]. The bias is below 2^-32 for ranges below 2^32.
  std::int64_t Integer(std::int64_t low, std::int64_t high) {
    const std::uint64_t n = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(engine_() % n);
  }

  // Draws with mean 0 and deviation 1 (Box and Muller).
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

  // Draws with mean 1; shape 1 is the exponential distribution. Marsaglia and Tsang, "A simple
  // method for generating gamma variables", 2000; a shape below 1 is drawn with shape + 1 and
  // multiplied by u^(1/shape).
  double Gamma(double shape) {
    if (shape < 1) return Gamma(shape + 1) * (shape + 1) / shape * std::pow(Uniform(), 1 / shape);
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = Normal();
      const double root = 1 + c * x;
      const double v = root * root * root;
      if (v > 0 && std::log(Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
        return d * v / shape;
      }
    }
  }

 private:
  static std::uint32_t Low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  static std::uint32_t High(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

  std::mt19937_64 engine_;
};

}  // namespace fathom::load
