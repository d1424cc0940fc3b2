#ifndef X
#define X
#include <string_view>
namespace fathom {
std::string_view ChatPage();
std::string_view ChatPagePolicy();
std::string_view OpenApiJson();
}  // namespace fathom
#endif
