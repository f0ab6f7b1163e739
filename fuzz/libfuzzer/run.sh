#!/bin/sh
# Builds and runs a target with libFuzzer on a stable compiler: run.sh TARGET [options of libFuzzer].
# Only the crates of Xavantes are instrumented, so that their dependencies need not be built again.
set -eu
cd "$(dirname "$0")"
target=$1
shift
if [ "${XAVANTES_RUSTC:-}" = "" ]; then
    XAVANTES_RUSTC=$(mktemp)
    cat >"$XAVANTES_RUSTC" <<'EOF'
#!/bin/sh
# Cargo calls this in place of rustc, with the path of rustc as first argument.
case " $* " in
*" --crate-name xavantes_"* | *" --crate-name load "* | *" --crate-name script "* | *"fuzz_targets/"*)
    exec "$@" -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 \
        -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table \
        -C llvm-args=-sanitizer-coverage-trace-compares -C debug-assertions -C overflow-checks -C codegen-units=1
    ;;
*) exec "$@" ;;
esac
EOF
    chmod +x "$XAVANTES_RUSTC"
fi
RUSTC_WRAPPER=$XAVANTES_RUSTC cargo build --release --bin "$target"
mkdir -p "corpus/$target" "artifacts/$target"
exec "${CARGO_TARGET_DIR:-target}/release/$target" -artifact_prefix="artifacts/$target/" "$@" "corpus/$target"
