# The ten commonest words, with how often they come.
set -eu
sleep 0.3
tr -cs 'A-Za-z' '\n' <out/text.txt | tr 'A-Z' 'a-z' | grep -v '^$' | sort | uniq -c | sort -k1,1nr -k2 | head -n 10 >out/words.txt
"$CONDUCTOR_BIN" bus progress 100 "$(wc -l <out/words.txt | tr -d ' ') words kept"
