#!/bin/sh
# Cargo calls this in place of rustc, with the path of rustc as first argument. It instruments the crates of Xavantes only,
# so that their dependencies are built once.
case " $* " in
*" --crate-name xavantes_"*)
    exec "$@" -C passes=sancov-module -C llvm-args=-sanitizer-coverage-level=4 \
        -C llvm-args=-sanitizer-coverage-inline-8bit-counters -C llvm-args=-sanitizer-coverage-pc-table \
        -C llvm-args=-sanitizer-coverage-trace-compares -C debug-assertions -C overflow-checks
    ;;
*) exec "$@" ;;
esac
