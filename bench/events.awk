# SPDX-License-Identifier: BSD-3-Clause
# Functions of the scripts that read `tstream --json`, a line an event:
#   awk "$(cat bench/events.awk)"'...'

# A number of the event; 0 when it has none of that name.
function value(key,    at)
{
    at = index($0, "\"" key "\":")
    return at == 0 ? 0 : substr($0, at + length(key) + 3) + 0
}

# Over the devices of a mode: the sum of their numbers, or the largest.
function over(key, sum,    rest, at, x, all)
{
    rest = substr($0, index($0, "\"devices\":"))
    while ((at = index(rest, "\"" key "\":")) > 0) {
        rest = substr(rest, at + length(key) + 3)
        x = rest + 0
        all = sum ? all + x : x > all ? x : all
    }
    return all + 0
}

# Of list[1] to list[n], which it sorts; 0 when there are none.
function median(list, n,    i, j, x)
{
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
            x = list[j]
            list[j] = list[j - 1]
            list[j - 1] = x
        }
    return n == 0 ? 0 : (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2
}
