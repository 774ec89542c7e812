#!/usr/bin/env bash
# Make an environment with LeRobot on the CPU, for the tests of exporting its policies: setup_lerobot.sh PYTHON VENV
set -euo pipefail
python="$1"
venv="$2"
# LeRobot 0.4.4 asks for an older torch than Ashore is tested with, and works with this one; so it is installed without
# its dependencies, and those which policies need follow by name. torch is first: a CPU build of it satisfies the rest.
lerobot=(torchvision lerobot)
lerobot_needs=(
    accelerate av datasets deepdiff diffusers draccus einops gymnasium huggingface-hub "imageio[ffmpeg]" jsonlines
    num2words numpy opencv-python-headless packaging pandas pillow pyserial safetensors termcolor tokenizers tqdm
    transformers
)
ashore_needs=(
    hypothesis msgspec networkx onnx onnx-ir onnxruntime onnxscript openvino pytest pytest-xdist rich typer
)

"$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints-lerobot.txt)
"${pip[@]}" torch
"${pip[@]}" --no-deps "${lerobot[@]}"
"${pip[@]}" torch "${lerobot_needs[@]}" "${ashore_needs[@]}"
"${pip[@]}" --no-deps -e .

# torchvision is compiled for CUDA: beside a CPU build of torch it needs help to be imported.
if ! "$venv/bin/python" -c "import torchvision" 2> /dev/null; then
    packages="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
    cp tools/torchvision_operators.py "$packages/torchvision_operators.py"
    echo "import torchvision_operators" > "$packages/torchvision_operators.pth"
fi
"$venv/bin/python" -c "import torchvision"
