"""The page behind `grace serve`, and what it shares with the pages of studies.

guard      headers, the limit on what may be sent, and a server that stops cleanly
rows       a row as people send it: cells, CSV and JSON; examples are the rows to go through
state      everything a page shows, as the query of its address; aims, what a number should have been
served     models on offer: explaining in threads of their own
cards      a feature as inputs; messages, what goes wrong in the language of the page
showing    the templates, filled in
pages, api, downloads   what is served; refusing says what went wrong
command    `grace serve`
"""
