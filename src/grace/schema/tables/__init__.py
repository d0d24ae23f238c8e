"""Reading CSV and Parquet tables as people have them, and writing CSV."""
