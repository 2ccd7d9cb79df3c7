// Stand-in: the error manager, with the interface of releases before 9.0. Written for this project.
#pragma once
#include <map>
#include "base/err_msg.h"
class ErrorManager {
 public:
  static ErrorManager &GetInstance() {
    static ErrorManager manager;
    return manager;
  }
  int ReportErrMessage(const std::string &code, const std::map<std::string, std::string> &arguments) {
    std::vector<const char *> names, values;
    for (const auto &each : arguments) {
      names.push_back(each.first.c_str());
      values.push_back(each.second.c_str());
    }
    return standin_report(code, names, values);
  }
  int ReportInterErrMessage(const std::string &code, const std::string &text) {
    return standin_report(code, text);
  }
};
#define REPORT_INNER_ERROR(code, ...) standin_report_format(code, __VA_ARGS__)
#define REPORT_INPUT_ERROR(code, names, values) ((void)0)
