#!/usr/bin/env bash
# Install each distribution into an empty environment, without torch and without onnx, and run a package there.
set -euo pipefail
python="$1"
here="$(pwd)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
for file in dist/*.whl dist/*.tar.gz; do
    echo "trying $file"
    "$python" -m venv --clear "$scratch/venv"
    "$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$file"
    (
        cd "$scratch"
        ./venv/bin/python -c "
import importlib.util
import numpy
import ashore
assert importlib.util.find_spec('torch') is None and importlib.util.find_spec('onnx') is None
policy = ashore.load('$here/tests/data/v1/arm.ashore')
policy.step({'q': numpy.zeros((1, 2), numpy.float32)})
print(policy, policy.substep({'v': numpy.zeros((1, 2), numpy.float32)}))
"
        ./venv/bin/ashore verify "$here/tests/data/v1/arm.ashore"
        ASHORE_CACHE="$scratch/cache" ./venv/bin/ashore verify --backend c "$here/tests/data/v1/arm.ashore"
        ./venv/bin/ashore view "$here/tests/data/v1/arm.ashore" --out page.html
    )
done
