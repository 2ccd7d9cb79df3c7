#pragma once
#include <filesystem>
#include "boundary.h"
// Compiles one operator and writes its files into ``directory``, named ``name``: the closed compiler
// of CANN, whose place the reference's takes. False where it cannot; the reason is in ``why``.
bool compile(const Operator &an_operator, const Options &options, const std::string &name,
             const std::string &directory, std::string &why);
void write_file(const std::filesystem::path &path, const std::string &data);
std::string read_file(const std::filesystem::path &path);
