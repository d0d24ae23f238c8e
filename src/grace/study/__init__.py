"""The paper's two user studies, which compare GRACE's explanations with LIME's.

design      the design of a study: task, arms, items; stored as JSON
making      creates a study from a table or a saved explainer
lime        LIME's explanations with GRACE's schema and pictures
controls    form inputs with which a participant adjusts a row
store       participants and answers in SQLite; responses are answers as CSV
pages       the pages that participants see
statistics  hypothesis tests and effect sizes
power       power of the tests, and sample sizes
analysis    tests of H1, H2 and H3, and their figure
"""
