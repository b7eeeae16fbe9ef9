"""The settings of Sphinx."""

project = "mlpack"
html_title = "mlpack"
language = "en"
extensions = ["myst_parser", "sphinx.ext.githubpages"]
myst_heading_anchors = 4
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/icon.svg"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
