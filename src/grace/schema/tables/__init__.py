"""Reading CSV and Parquet tables as people have them.

reading       a whole table as a DataFrame
csv_text      encoding, delimiter and header of CSV
text_columns  columns of text as numbers, dates or categories; text_cells has the cells
table_file    a table of any size in parts; csv_files is CSV in parts, arrow what pyarrow says of files
"""
