# Adds out/NAME.txt to the report, under a heading: section.sh NAME HEADING
set -eu
{
  echo "$2"
  cat "out/$1.txt"
  echo
} >>out/report.txt
sleep 0.1
