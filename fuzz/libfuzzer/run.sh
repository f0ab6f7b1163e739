#!/bin/sh
# Builds and runs a target with libFuzzer on a stable compiler: run.sh TARGET [options of libFuzzer].
set -eu
cd "$(dirname "$0")"
target=$1
shift
# The same versions of dependencies as the workspace.
[ -e Cargo.lock ] || cp ../../Cargo.lock Cargo.lock
RUSTC_WRAPPER=$PWD/instrument.sh cargo build --release
mkdir -p "corpus/$target" "artifacts/$target"
export XAVANTES_TARGET="$target"
# libFuzzer has a main function of its own, which does not ignore this signal as those of Rust programs do.
trap '' PIPE
exec "${CARGO_TARGET_DIR:-target}/release/xavantes-libfuzzer" -artifact_prefix="artifacts/$target/" "$@" "corpus/$target"
