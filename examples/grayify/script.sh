#!/bin/sh
# Converts one image to grayscale. The supervisor of OSCAR downloads the image
# that started the job to INPUT_FILE_PATH before the script, and uploads what the
# script leaves in TMP_OUTPUT_DIR to the service's output after it.
set -eu

: "${TMP_OUTPUT_DIR:?this script runs under the supervisor of OSCAR}"

# The supervisor succeeds whatever the script's status is. Ended by the script, it fails, and the job with it.
trap '[ $? -eq 0 ] || kill "$PPID"' EXIT

: "${INPUT_FILE_PATH:?the job brought no file; start it by an upload to the input bucket}"

name=$(basename "$INPUT_FILE_PATH")
output="$TMP_OUTPUT_DIR/$name"

echo "converting $name to grayscale"
convert "$INPUT_FILE_PATH" -colorspace Gray "$output"
echo "wrote $output"
