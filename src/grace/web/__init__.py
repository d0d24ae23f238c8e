"""The page behind `grace serve`, and what it shares with the pages of studies.

hosts      the names that are served, and whose pages may send
guard      who may ask, limits on what is sent, headers, and clients that leave
server     the server; deadlines gives up on requests that do not arrive
rows       a row as people send it: cells, CSV and JSON; forms reads what a form with a file sends; examples are the
           rows to go through
state      everything a page shows, as the query of its address; aims, what a number should have been
lanes      queues with fair turns, one thread each
served     models on offer: explaining in lanes of their own
cards      a feature as inputs; messages, what goes wrong in the language of the page
showing    the templates, filled in
pages, api, downloads   what is served; refusing says what went wrong
command    `grace serve`
"""
