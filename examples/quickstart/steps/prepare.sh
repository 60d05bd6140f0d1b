# An empty out/ with a copy of the text.
set -eu
rm -rf out
mkdir out
cp text.txt out/text.txt
wc -w <out/text.txt | awk '{print $1 " words to look at"}'
