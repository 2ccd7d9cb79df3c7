#pragma once
#include <string>
#include <utility>
#include <vector>
// A ZIP archive whose members are stored uncompressed, in the order given.
std::string archive(const std::vector<std::pair<std::string, std::string>> &members);
