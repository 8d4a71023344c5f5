"""The HTML report of a simulation: one self-contained file.

series    the event log as lines over time      timeline  the event log as rows of nodes and events
page      both, with the summary, as one page   assets    the page's HTML, CSS, JavaScript and chart library
"""
