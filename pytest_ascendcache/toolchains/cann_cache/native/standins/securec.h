// Stand-in for the bounds-checked C functions the sources use. Written for this project.
#pragma once
#include <cstdio>
#include <cstring>
using errno_t = int;
constexpr errno_t EOK = 0;
inline errno_t memset_s(void *to, size_t size, int value, size_t count) {
  return count > size ? -1 : (memset(to, value, count), EOK);
}
inline errno_t memcpy_s(void *to, size_t size, const void *from, size_t count) {
  return count > size ? -1 : (memcpy(to, from, count), EOK);
}
inline errno_t strncpy_s(char *to, size_t size, const char *from, size_t count) {
  const size_t length = strnlen(from, count);
  if (length >= size) return -1;
  memcpy(to, from, length);
  to[length] = '\0';
  return EOK;
}
inline errno_t strcpy_s(char *to, size_t size, const char *from) {
  return strncpy_s(to, size, from, strlen(from));
}
template <typename... T>
int sprintf_s(char *to, size_t size, const char *format, T... values) {
  const int length = snprintf(to, size, format, values...);
  return length < 0 || static_cast<size_t>(length) >= size ? -1 : length;
}
template <typename... T>
int snprintf_s(char *to, size_t size, size_t, const char *format, T... values) {
  return sprintf_s(to, size, format, values...);
}
#define sscanf_s sscanf
