# shellcheck shell=bash
# Output to the log. Text from the repo is untrusted: the runner must not find commands in it.

# A word that no text can predict.
random_word() {
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# quote FILE: prints it with the runner's commands stopped.
quote() {
  [ -s "$1" ] || return 0
  local word
  word=federate-$(random_word)
  echo "::stop-commands::$word"
  cat "$1"
  # A last line without a line break would hide the word.
  [ -z "$(tail -c 1 "$1")" ] || echo
  echo "::$word::"
}

# data TEXT: as a message of a workflow command.
data() {
  local text=$1
  text=${text//'%'/%25}
  text=${text//$'\r'/%0D}
  printf '%s' "${text//$'\n'/%0A}"
}

# tell LEVEL MESSAGE: an annotation that belongs to no file.
tell() {
  printf '::%s title=federate::%s\n' "$1" "$(data "$2")"
}

# fail MESSAGE: an error that the author of the workflow must fix.
fail() {
  tell error "$1"
  output exit-code 2
  exit 2
}

# raise CODE: the step ends with the highest exit code.
raise() {
  [ "$1" -le "$worst" ] || worst=$1
}
