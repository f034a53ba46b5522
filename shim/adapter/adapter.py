print("adapter", LIBRARY)
