// Kernels from the reference's compiler, kept by everything they depend on: the first compile takes
// seconds, later ones milliseconds.
#include "kernels.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace fs = std::filesystem;
using nlohmann::json;
extern char **environ;

namespace {
// ``kernels.json`` next to this program: the compiler's command and the directory of kernels.
json settings() {
  return json::parse(read_file(fs::read_symlink("/proc/self/exe").parent_path() / "kernels.json"));
}

std::string switches(const std::string &debug) {
  static const std::vector<std::string> known{"oom", "dump_cce", "dump_loc", "ccec_O0", "ccec_g", "check_flag"};
  std::string kept, item;
  std::istringstream items(debug);
  while (std::getline(items, item, ',')) {
    if (std::find(known.begin(), known.end(), item) != known.end()) kept += (kept.empty() ? "" : ",") + item;
  }
  return kept;
}

bool run(const std::vector<std::string> &command, const fs::path &output) {
  std::vector<char *> argv;
  for (const std::string &each : command) argv.push_back(const_cast<char *>(each.c_str()));
  argv.push_back(nullptr);
  // The reference must not see the variables that control CANN.
  std::vector<char *> environment;
  for (char **each = environ; *each != nullptr; ++each) {
    if (strncmp(*each, "ASCEND_", 7) != 0 && strncmp(*each, "TUNE_", 5) != 0) environment.push_back(*each);
  }
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_CREAT | O_WRONLY, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int status = -1;
  if (posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environment.data()) == 0) {
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  posix_spawn_file_actions_destroy(&actions);
  return status == 0;
}

// Lets the reference compile in a directory of its own. Returns whether the files are in ``kept``.
bool make(const json &how, const Operator &given, const Options &options, const fs::path &kept, std::string &why) {
  std::string pattern = (kept.parent_path() / "making-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    why = "no directory can be made in [" + kept.parent_path().string() + "]";
    return false;
  }
  const fs::path making = pattern;
  write_file(making / "operator.json", "[" + given.json + "]");
  const bool known = given.mode == "high_precision" || given.mode == "high_performance";
  write_file(making / "mode.ini", known ? given.type + "=" + given.mode + "\n" : "");
  fs::create_directory(making / "debug");
  std::vector<std::string> command = how.at("command");
  const std::string level = options.at("ge.opDebugLevel");
  for (const std::string &each :
       {"--singleop=" + (making / "operator.json").string(), "--output=" + (making / "om").string(),
        "--soc_version=" + options.at("ge.socVersion"), "--op_debug_level=" + (level == "0" ? "3" : level),
        "--op_precision_mode=" + (making / "mode.ini").string(), "--debug_dir=" + (making / "debug").string(),
        std::string("--op_compiler_cache_mode=disable")}) {
    command.push_back(each);
  }
  if (!switches(given.debug).empty()) {
    write_file(making / "debug.cfg", "op_debug_config = " + switches(given.debug) + "\n");
    command.push_back("--op_debug_config=" + (making / "debug.cfg").string());
  }
  const bool done = run(command, making / "said");
  if (done) {
    std::error_code lost;  // another process was faster
    fs::rename(making / "debug" / "kernel_meta", kept, lost);
  } else {
    const std::string said = read_file(making / "said");
    why = said.substr(said.size() > 600 ? said.size() - 600 : 0);
  }
  fs::remove_all(making);
  return done;
}

void replace(std::string &in, const std::string &what, const std::string &with) {
  for (size_t at = in.find(what); at != std::string::npos; at = in.find(what, at + with.size())) {
    in.replace(at, what.size(), with);
  }
}
}  // namespace

void write_file(const fs::path &path, const std::string &data) {
  std::ofstream file(path, std::ios::binary);
  file << data;
  file.close();
  if (!file) throw std::runtime_error("cannot write [" + path.string() + "]");
}

std::string read_file(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool compile(const Operator &given, const Options &options, const std::string &name, const std::string &directory,
             std::string &why) {
  const json how = settings();
  json wanted = json::parse(given.json);
  wanted.erase("name");
  const std::string identity = wanted.dump() + "|" + options.at("ge.socVersion") + "|" + given.mode + "|" +
                               options.at("ge.opDebugLevel") + "|" + switches(given.debug) + "|" +
                               how.at("version").get<std::string>();
  const fs::path kept = fs::path(how.at("kept").get<std::string>()) / sha256(identity);
  if (!fs::exists(kept) && !make(how, given, options, kept, why)) return false;
  std::string stem;
  for (const auto &each : fs::directory_iterator(kept)) {
    if (each.path().extension() == ".o") stem = each.path().stem();
  }
  // The closed compiler names files and symbols after the key, which has the same length.
  std::string object = read_file(kept / (stem + ".o"));
  replace(object, stem, name);
  for (const auto &each : fs::directory_iterator(kept)) {
    std::string data = each.path().extension() == ".o" ? object : read_file(each.path());
    if (each.path().filename() == stem + ".json") {
      replace(data, stem, name);
      json metadata = json::parse(data);
      metadata["sha256"] = sha256(object);
      data = metadata.dump(4);
    }
    std::string file = each.path().filename();
    replace(file, stem, name);
    write_file(fs::path(directory) / file, data);
  }
  return true;
}
