// A stand-in for the parts of CANN's runtime that MindSpore calls while it runs a network.
//
// Device memory is host memory. A kernel is a shared object: the bytes that MindSpore registers are
// loaded and run, so outputs are computed by what its cache served. Every run appends one line to the
// file that ASCENDCACHE_STANDIN_LOG names, with the kernel's identity string.
//
// Compiled with -D_GLIBCXX_USE_CXX11_ABI=0, as MindSpore's libraries are, and with ARGS_INFO=1 for
// releases whose rtKernelLaunchWithFlag takes a structure (1.8 and newer).

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

using Kernel = void (*)(void **);

struct Function {
  Kernel run;
  int arguments;
  std::string name;
  std::string identity;
};

struct Binary {
  std::vector<char> bytes;
  char *base;
};

struct Launch {
  Function function;
  std::vector<void *> arguments;
};

struct DevBinary {
  uint32_t magic;
  uint32_t version;
  const void *data;
  uint64_t length;
};

struct ArgsInfo {
  void *arguments;
};

std::recursive_mutex lock;
std::map<const void *, Function> functions;        // by stub
std::map<std::string, const void *> stubs;         // by name
std::map<void *, std::vector<Launch>> models;      // recorded launches
std::map<void *, void *> bound;                    // model by stream
std::map<void *, size_t> mapped;
void *current_context = reinterpret_cast<void *>(0x8);  // that of the device
uint64_t next_handle = 0x1000;
const int kFailed = 507899;

void *Handle() {
  std::lock_guard<std::recursive_mutex> held(lock);
  return reinterpret_cast<void *>(next_handle += 0x10);
}

void Log(const char *event, const Function &function) {
  const char *place = getenv("ASCENDCACHE_STANDIN_LOG");
  if (place == nullptr) {
    return;
  }
  const int file = open(place, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    return;
  }
  const std::string identity = function.identity.empty() ? "null" : function.identity;
  const std::string line = std::string("{\"event\": \"") + event + "\", \"kernel\": \"" + function.name +
                           "\", \"identity\": " + identity + "}\n";
  if (write(file, line.data(), line.size()) < 0) {
    perror(place);
  }
  close(file);
}

// The address of a symbol by the file's own table: it is found after it was renamed on disk, where
// the loader's hash table no longer fits.
char *Find(const Binary &binary, const std::string &wanted) {
  const char *data = binary.bytes.data();
  const size_t size = binary.bytes.size();
  const auto *header = reinterpret_cast<const Elf64_Ehdr *>(data);
  if (size < sizeof(*header) || header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr) > size) {
    return nullptr;
  }
  const auto *sections = reinterpret_cast<const Elf64_Shdr *>(data + header->e_shoff);
  for (int number = 0; number < header->e_shnum; ++number) {
    const Elf64_Shdr &table = sections[number];
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) {
      continue;
    }
    const Elf64_Shdr &names = sections[table.sh_link];
    if (table.sh_offset + table.sh_size > size || names.sh_offset + names.sh_size > size) {
      return nullptr;
    }
    const auto *symbols = reinterpret_cast<const Elf64_Sym *>(data + table.sh_offset);
    for (size_t index = 0; index < table.sh_size / sizeof(Elf64_Sym); ++index) {
      if (symbols[index].st_name < names.sh_size && symbols[index].st_shndx != SHN_UNDEF &&
          wanted == data + names.sh_offset + symbols[index].st_name) {
        return binary.base + symbols[index].st_value;
      }
    }
  }
  return nullptr;
}

int Register(const DevBinary *given, void **handle) {
  std::lock_guard<std::recursive_mutex> held(lock);
  const int file = memfd_create("kernel", MFD_CLOEXEC);
  if (file < 0 || write(file, given->data, given->length) != static_cast<ssize_t>(given->length)) {
    return kFailed;
  }
  // The descriptor stays open: a later one of the same number would have the same path, and dlopen
  // would return the object that it has loaded from there.
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  void *loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  struct link_map *map = nullptr;
  if (loaded == nullptr || dlinfo(loaded, RTLD_DI_LINKMAP, &map) != 0) {
    fprintf(stderr, "[ERROR] stand-in runtime: %s\n", dlerror());
    return kFailed;
  }
  const auto *bytes = static_cast<const char *>(given->data);
  *handle = new Binary{std::vector<char>(bytes, bytes + given->length),
                       reinterpret_cast<char *>(map->l_addr)};
  return 0;
}

int Start(const void *stub, void **arguments, void *stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  const auto found = functions.find(stub);
  if (found == functions.end()) {
    return kFailed;
  }
  // The array of addresses is gone after the call.
  Launch launch{found->second, std::vector<void *>(arguments, arguments + found->second.arguments)};
  const auto model = bound.find(stream);
  if (model != bound.end()) {
    models[model->second].push_back(launch);
    return 0;
  }
  Log("run", launch.function);
  launch.function.run(launch.arguments.data());
  return 0;
}

