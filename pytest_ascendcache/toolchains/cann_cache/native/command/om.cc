#include "om.h"
#include <array>
#include <cstdint>

namespace {
uint32_t crc32(const std::string &data) {
  static const auto table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0xEDB88320U : 0);
      made[byte] = value;
    }
    return made;
  }();
  uint32_t crc = 0xFFFFFFFFU;
  for (const unsigned char byte : data) crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF];
  return ~crc;
}

void number(std::string &to, uint32_t value, int bytes) {
  for (; bytes > 0; --bytes, value >>= 8) to += static_cast<char>(value & 0xFF);
}

// The common part of a member's local and central header. The date is 1980-01-01.
std::string common(const std::string &name, const std::string &data) {
  std::string header;
  number(header, 20, 2);                     // version needed
  number(header, 0, 2);                      // flags
  number(header, 0, 2);                      // stored
  number(header, 0, 2);                      // time
  number(header, (1 << 5) | 1, 2);           // date
  number(header, crc32(data), 4);
  for (int twice = 0; twice < 2; ++twice) number(header, static_cast<uint32_t>(data.size()), 4);
  number(header, static_cast<uint32_t>(name.size()), 2);
  number(header, 0, 2);                      // extra
  return header;
}
}  // namespace

std::string archive(const std::vector<std::pair<std::string, std::string>> &members) {
  std::string file, directory;
  for (const auto &[name, data] : members) {
    const auto offset = static_cast<uint32_t>(file.size());
    const std::string header = common(name, data);
    file += "PK\3\4" + header + name + data;
    directory += std::string("PK\1\2") + std::string("\x14\0", 2) + header + std::string(10, '\0');
    number(directory, offset, 4);
    directory += name;
  }
  const auto start = static_cast<uint32_t>(file.size());
  file += directory + "PK\5\6" + std::string(4, '\0');
  for (int twice = 0; twice < 2; ++twice) number(file, static_cast<uint32_t>(members.size()), 2);
  number(file, static_cast<uint32_t>(directory.size()), 4);
  number(file, start, 4);
  number(file, 0, 2);
  return file;
}
