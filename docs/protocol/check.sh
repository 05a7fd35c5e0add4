#!/usr/bin/env bash
# Checks the model of the transfer protocol with spin, and that each mutant of it fails: a checker that can't find a
# fault proves nothing. Bounds from the environment: ATTEMPTS, RUNS, PARKINGS.
set -euo pipefail

model=$(cd "$(dirname "$0")" && pwd)/transfer.pml
mutants="NOKEY NOSEAL NORESOLVE NOWHY EARLYBACK DECREE FORGETFUL"
bounds="-DATTEMPTS=${ATTEMPTS:-2} -DRUNS=${RUNS:-2} -DPARKINGS=${PARKINGS:-1}"

command -v spin >/dev/null || { echo "model: spin is missing; install it (Debian: apt-get install spin)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Searches the model built with the given definition, and sets errors and states.
check() {
	# shellcheck disable=SC2086 # the bounds are words
	spin $bounds ${1:+"$1"} -a "$model" >spin.log 2>&1 || { cat spin.log >&2; exit 1; }
	gcc -O2 -DSAFETY -DVECTORSZ=2048 -DCOLLAPSE -o pan pan.c
	./pan -m1000000 -w24 >pan.log
	if grep -q 'max search depth too small\|out of memory' pan.log; then
		echo "model: the search was cut short" >&2
		exit 1
	fi
	errors=$(sed -n 's/^State-vector.*errors: \([0-9]*\).*/\1/p' pan.log)
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
	[[ -n $errors && -n $states ]] || { cat pan.log >&2; exit 1; }
}

check ""
if [[ $errors != 0 ]]; then
	echo "model: $errors errors ($bounds)" >&2
	exit 1
fi
echo "model: $states states, no error ($bounds)"
for mutant in $mutants; do
	check "-D$mutant"
	if [[ $errors == 0 ]]; then
		echo "model: the mutant $mutant passes, so the check can't find what it is for" >&2
		exit 1
	fi
	echo "model: without it ($mutant) an error is found"
done
