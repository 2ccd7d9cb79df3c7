#pragma once
#include <filesystem>
#include "boundary.h"
// Compiles one operator and writes its files as ``name`` into ``directory``. The reference's compiler
// replaces the closed one of CANN. Returns false if it fails, with the reason in ``why``.
bool compile(const Operator &an_operator, const Options &options, const std::string &name,
             const std::string &directory, std::string &why);
void write_file(const std::filesystem::path &path, const std::string &data);
std::string read_file(const std::filesystem::path &path);
