"""Features and their domains, tables as rows of numbers, and reading tables.

schema       Schema: the features of a table, dom(X); encodes and decodes rows
features     Numeric and Categorical: range, kind, words
domains      the range of training values that a domain allows
columns      one column as float64 and back; imputation of missing cells
large_tables copies of large tables in parts, on several threads; low_precision has half and single precision
groups       one-hot columns that are one feature
limits       constraints on what a call may change; names that look like protected attributes
rules/       rules between features
information  entropy, MDLP bins, symmetrical uncertainty (SU)
sources      training rows, in a frame or in Parquet of any size
schema_file  features and schemas as JSON, and as a file to edit; words validates their words
frames       anything tabular as a DataFrame
tables/      reads CSV and Parquet
files        atomic writes, hashes, CSV cells without formulas
parsing      values from untrusted JSON, by declared types
formatting   numbers, names and schemas as short text
caching      values derived from an immutable object, cached in it
"""
