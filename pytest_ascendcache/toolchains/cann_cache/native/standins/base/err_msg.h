// Stand-in for CANN's error manager: messages go to the command line. Written for this project.
#pragma once
#include <cstdio>
#include <string>
#include <vector>
int standin_report(const std::string &code, const std::vector<const char *> &names,
                   const std::vector<const char *> &values);
int standin_report(const std::string &code, const std::string &text);
template <typename... T>
void standin_report_format(const char *code, const char *format, T... values) {
  char text[4096] = "";
  snprintf(text, sizeof text, format, values...);
  standin_report(code, std::string(text));
}
inline void standin_report_format(const char *code, const char *text) {
  standin_report(code, std::string(text));
}
#define REPORT_PREDEFINED_ERR_MSG(code, names, values) standin_report(code, names, values)
#define REPORT_INNER_ERR_MSG(code, ...) standin_report_format(code, __VA_ARGS__)
