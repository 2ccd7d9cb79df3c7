// Messages of the vendor's sources, with the wording of its error table where it is known.
// Source: facts cann-operator-cache, section 6.6.
#include <cstdio>
#include <map>
#include "base/err_msg.h"
#include "boundary.h"

namespace {
std::vector<std::pair<std::string, std::string>> &messages() {
  static std::vector<std::pair<std::string, std::string>> all;
  return all;
}

const std::map<std::string, std::string> &templates() {
  static const std::map<std::string, std::string> all{
      {"E20003", "Configuration file [{filepath}] for parameter [{parameter}] has invalid content. Reason: [{reason}]"},
      {"E20101", "Value [{value}] for parameter [{parameter}] is invalid. Reason: {reason}."},
      {"E21001", "Failed to open file [{file_name}]."},
      {"E40022", "The value [{invalid_value}] of [{argument}] must be in the range of [{valid_range}]."},
      {"E40023", "Path [{path}] for [{arg}] is invalid. Result: {result}. Reason: {reason}."}};
  return all;
}
}  // namespace

int standin_report(const std::string &code, const std::vector<const char *> &names,
                   const std::vector<const char *> &values) {
  const auto found = templates().find(code);
  std::string text = found == templates().end() ? "" : found->second;
  for (size_t index = 0; index < names.size() && index < values.size(); ++index) {
    const std::string place = std::string("{") + names[index] + "}";
    const size_t at = text.find(place);
    if (at != std::string::npos) {
      text.replace(at, place.size(), values[index]);
    } else {
      text += (text.empty() ? "" : " ") + std::string(names[index]) + "=[" + values[index] + "]";
    }
  }
  messages().emplace_back(code, text);
  return 0;
}

int standin_report(const std::string &code, const std::string &text) {
  messages().emplace_back(code, text);
  return 0;
}

void print_messages() {
  for (const auto &each : messages()) printf("%s: %s\n", each.first.c_str(), each.second.c_str());
}
