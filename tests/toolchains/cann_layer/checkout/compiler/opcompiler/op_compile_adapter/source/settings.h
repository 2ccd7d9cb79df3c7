// A cache layer of this project's own, as small as tests of the build need one.
#pragma once
constexpr bool SERVES = true;