int Allocate(void **place, size_t size) {
  // MindSpore takes all of the memory at once and divides it itself.
  void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return kFailed;
  }
  std::lock_guard<std::recursive_mutex> held(lock);
  mapped[memory] = size;
  *place = memory;
  return 0;
}

int Release(void *memory) {
  std::lock_guard<std::recursive_mutex> held(lock);
  const auto found = mapped.find(memory);
  if (found != mapped.end()) {
    munmap(memory, found->second);
    mapped.erase(found);
  }
  return 0;
}

int Copy(void *target, const void *source, size_t count) {
  if (count != 0) {
    memmove(target, source, count);
  }
  return 0;
}

const char *Chip() {
  const char *chip = getenv("ASCENDCACHE_STANDIN_CHIP");
  return chip == nullptr ? "Ascend910A" : chip;
}

std::mutex channel_lock;
std::condition_variable channel_stops;
bool channel_stopped = false;

}  // namespace

extern "C" {

// Handles
int aclrtCreateContext(void **made, int) { return *made = current_context = Handle(), 0; }
int aclrtCreateStream(void **made) { return *made = Handle(), 0; }
int aclrtSetCurrentContext(void *context) { return current_context = context, 0; }
int aclrtGetCurrentContext(void **context) { return *context = current_context, 0; }
int rtCtxCreate(void **made, uint32_t, int32_t) { return *made = current_context = Handle(), 0; }
int rtCtxGetCurrent(void **context) { return *context = current_context, 0; }
int rtCtxSetCurrent(void *context) { return current_context = context, 0; }
int rtStreamCreate(void **made, int32_t) { return *made = Handle(), 0; }
int rtStreamCreateWithFlags(void **made, int32_t, uint32_t) { return *made = Handle(), 0; }
int rtEventCreate(void **made) { return *made = Handle(), 0; }
int rtEventCreateWithFlag(void **made, uint32_t) { return *made = Handle(), 0; }
int aclrtCreateEvent(void **made) { return *made = Handle(), 0; }
int rtModelCreate(void **made, uint32_t) { return *made = Handle(), 0; }
int rtLabelCreateEx(void **made, void *) { return *made = Handle(), 0; }
int rtLabelCreateExV2(void **made, void *, void *) { return *made = Handle(), 0; }
int rtLabelCreateV2(void **made, void *) { return *made = Handle(), 0; }

// Figures
int rtModelGetId(void *, uint32_t *number) { return *number = 1, 0; }
int rtModelGetTaskId(void *, uint32_t *task, uint32_t *stream) { return *task = *stream = 0, 0; }
int rtGetTaskIdAndStreamID(uint32_t *task, uint32_t *stream) { return *task = *stream = 0, 0; }
int rtGetDeviceCount(int32_t *count) { return *count = 8, 0; }
int rtGetDevice(int32_t *device) { return *device = 0, 0; }
int aclrtGetDeviceCount(uint32_t *count) { return *count = 8, 0; }
int aclrtGetRunMode(int *mode) { return *mode = 1, 0; }
int rtGetMaxStreamAndTask(uint32_t, uint32_t *streams, uint32_t *tasks) {
  return *streams = 1024, *tasks = 1024, 0;
}
int rtGetRtCapability(int32_t, int32_t, int64_t *value) { return *value = 0, 0; }
int rtGetDeviceCapability(int32_t, int32_t, int32_t, int32_t *value) { return *value = 0, 0; }
int rtMemGetInfoEx(int32_t, size_t *free, size_t *total) {
  return *free = size_t{30} << 30, *total = size_t{32} << 30, 0;
}
int aclrtGetMemInfo(int32_t kind, size_t *free, size_t *total) { return rtMemGetInfoEx(kind, free, total); }
int rtGetSocVersion(char *text, uint32_t size) { return snprintf(text, size, "%s", Chip()), 0; }
const char *aclrtGetSocName() { return Chip(); }
int rtEventElapsedTime(float *time, void *, void *) { return *time = 0, 0; }

// Memory
int rtMalloc(void **place, uint64_t size, uint32_t) { return Allocate(place, size); }
int aclrtMalloc(void **place, size_t size, int) { return Allocate(place, size); }
int aclrtMallocHost(void **place, size_t size) { return Allocate(place, size); }
int rtMallocHost(void **place, uint64_t size) { return Allocate(place, size); }
int rtFree(void *memory) { return Release(memory); }
int aclrtFree(void *memory) { return Release(memory); }
int aclrtFreeHost(void *memory) { return Release(memory); }
int rtFreeHost(void *memory) { return Release(memory); }
int rtMemcpy(void *to, uint64_t, const void *from, uint64_t count, int) { return Copy(to, from, count); }
int aclrtMemcpy(void *to, size_t, const void *from, size_t count, int) { return Copy(to, from, count); }
int aclrtMemcpyAsync(void *to, size_t, const void *from, size_t count, int, void *) {
  return Copy(to, from, count);
}
int rtMemset(void *place, uint64_t, uint32_t value, uint64_t count) { return memset(place, value, count), 0; }
int aclrtMemset(void *place, size_t, int32_t value, size_t count) { return memset(place, value, count), 0; }
int rtMemcpyAsync(void *to, uint64_t, const void *from, uint64_t count, int, void *stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  const auto model = bound.find(stream);
  if (model == bound.end()) {
    return Copy(to, from, count);
  }
  auto *size = new uint64_t(count);
  const Kernel copy = [](void **given) { Copy(given[0], given[1], *static_cast<uint64_t *>(given[2])); };
  models[model->second].push_back({{copy, 3, "", ""}, {to, const_cast<void *>(from), size}});
  return 0;
}

// Kernels
int rtDevBinaryRegister(const DevBinary *given, void **handle) { return Register(given, handle); }
int rtRegisterAllKernel(const DevBinary *given, void **handle) { return Register(given, handle); }
int rtFunctionRegister(void *handle, const void *stub, const char *name, const void *, uint32_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  const Binary &binary = *static_cast<Binary *>(handle);
  char *run = Find(binary, name);
  char *arguments = Find(binary, "ascendcache_arguments");
  const char *identity = Find(binary, "ascendcache_identity");
  if (run == nullptr || arguments == nullptr || identity == nullptr) {
    fprintf(stderr, "[ERROR] stand-in runtime: the object has no kernel %s\n", name);
    return kFailed;
  }
  functions[stub] = {reinterpret_cast<Kernel>(run), *reinterpret_cast<int *>(arguments), name, identity};
  stubs[name] = stub;
  return 0;
}
int rtGetFunctionByName(const char *name, void **stub) {
  std::lock_guard<std::recursive_mutex> held(lock);
  const auto found = stubs.find(name);
  if (found == stubs.end()) {
    return kFailed;
  }
  *stub = const_cast<void *>(found->second);
  return 0;
}
int rtKernelLaunch(const void *stub, uint32_t, void *arguments, uint32_t, void *, void *stream) {
  return Start(stub, static_cast<void **>(arguments), stream);
}
int rtKernelLaunchWithFlagV2(const void *stub, uint32_t, ArgsInfo *given, void *, void *stream, uint32_t) {
  return Start(stub, static_cast<void **>(given->arguments), stream);
}
#if ARGS_INFO
int rtKernelLaunchWithFlag(const void *stub, uint32_t, ArgsInfo *given, void *, void *stream, uint32_t) {
  return Start(stub, static_cast<void **>(given->arguments), stream);
}
#else
int rtKernelLaunchWithFlag(const void *stub, uint32_t, void *arguments, uint32_t, void *, void *stream,
                           uint32_t) {
  return Start(stub, static_cast<void **>(arguments), stream);
}
#endif
int rtModelBindStream(void *model, void *stream, uint32_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  return bound[stream] = model, 0;
}
int rtModelUnbindStream(void *, void *stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  return bound.erase(stream), 0;
}
int rtModelExecute(void *model, void *, uint32_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  for (Launch &each : models[model]) {
    if (!each.function.name.empty()) {
      Log("run", each.function);
    }
    each.function.run(each.arguments.data());
  }
  return 0;
}
int rtModelDestroy(void *model) {
  std::lock_guard<std::recursive_mutex> held(lock);
  return models.erase(model), 0;
}

// The channel on which a device would print tensors: a thread of MindSpore waits for them until the
// channel is stopped.
void *acltdtCreateChannel(uint32_t, const char *) { return Handle(); }
void *acltdtCreateChannelWithCapacity(uint32_t, const char *, size_t) { return Handle(); }
void *acltdtCreateDataset() { return Handle(); }
int acltdtReceiveTensor(const void *, void *, int32_t) {
  std::unique_lock<std::mutex> held(channel_lock);
  channel_stops.wait(held, [] { return channel_stopped; });
  return kFailed;
}
int acltdtStopChannel(void *) {
  std::lock_guard<std::mutex> held(channel_lock);
  channel_stopped = true;
  channel_stops.notify_all();
  return 0;
}
}

static char nothing[1 << 19];

class ErrorManager {
 public:
  static ErrorManager &GetInstance();
  std::string GetErrorMessage();
  std::string GetWarningMessage();
};
ErrorManager &ErrorManager::GetInstance() { return *reinterpret_cast<ErrorManager *>(nothing); }
std::string ErrorManager::GetErrorMessage() { return ""; }
std::string ErrorManager::GetWarningMessage() { return ""; }

namespace fe {
class PlatformInfoManager {
 public:
  static PlatformInfoManager &Instance();
};
PlatformInfoManager &PlatformInfoManager::Instance() {
  return *reinterpret_cast<PlatformInfoManager *>(nothing);
}
}  // namespace fe
