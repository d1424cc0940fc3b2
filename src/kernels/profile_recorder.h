// ProfileRecorder: adds up pieces of work, one after the other, for the profilers of backends.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/profile.h"

namespace fathom::kernels {

class ProfileRecorder {
 public:
  // Removes all recorded work.
  void Clear() { *this = {}; }
  void EnterPart(std::string_view part);
  // Returns the number of the part that was entered last, for Add.
  std::size_t part() const { return part_; }
  // Adds work that began when the work before ended.
  void Add(std::size_t part, std::string_view name, double seconds, const WorkCost& cost);
  // Adds the time between two pieces of work.
  void AddBetween(double seconds);
  // Returns the profile of all recorded work, and clears the recorder.
  Profile Take();

 private:
  std::vector<std::string> parts_ = {""};
  std::size_t part_ = 0;
  Profile profile_;
  std::unordered_map<std::string, std::size_t> rows_;  // by part and name: index of profile_.rows
  double end_ = 0;                                     // end of the recorded work
};

}  // namespace fathom::kernels
