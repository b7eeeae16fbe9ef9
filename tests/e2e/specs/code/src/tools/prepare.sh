#!/bin/sh
echo "prepared with $# ($*) in ${PWD##*/}" >"$OUTPUT_DIR/prepared"
