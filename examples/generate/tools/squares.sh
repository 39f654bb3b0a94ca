#!/bin/sh
# squares.sh N FILE: a header with the first N squares.
set -eu
{
	echo "#define SQUARES $1"
	echo "__constant__ int squares[SQUARES] = {"
	i=0
	while [ "$i" -lt "$1" ]; do
		echo "  $((i * i)),"
		i=$((i + 1))
	done
	echo "};"
} >"$2"
