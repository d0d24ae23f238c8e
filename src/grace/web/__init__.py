"""The page behind `grace serve`, its JSON API, and what it shares with the pages of studies.

pages           the routes of the page, and the error handlers of page and API; views fills the templates
api             the routes of the JSON API
service         models on offer; queues, one worker thread each with fair turns per client
rows            a row as people send it: cells, CSV, JSON; examples are the rows to browse
state           everything a page shows, as the query of its address; aims, what a number should have been
cards           a feature as inputs
middleware      limits, headers, clients that leave; hosts, which names are served
server          uvicorn with deadlines
"""
