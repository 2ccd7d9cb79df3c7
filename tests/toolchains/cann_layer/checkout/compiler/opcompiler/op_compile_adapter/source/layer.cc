#include <openssl/sha.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include "boundary.h"

namespace fs = std::filesystem;
using nlohmann::json;

bool serves();

namespace {
Options given;
bool opened = false;

fs::path directory() {
  return fs::path(given["ge.op_compiler_cache_dir"]) / "kernel_cache" / given["ge.socVersion"];
}
std::string mode() {
  return given["ge.op_compiler_cache_mode"];
}
std::string read(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void publish(const fs::path &from, const fs::path &to) {
  fs::copy_file(from, to.string() + ".part", fs::copy_options::overwrite_existing);
  fs::rename(to.string() + ".part", to);
}
std::shared_ptr<Kernel> kernel(const fs::path &metadata_path) {
  const json metadata = json::parse(read(metadata_path), nullptr, false);
  if (metadata.is_discarded() || !metadata.is_object()) return nullptr;
  auto made = std::make_shared<Kernel>();
  made->object = read(fs::path(metadata_path).replace_extension(".o"));
  if (metadata.value("sha256", "") != sha256(made->object)) return nullptr;
  made->symbol = metadata.value("kernelName", "");
  made->metadata = metadata.dump();
  return made;
}
}  // namespace

std::string sha256(const std::string &data) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char *>(data.data()), data.size(), digest);
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}
void print_messages() {}

namespace layer {
bool has_deterministic_level() {
  return false;
}
bool initialize(const Options &options) {
  given = options;
  return true;
}
bool refresh() {
  if (opened || mode() == "disable") return true;
  opened = true;
  fs::create_directories(directory());
  if (mode() != "force") return true;
  for (const auto &each : fs::directory_iterator(directory())) fs::remove_all(each.path());
  return true;
}
std::string kernel_meta() {
  return (fs::current_path() / "kernel_meta" / "layer").string();
}
std::string key(const Operator &wanted) {
  json document = json::parse(wanted.json);
  document.erase("name");
  std::string name = "te_" + wanted.type + "_" + sha256(document.dump() + wanted.mode + given["ge.socVersion"]);
  for (char &each : name) each = static_cast<char>(std::tolower(each));
  return name;
}
std::shared_ptr<Kernel> match(const Operator &wanted, const std::string &name) {
  return mode() == "disable" || !serves() ? nullptr : kernel(directory() / (name + ".json"));
}
std::shared_ptr<Kernel> store(const std::string &metadata_path) {
  const fs::path from = metadata_path;
  if (mode() != "disable") {
    publish(fs::path(from).replace_extension(".o"), directory() / (from.stem().string() + ".o"));
    publish(from, directory() / from.filename());
  }
  return kernel(from);
}
}  // namespace layer
