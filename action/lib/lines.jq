# A finding as a line of the log, its help below it.
([.file, .line, .column] | map(select(. != null) | tostring) | join(":")) as $at
| "\(.severity)[\(.code)] \($at)\(if $at == "" then "" else ": " end)\(.message)"
  + if .help then "\n  help: \(.help)" else "" end
