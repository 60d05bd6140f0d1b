# Each section stands in the report once.
set -eu
for heading in "The commonest words" "The commonest letters" "The longest words"; do
  [ "$(grep -c "^$heading\$" out/report.txt)" = 1 ] || { echo "not once in the report: $heading" >&2; exit 1; }
done
echo "the report is complete: out/report.txt"
