"""Choose the cases that are proven on ONNX in every run, and write them to tests/capture/cases/on_onnx.txt."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from capture.cases import registry
from capture.cases.on_onnx import TABLE, write_table
from capture.cases.registry import EXACT
from docs.cases_page import all_cases


def main() -> None:
    """Record every case that is exact, and choose."""
    warnings.simplefilter("ignore")  # what torch has to say about the code in some cases
    cases = [case for case in all_cases() if case.outcome == EXACT]
    kinds_of = {case.name: registry.kinds_of_operations(case.make, registry.recorded(case.make)) for case in cases}
    chosen = write_table(kinds_of)
    sys.stderr.write(f"{TABLE}: {chosen} of {len(cases)} cases have every kind of operation\n")


if __name__ == "__main__":
    main()
