/* SPDX-License-Identifier: BSD-3-Clause */
/* report_style.h - the template of a page: what stands before and after its parts, and how they look.
 *
 * Colours are variables, which prefers-color-scheme sets; a page is one column on a telephone and as many as
 * fit on a wide screen. There is no script and nothing that is fetched. Text of SVG is of the page's size at its
 * narrowest, and grows by at most half.
 */
#ifndef TS_TOOLS_REPORT_STYLE_H
#define TS_TOOLS_REPORT_STYLE_H

static const char report_style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--mu:#5a6470;--li:#d9dee4;--ca:#f6f8fa;"
    "--po:#2a6fb5;--ne:#c2562f;--go:#1a7a3c;--wa:#9a6200;--b0:#2a6fb5;--b1:#c2562f;--b2:#1a7a3c;"
    "--b3:#8a4fb0;--b4:#9a6200;--b5:#3b8c94}\n"
    "@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e8ed;--mu:#9aa5b1;--li:#343b44;"
    "--ca:#1d2228;--po:#67aef0;--ne:#ef8f6b;--go:#63c985;--wa:#e0b04f;--b0:#67aef0;--b1:#ef8f6b;"
    "--b2:#63c985;--b3:#c79bea;--b4:#e0b04f;--b5:#6fc7cf}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1rem;max-width:110rem;background:var(--bg);color:var(--fg);"
    "font:15px/1.45 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n"
    "h1{font-size:1.5rem;margin:.2rem 0;overflow-wrap:anywhere}\n"
    "h2{font-size:1.15rem;margin:1.8rem 0 .6rem;border-bottom:1px solid var(--li);padding-bottom:.2rem}\n"
    "h3{font-size:1rem;margin:0 0 .4rem}\n"
    "h4{font-size:.85rem;margin:0 0 .25rem;color:var(--mu);font-weight:600;overflow-wrap:anywhere}\n"
    "p{margin:.3rem 0;max-width:52rem}\n"
    "a{color:var(--po)}\n"
    ".mu,figcaption,.ends{color:var(--mu)}\n"
    ".big{font-size:1.05rem}\n"
    ".good{color:var(--go);font-weight:600}.paused{color:var(--wa);font-weight:600}"
    ".bad{color:var(--ne);font-weight:600}\n"
    "dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.15rem 1rem;margin:.5rem 0}\n"
    "dt{color:var(--mu)}dd{margin:0;overflow-wrap:anywhere}\n"
    ".warn{border-left:4px solid var(--wa);background:var(--ca);padding:.5rem .8rem .5rem 1.8rem;margin:.8rem 0}\n"
    ".warn li{margin:.15rem 0}\n"
    ".facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 2rem}\n"
    ".charts{display:grid;align-items:start;grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr));gap:1rem}\n"
    "figure{margin:0;padding:.6rem;background:var(--ca);border:1px solid var(--li);border-radius:6px;"
    "max-width:36rem}\n"
    "figure svg{display:block;width:100%;height:auto}\n"
    "figure svg.mx{max-width:24rem}\n"
    "figcaption{font-size:.85rem;margin-bottom:.3rem}\n"
    "figure p{font-size:.85rem}\n"
    "svg text{font-size:11px;fill:var(--mu)}\n"
    "svg .e{text-anchor:end}svg .m{text-anchor:middle}\n"
    "svg .g{stroke:var(--li);stroke-width:1;vector-effect:non-scaling-stroke;fill:none}\n"
    "svg .l{fill:none;stroke-width:1.5;vector-effect:non-scaling-stroke;stroke-linejoin:round}\n"
    ".l0{stroke:var(--b0)}.l1{stroke:var(--b1)}.l2{stroke:var(--b2)}.l3{stroke:var(--b3)}"
    ".l4{stroke:var(--b4)}.l5{stroke:var(--b5)}\n"
    ".d0{fill:var(--b0)}.d1{fill:var(--b1)}.d2{fill:var(--b2)}.d3{fill:var(--b3)}.d4{fill:var(--b4)}"
    ".d5{fill:var(--b5)}\n"
    ".k0{color:var(--b0)}.k1{color:var(--b1)}.k2{color:var(--b2)}.k3{color:var(--b3)}.k4{color:var(--b4)}"
    ".k5{color:var(--b5)}\n"
    "svg .b{fill:var(--po)}svg .n{fill:var(--ne)}svg .z{fill:none;stroke:var(--li);stroke-width:1;"
    "vector-effect:non-scaling-stroke}\n"
    "nav{display:flex;flex-wrap:wrap;gap:.1rem .55rem;margin:.4rem 0}\n"
    "article{border:1px solid var(--li);border-radius:6px;padding:.7rem .8rem;margin:.8rem 0}\n"
    ".modes{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,14rem),1fr));gap:.8rem 1.2rem}\n"
    ".fl{display:block;width:100%;height:5rem}\n"
    ".ends{display:flex;justify-content:space-between;gap:1rem;font-size:.8rem}\n"
    ".bars{position:relative;margin:0;padding:0;list-style:none;line-height:1.5rem}\n"
    ".fb{position:absolute;left:0;top:0;width:100%;height:100%;opacity:.28}\n"
    ".bars li{position:relative;display:flex;justify-content:space-between;gap:.6rem;padding:0 .3rem;"
    "height:1.5rem}\n"
    ".bars bdi{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}\n"
    ".bars b{font-weight:400;font-variant-numeric:tabular-nums}\n"
    "footer{margin-top:2rem;color:var(--mu);font-size:.85rem}\n"
    "@media print{figure,article{break-inside:avoid}}\n";

#endif
