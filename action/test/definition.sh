# shellcheck shell=bash disable=SC2154 # variables are those of lib/setup.sh
# action.yml and the scripts agree on every input and output.
definition=${here%/*}/action.yml

# section NAME: the keys right below a key at the start of a line.
section() {
  sed -n "/^$1:/,/^[a-z]/s/^  \([a-z-]*\):.*/\1/p" "$definition" | sort
}

# same WHAT ONE OTHER
same() {
  diff <(echo "$2") <(echo "$3") || { echo "$1" && exit 1; }
}

inputs=$(section inputs)
[ "$(wc -l <<<"$inputs")" -gt 5 ] || { echo "the inputs are not found" && exit 1; }
variables=$(tr 'a-z-' 'A-Z_' <<<"$inputs" | sed 's/^/INPUT_/')
same "an input is not given to the script, or not as itself" \
  "$(paste -d '=' <(echo "$variables") <(echo "$inputs"))" \
  "$(sed -n 's/^ *\(INPUT_[A-Z_]*\): \${{ inputs\.\([a-z-]*\) }}$/\1=\2/p' "$definition" | sort -t '=' -k 2)"
same "an input is not read" "$(sort <<<"$variables")" \
  "$(grep -oh 'INPUT_[A-Z_]*:-' "$here/lib/inputs.sh" | sed 's/:-//' | sort)"
outputs=$(section outputs)
same "an output is not handed on, or not as itself" "$outputs" \
  "$(sed -n 's/^ *value: \${{ steps\.federate\.outputs\.\([a-z-]*\) }}$/\1/p' "$definition" | sort)"
same "an output is not written" "$outputs" "$(sed -n 's/^  output \([a-z-]*\) .*/\1/p' "$here/lib/report.sh" | sort)"

# The guide has a row for each.
rows=$(sed -n '/^## The action/,/^## Other/s/^| \(`[^|]*\) |.*/\1/p' "${here%/*}/docs/guides/preview-a-pull-request.md" | tr -d '`' | sed 's/, /\n/' | sort)
same "the guide does not list what action.yml has" "$(sort <<<"$inputs"$'\n'"$outputs")" "$rows"
