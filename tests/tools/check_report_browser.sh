#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The page of tstream report in a browser: no message on its console, nothing wider than a window of 400 or
# 1600, no text on another, text that can be read on its background in the light and in the dark. SHOTS=DIR keeps pictures.
set -eu

top=${TOP_SRCDIR:-$(cd "$(dirname "$0")" && d=$(pwd) && echo "${d%/tests*}")}
. "$top/tests/support/outside.sh"
browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v $name || true)
done
[ -n "$browser" ] || { echo "skipped: there is no Chromium or Chrome"; exit 77; }
chrome()
{
    timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
        --user-data-dir="$tmp/profile" --force-device-scale-factor=1 --enable-logging=stderr --v=0 "$@" 2> browser.log
}
printf '<p>here' > try.html
chrome --dump-dom "file://$tmp/try.html" > dom || { echo "skipped: $browser does not start here"; exit 77; }
grep -q here dom || { echo "skipped: $browser does not start here"; exit 77; }

"$bin/tshard" gen --planted 3 --noise 0.2 --dims 40x30x24x5 --nnz 20000 -o x.tns
awk 'BEGIN { for (i = 1; i <= 40; i++) printf "a_name_without_any_place_to_break_it_%d_%d\n", i, i * i * i * i }' > one.map
awk 'BEGIN { for (i = 1; i <= 24; i++) printf "2024-%02d-%02d\n", 1 + int(i / 10), 1 + i % 10 }' | sort > three.map
"$bin/tshard" build x.tns --map 1=one.map --map 3=three.map > log
"$bin/tstream" cp x.tsh --cpu -r 12 -i 9 --tol 0 > log
"$bin/tstream" report x.cp > log

# A copy that measures itself: a script at its end, which is no part of the page.
cat > measure <<'E2'
<script>
const found = [];
for (const width of [400, 800, 1600]) {
    document.body.style.width = width + "px";
    document.body.style.margin = 0;
    for (const e of document.body.querySelectorAll("*")) {
        const r = e.getBoundingClientRect();
        if (r.width > 0 &amp;&amp; (r.right > width + 1 || r.left &lt; -1)) found.push(width + ": " + e.tagName + "." + (e.getAttribute("class") || ""));
    }
    for (const row of document.querySelectorAll(".ends, .bars li, h4, .weight")) {
        const inside = [...row.children].filter(e => e.getAttribute("class") != "tr").map(e => e.getBoundingClientRect());
        for (let i = 1; i &lt; inside.length; i++)
            for (let k = 0; k &lt; i; k++)
                if (inside[i].left &lt; inside[k].right &amp;&amp; inside[k].left &lt; inside[i].right)
                    found.push(width + ": texts collide: " + row.textContent);
    }
    for (const t of document.querySelectorAll("svg text")) {
        const size = parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a;
        if (size &lt; 9 || size > 24) found.push(width + ": text of " + size + " px: " + t.textContent);
    }
}
const shade = c => { const v = c.match(/[\d.]+/g).map(x => { x /= 255; return x &lt;= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const ground = shade(getComputedStyle(document.body).backgroundColor);
for (const e of document.querySelectorAll("p, h1, h4, dd, dt, .mu, .good, .paused, .bad, a, bdi, text")) {
    const style = getComputedStyle(e), ink = shade(e.tagName == "text" ? style.fill : style.color);
    const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (ratio &lt; 4.5) found.push(e.tagName + "." + e.className + ": contrast " + ratio);
}
document.title = "measured " + document.querySelectorAll("svg").length + (ground > 0.5 ? " light" : " dark") + " " + [...new Set(found)].join("; ");
</script>
E2
sed 's/&lt;/</g; s/&amp;/\&/g' measure > script
{ sed '/^<\/body>/,$d' x.html; cat script; echo '</body></html>'; } > measured.html
for scheme in 0 1; do # dark, light
    chrome --blink-settings=preferredColorScheme=$scheme --window-size=1600,1000 --dump-dom "file://$tmp/measured.html" > dom
    title=$(sed -n 's/.*<title>\(.*\)<\/title>.*/\1/p' dom)
    case $scheme:$title in
    0:"measured "[1-9]*" dark "|1:"measured "[1-9]*" light ") ;;
    *) bad "scheme $scheme: $title" ;;
    esac
    chrome --blink-settings=preferredColorScheme=$scheme --window-size=1600,2400 --screenshot="$tmp/shot$scheme.png" "file://$tmp/x.html" > log
    [ -s "shot$scheme.png" ] || bad "no picture"
    if grep CONSOLE browser.log > why; then bad "console: $(head -3 why)"; fi
    chrome --blink-settings=preferredColorScheme=$scheme --window-size=500,3000 --screenshot="$tmp/narrow$scheme.png" "file://$tmp/x.html" > log
done
if [ -n "${SHOTS:-}" ]; then cp ./*.png x.html "$SHOTS"; fi

# the measure itself finds faults
sed 's/--fg:#1b1f24/--fg:#cccccc/; s/^\.bars b{/&position:absolute;left:2px;/; s/figure svg{display:block;width:100%/figure svg{display:block;width:700px/' measured.html > faults.html
chrome --blink-settings=preferredColorScheme=1 --window-size=1600,1000 --dump-dom "file://$tmp/faults.html" > dom
sed -n 's/.*<title>\(.*\)<\/title>.*/\1/p' dom | grep 'contrast' | grep 'collide' | grep -q '400: ' || bad "the measure finds nothing"

exit $failed
