# SPDX-License-Identifier: BSD-3-Clause
"""What Sphinx is told: scripts/site calls it for the pages that pages.py puts together."""
import os
import re

project = "tstream"
copyright = "the authors of tstream, BSD-3-Clause"
version = release = os.environ["TSTREAM_VERSION"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 5
highlight_language = "text"
exclude_patterns = []
html_theme = "furo"
html_title = f"tstream {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
# Colours of code with a contrast of 4.5 and more on their background, light and dark.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False
napoleon_google_docstring = False
napoleon_use_rtype = False
nitpicky = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b57a4", "color-brand-content": "#0b57a4"},
    "dark_css_variables": {"color-brand-primary": "#8ab8ff", "color-brand-content": "#8ab8ff"},
}
default_role = "code"
smartquotes = False
napoleon_use_ivar = True


def docstring(app, what, name, obj, options, lines):
    """Bars are magnitudes, and not substitutions; a list of parameters may take several lines."""
    text = "\n".join(lines).replace("|", r"\|")
    while ",\n" in text:
        joined = re.sub(r"^([a-z0-9_, ]+,)\n(?=[a-z0-9_, ]+$)", r"\1 ", text, flags=re.M)
        if joined == text:
            break
        text = joined
    lines[:] = text.split("\n")


def setup(app):
    app.connect("autodoc-process-docstring", docstring, priority=400)
