#!/bin/sh
# Write a text file as a string of C++. Usage: embed.sh FILE
set -eu
printf 'R"text('
cat "$1"
printf ')text"\n'
