def write(results, out):
    print(len(results))
