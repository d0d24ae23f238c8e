"""The page of `grace serve`, its JSON API, and what the studies' pages share with it.

pages       the app: routes of the page, error handlers; views renders the templates, decision_views the parts about how
            the model decides; messages are errors in the language of the page
api         routes of the JSON API; bodies are what its requests hold
service     served models; queues are their worker threads, with fair turns per client
rows        parsing of rows: cells, CSV, JSON; examples are the rows to browse
state       the state of a page as the query of its URL; aims are targets of a number
cards       a feature as form inputs
middleware  limits, headers, cancellation; hosts checks host names and origins
server      uvicorn with deadlines
"""
