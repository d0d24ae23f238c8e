"""Reading CSV and Parquet tables.

reading       a whole table as a DataFrame
csv_files     compression, encoding, separator and header of CSV
text_columns  columns of text as numbers, dates or categories; text_cells parses their cells
table_file    a table of any size in parts; arrow has its pyarrow helpers
"""
