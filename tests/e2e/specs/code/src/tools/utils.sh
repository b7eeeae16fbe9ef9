# shellcheck shell=sh
# say NAME COUNT WORDS: one line, so that those of two ranks do not mix.
say() {
  large=$(cat "${PWD%%/src*}"/src/large/*.txt | wc -c)
  echo "$1 in ${PWD##*/}: $2 words ($3), $large bytes, $(cat "$OUTPUT_DIR/prepared")"
}
