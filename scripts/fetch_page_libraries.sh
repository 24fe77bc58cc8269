#!/bin/sh
# Fetches the libraries of the page anew from npm, with their licences.
# Another version: change it here, run this, and look at every page (make screenshots).
set -eu
HTM=3.1.1 # carries Preact 10; one file with hooks
UPLOT=1.6.32

into="$(cd "$(dirname "$0")/.." && pwd)/controller/http/page/vendor"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
npm pack --silent "htm@$HTM" "uplot@$UPLOT" preact@10 >/dev/null
for one in htm uplot preact; do
    mkdir "$one"
    tar -xzf "$one"-[0-9]*.tgz -C "$one" --strip-components=1
done
mkdir -p "$into"
rm -f "$into"/*
# They name maps of their sources, which a browser would ask for.
copy() { sed '/^\/\/# sourceMappingURL=/d' "$1" >"$into/$2"; }
copy htm/preact/standalone.mjs preact-htm.js
copy uplot/dist/uPlot.iife.min.js uplot.js
cp uplot/dist/uPlot.min.css "$into/uplot.css"
cp htm/LICENSE "$into/LICENSE.htm"
cp preact/LICENSE "$into/LICENSE.preact"
cp uplot/LICENSE "$into/LICENSE.uplot"
cat >"$into/VERSIONS" <<END
preact-htm.js   htm $HTM (Apache-2.0) with Preact 10 (MIT): https://www.npmjs.com/package/htm
uplot.js, .css   uPlot $UPLOT (MIT): https://www.npmjs.com/package/uplot
END
