# Findings (slurped) as annotations. GitHub shows ten of a level for a step, so the others are only counted.
def data: gsub("%"; "%25") | gsub("\r"; "%0D") | gsub("\n"; "%0A");
def property: data | gsub(":"; "%3A") | gsub(","; "%2C");
def annotation:
  [ (select(.file) | "file=\(.file | property)"),
    (select(.file and .line) | "line=\(.line)"),
    (select(.file and .line and .column) | "col=\(.column)"),
    "title=\(.code | property)" ] as $properties
  | "::\(.severity) \($properties | join(","))::"
    + ((.message + if .help then "\nhelp: " + .help else "" end) | data);
def counted($name): if . == 1 then "1 more \($name)" else "\(.) more \($name)s" end;

. as $all
| ["error", "warning"] as $levels
| [$levels[] as $level | $all | map(select(.severity == $level)) | {level: $level, all: .}] as $found
| ($found[].all[:10][] | annotation),
  ([$found[] | select((.all | length) > 10) | .level as $level | (.all | length) - 10 | counted($level)]
   | select(length > 0)
   | "::notice title=federate::\(join(" and ")): all are in the job summary")
