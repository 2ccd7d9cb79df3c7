// Stand-in for CANN's portability layer. Written for this project.
#pragma once
#include <dlfcn.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
using INT32 = int32_t;
using UINT32 = uint32_t;
using CHAR = char;
constexpr int MMPA_MAX_PATH = 4096, MMPA_RTLD_NOW = RTLD_NOW;
constexpr INT32 EN_OK = 0, EN_ERROR = -1;
inline INT32 mmGetEnv(const char *name, char *value, UINT32 size) {
  const char *found = getenv(name);
  if (found == nullptr || strlen(found) >= size) return EN_ERROR;
  strcpy(value, found);
  return EN_OK;
}
inline void *mmDlopen(const char *path, int mode) {
  return dlopen(path, mode);
}
inline void *mmDlsym(void *handle, const char *name) {
  return dlsym(handle, name);
}
inline int mmDlclose(void *handle) {
  return dlclose(handle);
}
inline const char *mmDlerror() {
  return dlerror();
}
