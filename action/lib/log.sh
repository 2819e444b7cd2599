# shellcheck shell=bash
# What goes to the log. Text of the repo may be a stranger's: the runner must find no commands in it.

# A word that no text can have foreseen.
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
  # A last line without its end would swallow the word.
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

# fail MESSAGE: what the one who wrote the workflow must put right.
fail() {
  tell error "$1"
  output exit-code 2
  exit 2
}

# raise CODE: the highest exit code is the step's.
raise() {
  [ "$1" -le "$worst" ] || worst=$1
}
