"""Features and their domains, tables as rows of numbers, and reading tables.

schema          Schema: the features of a table, dom(X); encodes and decodes rows
features        Numeric and Categorical: range, kind, words; feature_checks validates their parts, feature_json is JSON
columns         one column as numbers and back; imputation of missing cells
quantiles       the range of a domain
groups          one-hot columns that are one feature
limits          what a call may change; names that look like protected attributes
rules/          rules between features
information     entropy, MDLP bins, symmetrical uncertainty (SU)
sources         training rows, in a frame or in Parquet of any size
schema_file     the schema as a file to edit; words checks its words
frames          anything tabular as a DataFrame
tables/         reads CSV and Parquet
files           atomic writes, hashes, CSV cells without formulas
parsing         values from untrusted JSON, by declared types
numerals        numbers as people write them; shortening cuts long names
"""
