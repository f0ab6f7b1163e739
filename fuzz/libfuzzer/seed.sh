#!/bin/sh
# Fills the corpus: the valid inputs that every target has, the examples for `load`, and the code in them for `script`.
set -eu
cd "$(dirname "$0")"
cargo run --release --quiet --manifest-path ../Cargo.toml -- seed corpus
cp ../../examples/*.xml corpus/load/
number=0
sed -n 's/.*\(CONDITION\|COLLECT\)="\([^"]*\)".*/\2/p; s/.*"${\([^"]*\)}".*/\1/p; s/.*<[A-Z_]*CODE[^>]*>\(..*\)<\/.*/\1/p' \
    ../../examples/*.xml | sort -u | while IFS= read -r code; do
    number=$((number + 1))
    printf '%s' "$code" >"corpus/script/example-$number"
done
for file in ../../examples/*.xml; do
    # Code of several lines: everything between a tag and its end that stand on lines of their own.
    awk -v name="corpus/script/$(basename "$file" .xml)" '
        /<\/[A-Z_]*CODE>/ { inside = 0 }
        inside { print > (name "-" number) }
        /<[A-Z_]*CODE[^>]*> *$/ { inside = 1; number++ }
    ' "$file"
done
