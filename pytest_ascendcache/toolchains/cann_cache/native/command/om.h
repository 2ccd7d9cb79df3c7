#pragma once
#include <string>
#include <utility>
#include <vector>
// A ZIP archive whose members are stored uncompressed, in this order.
std::string archive(const std::vector<std::pair<std::string, std::string>> &members);
