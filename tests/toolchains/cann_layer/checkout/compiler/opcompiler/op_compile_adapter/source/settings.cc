#include "settings.h"

bool serves() {
  return SERVES;
}
