#include "boundary.h"

struct FrontEnd::Parsers {};
bool FrontEnd::read(const Options &, const std::string &) {
  return true;
}
void FrontEnd::apply(Operator &) const {}
std::string FrontEnd::debug_config() const {
  return "";
}
