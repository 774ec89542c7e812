#!/usr/bin/env bash
# Install what the tests need from the system (Debian): setup_system.sh [--check]
# With --check nothing is installed; what is missing is named, and the exit status is 1.
set -euo pipefail

# Command that has to be there, and the package that brings it.
needed=(
    gcc:gcc g++:g++ ar:binutils clang:clang make:make cmake:cmake # compiled policies
    arm-none-eabi-gcc:gcc-arm-none-eabi qemu-system-arm:qemu-system-arm # and those without an operating system
    chromium:chromium chromedriver:chromium-driver # pages, as a reader sees them
)

missing=()
for entry in "${needed[@]}"; do
    command -v "${entry%%:*}" > /dev/null || missing+=("${entry##*:}")
done
# A C library for such boards has no command of its own: a compiler that finds it says where.
if ! command -v arm-none-eabi-gcc > /dev/null || [ "$(arm-none-eabi-gcc -print-file-name=libc.a)" = libc.a ]; then
    missing+=(libnewlib-arm-none-eabi)
fi

if [ "${#missing[@]}" -eq 0 ]; then
    exit 0
fi
if [ "${1:-}" = --check ]; then
    echo "these are missing: ${missing[*]}; run make setup-system, or apt-get install ${missing[*]}" >&2
    exit 1
fi
if ! command -v apt-get > /dev/null; then
    echo "these are missing: ${missing[*]} (as Debian calls them), and there is no apt-get here; install them" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || { echo "run as root: apt-get install ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
"${as_root[@]}" apt-get update --quiet
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${missing[@]}"
exec bash "$0" --check
