"""The paper's two user studies, to run with people: GRACE's explanations beside LIME's.

design      what a study is: its task, its arms, its items; kept as JSON
making      a study from a table or a saved explainer
lime        LIME in the same terms
controls    the inputs with which a participant adjusts a row
store       participants and answers, in SQLite; responses are answers as CSV
pages       what a participant sees, and the server
statistics  hypothesis tests and effect sizes
power       power of the tests, and sample sizes
analysis    tests of H1, H2 and H3, and their figure
"""
