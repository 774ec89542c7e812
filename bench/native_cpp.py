"""What binding costs in C++: a step of `ashore::Bound` against the bare call of the same policy, in one program.

python bench/native_cpp.py [--calls 200000]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from ashore.backends.c import compile_package
from graphs import SUBJECTS, write_subject

PROGRAM = """
#include <algorithm>
#include <chrono>
#include <deque>

#include "ashore.hpp"
#include "policy.h"

using Times = std::vector<double>;

double quantile(Times times, double part) {
  std::sort(times.begin(), times.end());
  return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
}

int main() {
  const ashore_contract& contract = POLICY_contract;
  ashore::Robot robot;
  std::deque<std::vector<double>> values;
  for (std::size_t i = 0; i < contract.step_input_count; ++i) {
    const ashore_port& port = contract.step_inputs[i];
    values.emplace_back(port.count, 0.1);
    robot.reads(port.name, ashore::names_of(port), values.back().data(), port.count);
  }
  for (std::size_t i = 0; i < contract.step_output_count; ++i) {
    const ashore_port& port = contract.step_outputs[i];
    values.emplace_back(port.count, 0.0);
    robot.writes(port.name, ashore::names_of(port), values.back().data(), port.count);
  }
  ashore::Bound bound(contract, robot);
  bound.reset();
  static POLICY policy;
  static POLICY_step_in in;
  static POLICY_step_out out;
  POLICY_reset(&policy);
  Times with, bare;
  with.reserve(CALLS), bare.reserve(CALLS);
  for (int call = 0; call < CALLS; ++call) {  // in turn, so that noise hits both
    const auto begin = std::chrono::steady_clock::now();
    if (!bound.step()) return 1;
    const auto middle = std::chrono::steady_clock::now();
    if (POLICY_step(&policy, &in, &out) != ASHORE_OK) return 1;
    const auto end = std::chrono::steady_clock::now();
    with.push_back(std::chrono::duration<double, std::micro>(middle - begin).count());
    bare.push_back(std::chrono::duration<double, std::micro>(end - middle).count());
  }
  std::printf("bound %6.2f %6.2f   bare %6.2f %6.2f   x%.2f\\n", quantile(with, 0.5), quantile(with, 0.99),
              quantile(bare, 0.5), quantile(bare, 0.99), quantile(with, 0.5) / quantile(bare, 0.5));
}
"""


def measure(folder: Path, name: str, calls: int) -> str:
    """Compile one of the policies, call it both ways, and say what that took."""
    compiled = compile_package(write_subject(SUBJECTS[name](), folder / "package"))
    for path, data in compiled.files.items():
        (folder / path).write_bytes(data)
    text = PROGRAM.replace("POLICY", f"ashore_{compiled.name}").replace("CALLS", str(calls))
    (folder / "main.cpp").write_text(text)
    library = folder / f"libashore_{compiled.name}.a"
    subprocess.run(
        ["c++", "-std=c++17", "-O2", "-I", folder, folder / "main.cpp", library, "-lm", "-o", folder / "main"],
        check=True,
    )
    return subprocess.run([folder / "main"], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200_000)
    calls = parser.parse_args().calls
    print(f"µs a step, p50 and p99 of {calls:,} calls, in turn in one program")
    for name in SUBJECTS:
        with tempfile.TemporaryDirectory() as scratch:
            print(f"{name:<28} {measure(Path(scratch), name, calls)}", flush=True)


if __name__ == "__main__":
    main()
